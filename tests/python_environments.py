"""Small Python environments, packed as venv-pack packs them. No network is needed: what this
interpreter has installed, they find by a path file."""

from __future__ import annotations

import os
import sysconfig
import tarfile
import venv
from pathlib import Path


def make(folder: Path, borrow: bool = True) -> Path:
    """A virtual environment; with `borrow` it finds what is installed for this interpreter."""
    venv.create(folder, with_pip=False, symlinks=True)
    if borrow:
        version = sysconfig.get_python_version()
        site = folder / "lib" / f"python{version}" / "site-packages"
        (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def pack(environment: Path, target: Path) -> Path:
    """As venv-pack: relative names, links as they are."""
    with tarfile.open(target, "w:gz") as archive:
        for name in sorted(os.listdir(environment)):
            archive.add(environment / name, name)
    return target
