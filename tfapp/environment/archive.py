"""Validates an archive of a Python environment without unpacking it."""

from __future__ import annotations

import json
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

PEX = ".pex"
PYTHON = "bin/python"

_PEX_INFO = "PEX-INFO"
_FITTING = ("any", "linux", "manylinux", "musllinux")  # how platforms of fitting wheels begin


class UnfitError(Exception):
    """A file cannot be used as an environment. The message continues a sentence about the file."""


def is_pex(name: str) -> bool:
    """Whether a path or URL names a PEX file, which is not unpacked."""
    return name.endswith(PEX)


def look(path: Path) -> None:
    """UnfitError if the file is no archive of an environment, or is for another platform. Reads the
    archive up to the interpreter."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise UnfitError("is not a regular file")
        if is_pex(path.name):
            _look_into_pex(path)
        else:
            _look_into_tar(path)
    except (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error) as error:
        words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UnfitError(f"cannot be read: {words}") from error


def _look_into_tar(path: Path) -> None:
    with tarfile.open(path, "r:gz") as archive:
        first = ""
        for member in archive:
            first = first or member.name
            if member.name.removeprefix("./") == PYTHON:
                return
    top = first.removeprefix("./").partition("/")[0]
    raise UnfitError(
        f"has no {PYTHON}, it begins with {top!r}: is it an environment that was packed by "
        "conda-pack or venv-pack?"
    )


def _look_into_pex(path: Path) -> None:
    if not zipfile.is_zipfile(path):
        raise UnfitError("is not a PEX: it is no zip file")
    with zipfile.ZipFile(path) as archive:
        if _PEX_INFO not in archive.namelist():
            raise UnfitError(f"is not a PEX: there is no {_PEX_INFO} in it")
        try:
            info = json.loads(archive.read(_PEX_INFO))
            foreign = _without_linux_wheel(dict(info.get("distributions", {})))
        except (ValueError, RuntimeError, AttributeError, TypeError) as error:
            raise UnfitError(f"is not a PEX: its {_PEX_INFO} cannot be read") from error
    if not os.access(path, os.X_OK):
        raise UnfitError("may not be executed: chmod +x")
    if not info.get("venv"):
        raise UnfitError("is a PEX without a virtual environment: build it with `pex --venv`")
    if foreign:
        raise UnfitError(f"is for another platform: of {foreign} it has no wheel for Linux")


def _without_linux_wheel(wheels: Iterable[str]) -> str:
    """A distribution that has only wheels for other platforms; "" for none."""
    fits: dict[str, bool] = {}
    for wheel in wheels:
        words = wheel.removesuffix(".whl").split("-")
        fitting = any(platform.startswith(_FITTING) for platform in words[-1].split("."))
        fits[words[0]] = fits.get(words[0], False) or fitting
    return next((name for name, fitting in sorted(fits.items()) if not fitting), "")
