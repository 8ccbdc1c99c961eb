"""A TFJob's manifest with the positions of its fields, and what is to be said of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tfapp.documents import Document, read_document
from tfapp.documents.decode import MAX_BYTES
from tfapp.errors import InvalidPackageError, NotFoundError
from tfapp.problems import ERROR, WARNING, Position, Problem, has_errors

CODE = "tfjob"
API, KIND = "kubeflow.org/v1", "TFJob"
NOT_OF_V1 = "training operator 1.x has no such field"


class InvalidManifestError(InvalidPackageError):
    """It is no sound TFJob of kubeflow.org/v1. `problems`: why, each with its position."""

    what = "the manifest"


class Manifest:
    """A TFJob, and the problems that are found while it is read."""

    def __init__(self, document: Document):
        self.document = document
        self.problems: list[Problem] = []

    @property
    def root(self) -> Section:
        return Section(self, ())

    @property
    def file(self) -> str:
        return self.document.file

    def at(self, *path: str | int) -> Position:
        return self.document.nearest(path)

    def say(self, severity: str, message: str, hint: str, *path: str | int) -> None:
        self.problems.append(Problem(self.at(*path), CODE, message, severity, hint))


class Section:
    """A mapping of the manifest. The fields that nobody takes are told by `untaken`."""

    def __init__(self, manifest: Manifest, path: tuple[str | int, ...]):
        self.manifest, self.path = manifest, path
        found = manifest.document.data
        for step in path:
            found = found[step]
        if not isinstance(found, Mapping):
            self.wrong("a mapping", found)
            found = {}
        self.data: Mapping[str, Any] = {k: v for k, v in found.items() if v is not None}
        self._taken: set[str] = set()

    @property
    def name(self) -> str:
        return ".".join(map(str, self.path)) or "the manifest"

    def take(self, key: str, kind: type | tuple[type, ...]) -> Any:
        """The value of a field, None where it is missing, empty, or of another type, which is an
        error."""
        self._taken.add(key)
        value = self.data.get(key)
        if value is None:
            return None
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
            expected = {int: "a whole number", str: "text", bool: "true or false", list: "a list"}
            self.wrong(expected.get(kind, "a mapping"), value, key)  # type: ignore[arg-type]
            return None
        return value

    def number(self, key: str, least: int = 0) -> int | None:
        """A whole number of at least `least`; None as `take` has it."""
        value = self.take(key, int)
        if value is not None and value < least:
            self.wrong(f"{least} or more", value, key)
            return None
        return value

    def word(self, key: str, *words: str) -> str | None:
        """A text that is one of `words`; None as `take` has it."""
        value = self.take(key, str)
        if value is not None and value not in words:
            self.wrong(" or ".join(map(repr, filter(None, words))), repr(value), key)
            return None
        return value

    def section(self, key: str) -> Section | None:
        """The mapping at a field; None as `take` has it."""
        return None if self.take(key, dict) is None else Section(self.manifest, (*self.path, key))

    def sections(self, key: str) -> list[Section]:
        """The mappings in the list at a field."""
        items = self.take(key, list) or ()
        return [Section(self.manifest, (*self.path, key, index)) for index in range(len(items))]

    def texts(self, key: str) -> list[str]:
        """The texts in the list at a field, each as it is written."""
        count = len(self.take(key, list) or ())
        paths = [(*self.path, key, index) for index in range(count)]
        try:
            return [self.manifest.document.text(path) for path in paths]
        except KeyError:
            self.wrong("a list of texts", "something else", key)
            return []

    def text(self, key: str) -> str:
        """The scalar at a field, as it is written; "" as `take` has None."""
        self._taken.add(key)
        if key not in self.data:
            return ""
        try:
            return self.manifest.document.text((*self.path, key))
        except KeyError:
            self.wrong("text", self.data[key], key)
            return ""

    def untaken(self) -> Iterator[str]:
        return (key for key in self.data if key not in self._taken)

    def refuse_others(self, why: str = NOT_OF_V1) -> None:
        """Says of all fields that nobody has taken that they are not carried over."""
        for key in self.untaken():
            self.left(key, why)

    def left(self, key: str, why: str, hint: str = "") -> None:
        """Says that a field is not carried over."""
        self._taken.add(key)
        message = f"{self.name}.{key}" if self.path else key
        self.manifest.say(WARNING, f"{message} is not carried over: {why}", hint, *self.path, key)

    def differs(self, key: str, what: str, hint: str = "") -> None:
        """Says that a field is carried over, with another meaning."""
        self.manifest.say(WARNING, f"{self.name}.{key}: {what}", hint, *self.path, key)

    def wrong(self, expected: str, found: object, *key: str) -> None:
        path = (*self.path, *key)
        name = ".".join(map(str, path)) or "the manifest"
        shown = {dict: "a mapping", list: "a list", type(None): "nothing"}.get(type(found), found)
        self.manifest.say(ERROR, f"{name}: expected {expected}, found {shown}", "", *path)


def read_manifest(path: Path) -> Manifest:
    """The TFJob in a file of YAML or JSON. NotFoundError; InvalidManifestError where it is not one
    TFJob of kubeflow.org/v1."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise NotFoundError(f"{path} cannot be read: {error.strerror}") from error
    syntax = "json" if path.suffix == ".json" else "yaml"
    document, problems = read_document(str(path), data, syntax)
    if document is None or has_errors(problems):
        raise InvalidManifestError(problems)
    manifest = Manifest(document)
    _check_kind(manifest)
    if manifest.problems:
        raise InvalidManifestError(tuple(manifest.problems))
    return manifest


def _check_kind(manifest: Manifest) -> None:
    data = manifest.document.data
    if not isinstance(data, Mapping):
        manifest.say(ERROR, f"expected a {KIND}, found no mapping", "")
        return
    api, kind = data.get("apiVersion"), data.get("kind")
    if kind != KIND:
        hint = "give the file of one TFJob"
        if kind == "List":
            hint += ": `kubectl get tfjob NAME -o yaml` writes one"
        found = f"'{kind}'" if kind else "no kind"
        manifest.say(ERROR, f"expected the kind {KIND}, found {found}", hint, "kind")
    elif api != API:
        hint = "`kubectl get tfjob NAME -o yaml` writes it in the version that the cluster has"
        found = f"'{api}'" if api else "no apiVersion"
        message = f"expected a {KIND} of {API}, found {found}"
        manifest.say(ERROR, message, hint, "apiVersion")
