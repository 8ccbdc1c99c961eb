"""A package's files -> its checked documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tfapp.documents import Document, read_document
from tfapp.documents.decode import MAX_BYTES
from tfapp.documents.scalars import source_text
from tfapp.errors import TfappError
from tfapp.package.checked import CheckedDocument, Locator
from tfapp.package.find import NAMES, SCHEMA_FILE, find_document, nearby_hint, place, syntax_of
from tfapp.package.model import MASTER_NAMES, ConfigValue, Source
from tfapp.package.overrides import Overrides
from tfapp.package.rules.components import UNKNOWN_COMPONENT, not_in_metainfo
from tfapp.problems import Position, Problem, has_errors
from tfapp.schema import check_document, check_extension, defaults
from tfapp.schema.check import IGNORED

UNREADABLE = "unreadable"

# Kinds of documents, and the flags that give one in place of the package's.
_FLAGS = {"appConfig": "--template", "resources": "--resources", "metainfo": ""}


class _Content(NamedTuple):
    label: str
    data: bytes
    syntax: str


class DocumentReader:
    """Reads the documents of one package; collects their errors in `problems`."""

    def __init__(self, source: Source, overrides: Overrides):
        self.problems: list[Problem] = []
        self._source = source
        self._overrides = overrides
        self._extra: Mapping[str, Any] | None = None
        self._extension: Document | None = None
        self._unusable_extension = False

    def extension(self) -> Mapping[str, Any] | None:
        """The package's own declaration of site.* keys, None without one. Read it before appConfig:
        when it is unusable, appConfig cannot be checked."""
        if SCHEMA_FILE not in self._source.files():
            return None
        document = self._document(self._packaged(SCHEMA_FILE))
        if document is not None:
            self._extra, problems = check_extension(document)
            self.problems += problems
            self._extension = document
        self._unusable_extension = self._extra is None
        return self._extra

    def defaults(self) -> dict[str, ConfigValue]:
        """The defaults of appConfig's schema and of the package's extension of it, for keys without
        a value, with their positions."""
        found = defaults("appConfig", extra=self._extra)
        return {key: self._default(key, source_text(value)) for key, value in found.items()}

    def _default(self, key: str, text: str) -> ConfigValue:
        at = Position(SCHEMA_FILE)
        declared = (self._extra or {}).get("properties", {}).get(key)
        if declared is not None and self._extension is not None:
            path = ("properties", key, "default")
            at = self._extension.at(path if "default" in declared else path[:2])
        return ConfigValue(text, at, at, is_default=True)

    def document(
        self, kind: str, path: Path | None = None, extra: Mapping[str, Any] | None = None
    ) -> CheckedDocument:
        """The document of `kind`, from `path` or else the package, with the command line's
        changes, checked against its schema."""
        content = self._given(path) if path is not None else self._own(kind)
        document = self._document(content)
        if document is not None and kind == "metainfo" and document.root.value is None:
            hint = "it says what the application consists of; `tfapp init` makes one to begin with"
            self.problems.append(Problem(document.at(()), "empty", "the file is empty", hint=hint))
            document = None
        if content is None or document is None:
            return CheckedDocument.empty(self._source.label, sound=False)
        if kind == "appConfig" and self._unusable_extension:
            return CheckedDocument.empty(content.label, sound=False)
        original, document = document, self._overrides.apply(kind, document)
        data, problems = check_document(document, kind, extra)
        if has_errors(problems):
            mistaken = path and self._of_another_kind(original, kind)
            self.problems += (mistaken,) if mistaken else problems
            return CheckedDocument.empty(content.label, sound=False)
        self.problems += problems
        ignored = frozenset(problem.position for problem in problems if problem.code == IGNORED)
        locator = Locator(document, content.data.decode("utf-8-sig"))
        return CheckedDocument(document, data, locator, ignored=ignored)

    def refuse_others(self, components: Sequence[str]) -> None:
        """Makes overrides of the command line a Problem if they are for a component that is neither
        among `components`, those of metainfo, nor the application master."""
        known = {*components, *MASTER_NAMES}
        unknown = set()
        for override in self._overrides.entries():
            name = override.component
            if name is not None and name not in known:
                at, message, hint, _ = not_in_metainfo(name, override.at, components)
                self.problems.append(Problem(at, UNKNOWN_COMPONENT, message, hint=hint))
                unknown.add(name)
        self._overrides = self._overrides.without(unknown)

    def _of_another_kind(self, document: Document, kind: str) -> Problem | None:
        """The Problem of a file that was given as `kind` and is another kind of document."""
        if self._is(document, kind):  # the command line's changes are wrong
            return None
        for other, flag in _FLAGS.items():
            if other != kind and self._is(document, other):
                message = f"expected {kind}, found {other}"
                hint = f"give it with {flag}" if flag else "a package has one of its own"
                return Problem(document.at(()), "wrong-document", message, hint=hint)
        return None

    def _is(self, document: Document, kind: str) -> bool:
        extra = self._extra if kind == "appConfig" else None
        return not has_errors(check_document(document, kind, extra)[1])

    def _own(self, kind: str) -> _Content | None:
        """The package's own document; an empty one where it may lack."""
        found = find_document(self._source, kind)
        self.problems += found.problems
        if found.path:
            return self._packaged(found.path)
        if found.problems:
            return None
        return _Content(str(place(self._source, NAMES[kind][0])), b"{}", "json")

    def _given(self, path: Path) -> _Content | None:
        """The document at `path`; a name without a folder that is no file may be one of the
        package's, as in Slider's `--template appConfig-default.json`."""
        if not path.exists() and str(path) in self._source.files():
            return self._packaged(str(path))
        syntax = syntax_of(path.name)
        if path.is_dir():
            message, hint = "this is a folder", "give a .yaml or a .json file"
        elif not path.exists():
            message, hint = "there is no such file", nearby_hint(path, "check the path")
        elif not syntax:
            message, hint = "expected a .yaml or a .json file", "rename it"
        else:
            try:
                with path.open("rb") as file:
                    return _Content(str(path), file.read(MAX_BYTES + 1), syntax)
            except OSError as error:
                message, hint = f"it cannot be read: {error.strerror}", "check its permissions"
        self.problems.append(Problem(Position(str(path)), UNREADABLE, message, hint=hint))
        return None

    def _packaged(self, path: str) -> _Content | None:
        at = place(self._source, path)
        try:
            return _Content(at.file, self._source.read(path), syntax_of(path))
        except TfappError as error:
            self.problems.append(Problem(at, UNREADABLE, error.message, hint=error.hint))
            return None

    def _document(self, content: _Content | None) -> Document | None:
        if content is None:
            return None
        document, problems = read_document(content.label, content.data, content.syntax)
        self.problems += problems
        return document
