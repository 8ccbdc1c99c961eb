"""Relocatable interpreters for any platform, downloaded by uv (python-build-standalone)."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from tfapp.environment.archive import UnfitError
from tfapp.environment.interpreter import run, search_path


def download(
    wanted: str,
    platform: str,
    folder: Path,
    environ: Mapping[str, str],
    note: Callable[[str], None],
) -> Path:
    """Downloads an interpreter of version `wanted` for `platform` ("linux-x86_64") to `folder`.
    Returns its path, FOLDER/.../bin/pythonX.Y. uv is searched for beside this interpreter and on
    PATH; its own variables apply, such as UV_PYTHON_INSTALL_MIRROR. UnfitError if there is no uv,
    or it fails."""
    program = shutil.which("uv", path=search_path(environ))
    if program is None:
        raise UnfitError("it is not installed")
    note(f"uv brings Python {wanted} for {platform}")
    words = [program, "python", "install", "--install-dir", str(folder)]
    own = {**environ, "UV_PYTHON_INSTALL_BIN": "0"}  # nothing in the user's own folders
    run([*words, f"cpython-{wanted}-{platform}-gnu"], own)
    minor = ".".join(wanted.split(".")[:2])
    for found in sorted(folder.glob(f"*/bin/python{minor}")):
        return found.resolve()
    raise UnfitError(f"it brought no python{minor}")
