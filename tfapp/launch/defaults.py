"""The user's defaults: the engine of commands and calls that name none, and flags of engines.

The engine is that of `--engine` (in a call: `engine=`), else of the variable TFAPP_ENGINE, else of
the file TFAPP_HOME/config.yaml, else "local". The file may also have values for engines' own flags,
under the engine's name; a flag counts more:

    engine: yarn
    yarn:
      queue: research
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfapp.close_match import did_you_mean
from tfapp.engines import DEFAULT_ENGINE, ENGINE_VARIABLE, ENGINES, check_engine, engine_options
from tfapp.errors import InvalidPackageError, UnavailableError
from tfapp.frozen import frozen
from tfapp.problems import Position, Problem

if TYPE_CHECKING:
    from tfapp.documents import Document

FILE = "config.yaml"  # below TFAPP_HOME
_ENGINE = "engine"


class InvalidDefaultsError(InvalidPackageError):
    """The user's config.yaml has errors. `problems`: all findings, each with its position."""

    what = FILE


@frozen
class Defaults:
    """The user's defaults. `engine`: the name of the engine. `options`: engine -> flag -> value."""

    engine: str
    options: Mapping[str, Mapping[str, str]]

    def of(self, engine: str) -> Mapping[str, str]:
        """The values of the flags of an engine that the user has set."""
        return self.options.get(engine, {})

    def environ(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """`environ` with the default engine in it, so that commands that an engine's hints name
        find the same applications."""
        if self.engine == DEFAULT_ENGINE:
            return environ
        return {**environ, ENGINE_VARIABLE: self.engine}


def read_defaults(home: Path, environ: Mapping[str, str]) -> Defaults:
    """Reads the defaults of the user whose TFAPP_HOME is `home`. UsageError when TFAPP_ENGINE
    names no engine, InvalidDefaultsError when the file is wrong, UnavailableError when it cannot
    be read."""
    data = _read(home / FILE)
    engine = environ.get(ENGINE_VARIABLE, "")
    if engine:
        check_engine(engine, ENGINE_VARIABLE)
    options = {name: data[name] for name in ENGINES if name in data}
    return Defaults(engine or data.get(_ENGINE, DEFAULT_ENGINE), options)


def _read(path: Path) -> dict[str, Any]:
    """The file's data: {"engine": ..., engine: {flag: value}}."""
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise UnavailableError(
            f"{path} cannot be read: {error.strerror}", "Make it readable, or remove it."
        ) from error
    from tfapp.documents import read_document

    document, found = read_document(str(path), content, "yaml")
    problems = list(found)
    if document is not None:
        problems += _problems(document)
    if problems or document is None:
        raise InvalidDefaultsError(tuple(sorted(problems)))
    return {
        key: value if key == _ENGINE else {flag: str(text) for flag, text in value.items()}
        for key, value in (document.data or {}).items()
        if value is not None
    }


def _problems(document: Document) -> Iterator[Problem]:
    root = document.root
    if root.value is None:
        return
    if not isinstance(root.value, dict):
        yield _wrong(root.at, f"expected a mapping with the key {_ENGINE!r}")
        return
    for key, entry in root.value.items():
        if key == _ENGINE:
            if entry.node.text not in ENGINES or isinstance(entry.node.value, (dict, tuple)):
                said = _said(document, key)
                known = f"Engines: {', '.join(sorted(ENGINES))}."
                hint = did_you_mean(said, ENGINES, known)
                yield Problem(
                    entry.node.at, "unknown-engine", f"there is no engine {said!r}", hint=hint
                )
        elif key in ENGINES:
            yield from _section_problems(document, key)
        else:
            yield _unknown(entry.key_at, key, (_ENGINE, *ENGINES), "")


def _section_problems(document: Document, engine: str) -> Iterator[Problem]:
    flags = {option.name for option in engine_options(engine)}
    node = document.node((engine,))
    if node.value is None:
        return
    if not isinstance(node.value, dict):
        yield _wrong(node.at, f"{engine!r} is a mapping of its flags to their values")
        return
    for key, entry in node.value.items():
        if key not in flags:
            yield _unknown(entry.key_at, key, flags, f" of the engine {engine}")
        elif not isinstance(entry.node.value, str):
            yield _wrong(entry.node.at, f"'{engine}.{key}' is a text; put it in quotes")


def _said(document: Document, key: str) -> str:
    try:
        return document.text((key,))
    except KeyError:
        return "a mapping" if isinstance(document.data[key], dict) else "a list"


def _wrong(at: Position, message: str) -> Problem:
    return Problem(at, "wrong-value", message)


def _unknown(at: Position, key: str, known: set[str] | tuple[str, ...], of: str) -> Problem:
    names = ", ".join(sorted(known))
    hint = did_you_mean(key, known, f"Keys: {names}." if names else "It has none.")
    return Problem(at, "unknown-key", f"unknown key {key!r}{of}", hint=hint)
