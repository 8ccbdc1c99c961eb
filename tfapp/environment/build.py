"""Builds an archive of a Python environment from requirements: pip installs them into a virtual
environment or a relocatable interpreter, which is then packed. Built once for each combination of
requirements, interpreter and platform."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from importlib.machinery import PathFinder
from pathlib import Path

from tfapp import tools
from tfapp.contract.needs import REQUIREMENTS
from tfapp.disk import partial_folder, put_in_place
from tfapp.environment.archive import PYTHON, UnfitError, look
from tfapp.environment.interpreter import Installation, copy, copy_unseen, download, installations
from tfapp.environment.unpacked import note_use
from tfapp.errors import UnavailableError
from tfapp.frozen import frozen
from tfapp.standalone import foreign_pip

LIMIT = 3600.0  # seconds for pip
KEPT_LINES = 4  # of pip's last words

# The first lines of a script whose interpreter lies beside it: sh goes on in Python.
_BESIDE = b"""#!/bin/sh
'''exec' "$(dirname -- "$(realpath -- "$0")")/python" "$0" "$@"
' '''
"""

# A line of pyvenv.cfg.
_ALONE, _ADDED = (f"include-system-site-packages = {value}" for value in ("false", "true"))

_COMPRESSION = 1  # zlib's fastest: a third larger than its best, in a fifth of the time


def parse_requirements(text: str) -> tuple[str, ...]:
    """Splits "a==1, b[x,y]>=2,<3" into requirements. A comma does not separate requirements within
    brackets and between clauses of a version."""
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


HERE = f"{sys.platform}-{platform.machine()}"

# The newest C library that wheels for another machine may need: of Debian 10, RHEL 8 and later.
_GLIBC = 28


def version_here() -> str:
    """The version of this interpreter, "3.11"."""
    return "{}.{}".format(*sys.version_info)


def platform_of(text: str) -> str:
    """The platform of the nodes, for the value of site.global.python.platform."""
    return text or (HERE if HERE.startswith("linux-") else "linux-x86_64")


# What a linked environment may be added to: the packages of the interpreter that runs tfapp, which
# are here for its programs, or those that an image has for its interpreter of the same path.
MINE, THEIRS = "mine", "theirs"


@frozen
class Wanted:
    """The content of an environment. `version`: the version of its own interpreter, "3.11" or
    "3.11.7"; "" (only for this platform) links to the interpreter of tfapp. `platform`: the
    platform of the nodes, "linux-x86_64". `kept`: requirements that tfapp adds to the user's. An
    environment that links may be `added` to what is installed for its interpreter, MINE or THEIRS;
    `to` says what that is."""

    requirements: tuple[str, ...]
    version: str = ""
    platform: str = HERE
    kept: tuple[str, ...] = ()
    added: str = ""
    to: tuple[str, ...] = ()

    @property
    def minor(self) -> str:
        return ".".join(self.version.split(".")[:2])

    def __str__(self) -> str:
        words = [f"Python {self.version}"] if self.version else []
        words += [*self.requirements, *self.kept]
        return ", ".join(words) + ("" if self.platform == HERE else f" for {self.platform}")


def wanted(packages: str, version: str, platform: str, here: bool) -> Wanted:
    """The environment for the values of site.global.python.packages, .version and .platform; "" for
    a value that is not set. `here`: the containers run on this machine. For another platform the
    environment has its own interpreter, by default in the version that runs tfapp."""
    platform = HERE if here and not platform else platform_of(platform)
    if platform != HERE:
        version = version or version_here()
    return Wanted(parse_requirements(packages), version, platform)


@frozen
class _Source:
    """The source of the interpreter. `decisive`: the text that identifies it. `installation`: the
    installation to copy; None if uv downloads it or there is none."""

    decisive: tuple[str, ...]
    installation: Installation | None = None

    def __str__(self) -> str:
        return " ".join(self.decisive[1:]) if self.installation else self.decisive[0]


def _sources(wanted: Wanted, python: str, environ: Mapping[str, str]) -> Iterator[_Source]:
    if not wanted.version:
        yield _Source(("venv", os.path.realpath(python), platform.python_version()))
        return
    if wanted.platform == HERE:
        for found in installations(wanted.version, python, environ):
            yield _Source(("copy", os.path.realpath(found.prefix), found.version), found)
    yield _Source(("uv", wanted.version))


def _place(wanted: Wanted, source: _Source, environments: Path) -> Path:
    decisive = {
        "requirements": [*wanted.requirements, *wanted.kept, *REQUIREMENTS],
        "python": source.decisive,
        "platform": wanted.platform,
    }
    if wanted.added:
        decisive["added"] = [wanted.added, *wanted.to]
    digest = hashlib.sha256(json.dumps(decisive).encode()).hexdigest()[:24]
    return environments / f"{digest}.tar.gz"


def archive_of(wanted: Wanted, environments: Path, python: str, environ: Mapping[str, str]) -> Path:
    """The path of the archive, which need not exist. The name depends on everything that determines
    the content. If the first interpreter turns out not to be relocatable, `build` uses another
    name."""
    source = next(_sources(wanted, python, environ))
    return _place(wanted, source, environments)


def build(
    wanted: Wanted,
    environments: Path,
    python: str,
    environ: Mapping[str, str],
    note: Callable[[str], None],
) -> Path:
    """Returns the archive of the `wanted` environment, and builds it if it does not exist. `note`
    is called with progress messages. UnavailableError, with the last lines of the output, if there
    is no such interpreter or pip fails; no partial archive is left."""
    refused = []
    for source in _sources(wanted, python, environ):
        archive = _place(wanted, source, environments)
        with contextlib.suppress(UnfitError):  # there is none, or it is damaged
            look(archive)
            note_use(archive)
            return archive
        try:
            with partial_folder(environments) as folder:
                note(f"makes a Python environment of {wanted}: once, it takes a while")
                target = _make(wanted, source, folder, python, environ, note)
                note("packs the Python environment")
                packed = folder / "packed.tar.gz"
                _pack(target, packed)
                put_in_place(packed, archive, folder / "damaged")
        except UnfitError as error:
            refused.append(f"{source}: {error}")
        else:
            note(f"{archive}: {archive.stat().st_size / (1 << 20):.0f} MiB")
            return archive
    message = f"there is no Python {wanted.version} to send to {wanted.platform}"
    hint = "`pip install uv`: it brings one"
    if wanted.platform == HERE:
        hint += f"; or install Python {wanted.version} on this machine"
    raise UnavailableError("\n  ".join([message, *refused]), f"{hint}.")


def _make(
    wanted: Wanted,
    source: _Source,
    folder: Path,
    python: str,
    environ: Mapping[str, str],
    note: Callable[[str], None],
) -> Path:
    """Builds the environment below `folder`. UnfitError if its interpreter is not relocatable."""
    target = folder / "environment"
    if not wanted.version:
        _make_environment(target, python, environ)
        runs_pip = str(target / PYTHON)
        if wanted.added == MINE:
            _add_to_mine(target, python, environ)
        _install([runs_pip, "-m", "pip"], [], wanted, environ, note)
        if wanted.added == THEIRS:
            settings = target / "pyvenv.cfg"
            settings.write_text(settings.read_text().replace(_ALONE, _ADDED))
    elif wanted.platform == HERE:
        original = source.installation
        if original is None:
            program = download(wanted.version, wanted.platform, folder / "uv", environ, note)
            original = Installation(str(program), str(program.parent.parent), wanted.version)
        target.mkdir()
        copy(original, target, environ)
        runs_pip = with_pip(original.executable, folder / "helper", environ)
        options = ["--prefix", str(target), "--ignore-installed", "--no-warn-script-location"]
        _install([runs_pip, "-m", "pip"], options, wanted, environ, note)
    else:
        program = download(wanted.version, wanted.platform, folder / "uv", environ, note)
        target.mkdir()
        packages = copy_unseen(program, target)
        runs_pip = with_pip(python, folder / "helper", environ)
        pip = [runs_pip, foreign_pip.__file__, json.dumps(markers(wanted))]
        _install(pip, ["--target", str(packages), *wheels(wanted)], wanted, environ, note)
        _move(packages / "bin", target / "bin")
    for script in sorted((target / "bin").iterdir()):
        if script.is_file() and not script.is_symlink():
            _make_relocatable(script, runs_pip)
    return target


def _add_to_mine(target: Path, python: str, environ: Mapping[str, str]) -> None:
    """Lets a virtual environment find what is installed for `python`, behind its own packages."""
    ask = "import site; print(*site.getsitepackages(), sep='\\n'); "
    ask += "print(site.getusersitepackages() if site.ENABLE_USER_SITE else '')"
    (packages,) = (target / "lib").glob("python3*/site-packages")
    places = filter(None, tools.output([python, "-c", ask], environ, LIMIT).splitlines())
    lines = [f"import site; site.addsitedir({place!r})" for place in places]
    (packages / "tfapp-added.pth").write_text("\n".join([*lines, ""]))


def with_pip(python: str, helper: Path, environ: Mapping[str, str]) -> str:
    """`python` if it runs this process in a virtual environment with pip; else the interpreter of a
    new virtual environment `helper`. Distributions may modify pip outside of virtual environments.
    """
    ready = python == sys.executable and sys.prefix != sys.base_prefix
    if ready and PathFinder.find_spec("pip") is not None:
        return python
    _make_environment(helper, python, environ)
    return str(helper / PYTHON)


def _move(scripts: Path, target: Path) -> None:
    """Moves scripts to where they belong; `pip --target` installs them beside the packages."""
    if scripts.is_dir():
        for script in scripts.iterdir():
            shutil.move(str(script), str(target / script.name))
        scripts.rmdir()


def markers(wanted: Wanted) -> dict[str, str]:
    """The values of environment markers on the nodes."""
    full = wanted.version if wanted.version != wanted.minor else f"{wanted.minor}.0"
    return {
        "os_name": "posix",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": wanted.platform.partition("-")[2],
        "implementation_name": "cpython",
        "implementation_version": full,
        "platform_python_implementation": "CPython",
        "python_version": wanted.minor,
        "python_full_version": full,
    }


def wheels(wanted: Wanted) -> list[str]:
    """The options of pip that select wheels for the nodes, the newest tags first."""
    machine = wanted.platform.partition("-")[2]
    tags = [f"manylinux_2_{minor}" for minor in range(_GLIBC, 4, -1)]
    tags[12:12] = ["manylinux2014"]
    tags += ["manylinux2010", "manylinux1", "linux"]
    options = [word for tag in tags for word in ("--platform", f"{tag}_{machine}")]
    return [
        *("--only-binary=:all:", "--no-compile", "--implementation", "cp"),
        *("--python-version", wanted.version, *options),
    ]


def _make_relocatable(script: Path, python: str) -> None:
    """Replaces the absolute interpreter path in a script that pip has written by the interpreter
    beside the script."""
    text = script.read_bytes()
    first, _, rest = text.partition(b"\n")
    if first == b"#!/bin/sh" and rest.startswith(b"'''exec'"):  # pip's for long paths
        first, _, rest = rest.partition(b"\n")
        rest = rest.partition(b"\n")[2]
    elif not first.startswith(b"#!"):
        return
    if os.fsencode(python) in first:
        script.write_bytes(_BESIDE + rest)


def _make_environment(target: Path, python: str, environ: Mapping[str, str]) -> None:
    try:
        done = tools.run([python, "-m", "venv", str(target)], environ, LIMIT)
        # venv prints what to do below what is wrong.
        lines = [line for line in (done.text + done.err).splitlines() if line.strip()]
        reason = (lines or [done.reason])[0] if done.code else ""
    except tools.ToolError as error:
        reason = error.reason
    if reason:
        raise UnavailableError(
            f"{python} makes no virtual environment: {reason}",
            "Debian and Ubuntu have the module venv in the package python3-venv.",
        )


def _install(
    pip: list[str],
    options: list[str],
    wanted: Wanted,
    environ: Mapping[str, str],
    note: Callable[[str], None],
) -> None:
    """Runs pip. The user's configuration and variables of pip apply, such as an index or a folder
    of wheels."""
    command = [*pip, "install", "--disable-pip-version-check", "--no-input"]
    command += ["--progress-bar", "off", *options, "--"]
    command += [*wanted.requirements, *wanted.kept, *REQUIREMENTS]
    with tempfile.TemporaryFile("w+") as errors:
        running = subprocess.Popen(
            command,
            env={**environ, "PIP_USER": "0"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        with running:
            for line in running.stdout or ():
                if line.startswith(("Collecting ", "Installing ", "Building ")):
                    note(f"pip: {line.strip()[:200]}")
        if running.returncode:
            errors.seek(0)
            raise _failed(errors.read(), wanted)


def _failed(words: str, wanted: Wanted) -> UnavailableError:
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    said = [line for line in lines if line.startswith("ERROR:")] or lines
    last = "\n  ".join(said[-KEPT_LINES:]) or "it gave no reason"
    hint = "Check the names and versions, and pip's index: `pip config list`."
    if wanted.kept:
        hint += (
            f"\n  The packages are added to {', '.join(wanted.kept)}. For another TensorFlow, name "
            "it among them, as in 'tensorflow==2.15.*, keras<3'."
        )
    if wanted.platform != HERE:
        hint += (
            f"\n  For {wanted.platform} only wheels are installed from here. Build the one that is "
            "missing on Linux, and name its folder with PIP_FIND_LINKS; or submit from Linux."
        )
    return UnavailableError(
        f"pip could not install what site.global.python.packages names:\n  {last}", hint
    )


def _pack(environment: Path, target: Path) -> None:
    """Packs the environment. The interpreter comes first, so that a search for it is short."""
    with tarfile.open(target, "w:gz", compresslevel=_COMPRESSION) as archive:
        for name in ("bin", *sorted(set(os.listdir(environment)) - {"bin"})):
            archive.add(environment / name, name, filter=packed)


def packed(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
