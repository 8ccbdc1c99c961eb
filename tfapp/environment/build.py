"""Makes an archive of a Python environment out of requirements: a virtual environment that pip
fills, packed. Once for each set of requirements, interpreter and platform."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tfapp.environment.archive import PYTHON
from tfapp.environment.partial import partial_folder
from tfapp.errors import UnavailableError

LIMIT = 3600.0  # seconds for pip
KEPT_LINES = 4  # of pip's last words

# What tfapp's own part of a container imports, as setup.cfg has it.
OWN = ("skein>=0.8.2", "grpcio>=1.50", "protobuf>=4", "setuptools", "docker>=6")

_COMPRESSION = 1  # zlib's fastest: a third larger than its best, in a fifth of the time


def parse_requirements(text: str) -> tuple[str, ...]:
    """ "a==1, b[x,y]>=2,<3" -> its requirements. Commas separate requirements but not what is
    in brackets, nor one clause of a version from the next."""
    found: list[str] = []
    depth = 0
    for piece in text.replace("\n", ",,").split(","):
        clause = piece.strip()[:1] in ("<", ">", "=", "!", "~") and bool(found)
        if depth or (clause and found[-1]):
            found[-1] += "," + piece.strip()
        else:
            found.append(piece.strip())
        depth = max(depth + piece.count("[") - piece.count("]"), 0)
    return tuple(sorted(filter(None, found)))


def archive_of(requirements: tuple[str, ...], environments: Path, python: str) -> Path:
    """Where the archive lies, or will: named by all that determines what is in it."""
    decisive = {
        "requirements": [*requirements, *OWN],
        "python": [os.path.realpath(python), platform.python_version()],
        "platform": [sys.platform, platform.machine()],
    }
    digest = hashlib.sha256(json.dumps(decisive).encode()).hexdigest()[:24]
    return environments / f"{digest}.tar.gz"


def build(
    requirements: tuple[str, ...],
    environments: Path,
    python: str,
    environ: Mapping[str, str],
    note: Callable[[str], None],
) -> Path:
    """The archive of `requirements`, made unless it is there. `note` hears of progress.
    UnavailableError when pip fails, with its last words; nothing half-made remains."""
    archive = archive_of(requirements, environments, python)
    if archive.exists():
        return archive
    note(f"makes a Python environment of {', '.join(requirements)}: once, it takes a while")
    with partial_folder(environments) as folder:
        target = folder / "environment"
        _make_environment(target, python, environ)
        _install(target, (*requirements, *OWN), environ, note)
        note("packs the Python environment")
        packed = folder / "packed.tar.gz"
        _pack(target, packed)
        os.replace(packed, archive)
    note(f"{archive}: {archive.stat().st_size / (1 << 20):.0f} MiB")
    return archive


def _make_environment(target: Path, python: str, environ: Mapping[str, str]) -> None:
    done = subprocess.run(
        [python, "-m", "venv", str(target)],
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise UnavailableError(
            f"{python} makes no virtual environment: {lines[0] if lines else done.returncode}",
            "Debian and Ubuntu have the module venv in the package python3-venv.",
        )


def _install(
    target: Path,
    requirements: tuple[str, ...],
    environ: Mapping[str, str],
    note: Callable[[str], None],
) -> None:
    """pip's own configuration and variables hold: an index, a folder of wheels, no network."""
    command = [str(target / PYTHON), "-m", "pip", "install", "--disable-pip-version-check"]
    command += ["--no-input", "--progress-bar", "off", "--", *requirements]
    with tempfile.TemporaryFile("w+") as errors:
        pip = subprocess.Popen(
            command,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        with pip:
            for line in pip.stdout or ():
                if line.startswith(("Collecting ", "Installing ", "Building ")):
                    note(f"pip: {line.strip()[:200]}")
        if pip.returncode:
            errors.seek(0)
            raise _failed(errors.read())


def _failed(words: str) -> UnavailableError:
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    said = [line for line in lines if line.startswith("ERROR:")] or lines
    last = "\n  ".join(said[-KEPT_LINES:]) or "it gave no reason"
    return UnavailableError(
        f"pip could not install what site.global.python.packages names:\n  {last}",
        "Check the names and versions, and pip's index: `pip config list`.",
    )


def _pack(environment: Path, target: Path) -> None:
    """The interpreter first: whoever looks for it need not read on."""
    with tarfile.open(target, "w:gz", compresslevel=_COMPRESSION) as archive:
        for name in ("bin", *sorted(set(os.listdir(environment)) - {"bin"})):
            archive.add(environment / name, name, filter=_packed)


def _packed(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
