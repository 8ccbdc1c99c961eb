"""Writes a package with everything that a request adds to it: its documents with the changes of the
request in them, its scripts, and its programs with the user's own files among them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfapp.documents import render_yaml
from tfapp.errors import InvalidPackageError, UsageError
from tfapp.package.find import ALL_NAMES, NAMES
from tfapp.package.load import Loaded
from tfapp.package.model import FILES, Source
from tfapp.problems import Problem

_NUMBER = re.compile(r"(0|-?[1-9][0-9]*)\Z")


def write_package(
    folder: Path, loaded: Loaded, environment: Mapping[str, str]
) -> tuple[Problem, ...]:
    """Writes a package to the empty `folder`. `environment` becomes keys env.NAME of appConfig.
    Returns warnings.

    InvalidPackageError with every finding, before anything is written; OSError.
    """
    if loaded.package is None or loaded.documents is None:
        raise InvalidPackageError(loaded.problems)
    source, user_files = loaded.package.source, loaded.package.user_files
    documents = {kind: dict(one.document.data) for kind, one in loaded.documents.by_kind.items()}
    variables = {f"env.{name}": _literal(name, text) for name, text in environment.items()}
    documents["appConfig"].setdefault("global", {}).update(variables)
    content = {path: source.read(path) for path in source.files() if path not in ALL_NAMES}
    for kind, document in documents.items():
        content[NAMES[kind][0]] = render_yaml(_with_numbers(document)).encode()
    content.update({FILES + path: origin.read_bytes() for path, origin in user_files.items()})
    for path, data in content.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        origin = user_files.get(path[len(FILES) :]) if path.startswith(FILES) else None
        if origin.stat().st_mode & 0o100 if origin else _executable(source, path):
            target.chmod(target.stat().st_mode | 0o111)
    return loaded.problems


def _executable(source: Source, path: str) -> bool:
    return path in source.files() and source.executable(path)


def _literal(name: str, text: str) -> str:
    if "${" in text:
        raise UsageError(
            f"the variable {name} holds '${{', which a package takes for a placeholder",
            "Give it by an environment file when the package is run.",
        )
    return text


def _with_numbers(data: Any) -> Any:
    """`data` with numbers in place of numbers in text, which overrides bring. Both mean the same in
    a package."""
    if isinstance(data, dict):
        return {key: _with_numbers(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_with_numbers(value) for value in data]
    return int(data) if isinstance(data, str) and _NUMBER.match(data) else data
