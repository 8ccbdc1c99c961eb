"""Checks files that are shipped: names stay inside a package, and there are limits on their
size."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from pathlib import PurePosixPath

from tfapp.schema import is_refused

MAX_FILES = 10_000
MAX_TOTAL = 1024**3  # bytes of all files, unpacked

IGNORE_FILE = ".tfappignore"  # in a folder's root: patterns as of .gitignore
SCHEMAS = ".schemas"  # for editors
# Never part of a package: version control, and what tools keep beside the files they work on.
_TOLD = {
    *(".git", ".hg", ".svn", ".tox", ".nox", ".eggs", ".idea", ".vscode", "node_modules"),
    *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".ipynb_checkpoints"),
}
# Nobody has to be told of these.
UNTOLD = frozenset({"__pycache__", ".DS_Store", IGNORE_FILE, SCHEMAS})
NOT_SHIPPED = frozenset(_TOLD) | UNTOLD
# In a folder that is a virtual environment, which is no part of one either.
VIRTUAL_ENVIRONMENT = "pyvenv.cfg"

UNSAFE, UNUSABLE = "unsafe-path", "package"


class UnsafeSourceError(Exception):
    """A source cannot be shipped, because of the file `path` in it, or "" for all of it."""

    def __init__(self, path: str, message: str, hint: str = "", code: str = UNSAFE):
        super().__init__(message)
        self.path, self.message, self.hint, self.code = path, message, hint, code


def is_reserved_variable(name: str) -> bool:
    """Whether users may not set the environment variable `name`, neither by `env.NAME` of appConfig
    nor by a credential or an environment file."""
    return is_refused("appConfig", "config", f"env.{name}")


def unsafe_reason(path: str) -> str:
    """The reason why `path` cannot name a file inside a package, in words that follow it ("is an
    absolute path"), or "" when it can."""
    if path in ("", "."):
        return "is empty"
    if any(ord(character) < 32 or ord(character) == 127 for character in path):
        return "has a control character in it"
    if path.startswith("/") or path[1:2] == ":":
        return "is an absolute path"
    if "\\" in path:
        return "has a backslash in it"
    if ".." in path.split("/"):
        return "leads out with '..'"
    if any("\ud800" <= character <= "\udfff" for character in path):
        return "is not UTF-8"
    return ""


def check_name(path: str) -> str:
    """Returns `path` if a shipped file may have this name; else UnsafeSourceError."""
    if reason := unsafe_reason(path):
        raise UnsafeSourceError("", f"the file name {path!r} {reason}", "rename the file")
    return path


def check_limits(count: int, total: int) -> None:
    """UnsafeSourceError when `count` files of `total` bytes are more than a package may hold."""
    hint = "put data where every container can read it, and its path into the configuration"
    if count > MAX_FILES:
        raise UnsafeSourceError("", f"there are more than {MAX_FILES} files", hint, UNUSABLE)
    if total > MAX_TOTAL:
        gibibytes = MAX_TOTAL // 1024**3
        raise UnsafeSourceError("", f"the files are larger than {gibibytes} GiB", hint, UNUSABLE)


def check_collisions(names: Iterable[str]) -> None:
    """UnsafeSourceError when two names differ only in capitals or in the encoding of an accent, or
    when one is a file and another a folder: on some systems one would overwrite the other."""
    seen: dict[str, str] = {}
    names = frozenset(names)
    for name in sorted(names):
        folders = [str(parent) for parent in PurePosixPath(name).parents]
        for path in (name, *folders):
            other = seen.setdefault(unicodedata.normalize("NFC", path).casefold(), path)
            if other != path:
                message = f"{path} and {other} differ only in capitals or accents"
                raise UnsafeSourceError(name, message, "rename one of them")
        if clash := names.intersection(folders):
            message = f"{min(clash)} is a file and a folder at once"
            raise UnsafeSourceError(name, message, "rename one of them")
