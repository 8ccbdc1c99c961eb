"""Environment files: `KEY=VALUE` lines. A value may be secret: none appears in a message."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from tfapp.errors import NotFoundError, UsageError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def read_env_file(path: Path, flag: str) -> dict[str, str]:
    """The variables of the file that `flag` names. Empty lines and lines that begin with # are
    left out, so is `export ` before a name; a value in a pair of quotes loses them. Nothing is
    expanded.

    NotFoundError when the file cannot be read, UsageError, with the line's number, for a line
    that sets nothing.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")  # with or without a byte order mark
    except OSError as error:
        raise NotFoundError(f"{flag} {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{flag} {path} is not UTF-8 text") from error
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            name, value = _parse(stripped, f"{path}:{number}")
            found[name] = value
    return found


def read_variables(given: Iterable[str], flag: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of `flag`: NAME=VALUE, NAME with its value in `environ`, or the path of an
    environment file. UsageError for a NAME that is not set there; NotFoundError for a file that
    cannot be read."""
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not _NAME.match(name) or Path(text).is_file():
            found.update(read_env_file(Path(text), flag))
        elif equals:
            found[name] = value
        elif name in environ:
            found[name] = environ[name]
        else:
            hint = f"Export it, or give its value: {flag} {name}=VALUE."
            raise UsageError(f"{flag} {name}: this shell has no such variable", hint)
    return found


def _parse(line: str, place: str) -> tuple[str, str]:
    name, equals, value = line.partition("=")
    words = name.split()
    if words[:1] == ["export"]:
        words = words[1:]
    if not equals or len(words) != 1 or not _NAME.match(words[0]):
        raise UsageError(f"{place}: this line sets no variable", "Expected: NAME=value")
    return words[0], _unquoted(value.strip())


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return value
