"""Reads the values of `credentials` where the submitting user keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tfapp.package.model import ConfigValue
from tfapp.problems import Problem

MAX_CREDENTIAL = 64 * 1024  # bytes; an environment variable holds 128 KiB at most

_FILE, _VARIABLE, _HOME = "file:", "env:", "~/"


def read_credentials(
    credentials: Mapping[str, ConfigValue], environ: Mapping[str, str], folder: Path
) -> tuple[dict[str, str], tuple[Problem, ...]]:
    """alias -> value, and a Problem for each value that cannot be read. `env:NAME` is looked up in
    `environ`, the submitting user's environment. `file:PATH` is read without the line end at its
    end; a relative path begins at `folder`."""
    values: dict[str, str] = {}
    problems: list[Problem] = []
    for alias, source in credentials.items():
        try:
            values[alias] = _checked(_read(source.text, environ, folder))
        except _UnusableError as error:
            message = f"credential {alias!r}: {error}"
            hint = "A credential is a file or an environment variable of the user who submits."
            problems.append(Problem(source.at, "credential", message, hint=hint))
    return values, tuple(sorted(problems))


class _UnusableError(Exception):
    """A credential cannot be used. The message gives the reason, never the value."""


def _read(source: str, environ: Mapping[str, str], folder: Path) -> str:
    if source.startswith(_VARIABLE):
        name = source[len(_VARIABLE) :]
        if name not in environ:
            raise _UnusableError(f"the environment variable {name} is not set")
        return environ[name]
    if source.startswith(_FILE):
        return _read_file(_path(source[len(_FILE) :], environ, folder))
    raise _UnusableError(f"expected file:PATH or env:NAME, found {source!r}")


def _path(text: str, environ: Mapping[str, str], folder: Path) -> Path:
    if text.startswith(_HOME) and environ.get("HOME"):
        return Path(environ["HOME"], text[len(_HOME) :])
    return folder / text


def _read_file(path: Path) -> str:
    try:
        with path.open("rb") as handle:
            data = handle.read(MAX_CREDENTIAL + 1)
    except OSError as error:
        raise _UnusableError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > MAX_CREDENTIAL:
        raise _UnusableError(f"{path} is longer than {MAX_CREDENTIAL} bytes")
    text = data.decode(errors="surrogateescape")
    return text[:-1].removesuffix("\r") if text.endswith("\n") else text


def _checked(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _UnusableError("its value is not UTF-8 text") from None
    if "\0" in text:
        raise _UnusableError("its value holds a NUL, which no environment variable can")
    return text
