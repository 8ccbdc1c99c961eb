"""Classifies modules: the user's own are shipped, others must be installed where the program
runs."""

from __future__ import annotations

import functools
import importlib.machinery
import os
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

from tfapp.environment.imports import AT_LOAD, IN_FUNCTION, PERHAPS, imports_of
from tfapp.errors import ProgramError
from tfapp.frozen import frozen
from tfapp.launch.caller import shown
from tfapp.launch.environments import Needed
from tfapp.package.folder import list_folder
from tfapp.package.safety import UnsafeSourceError
from tfapp.problems import Position

# What a call brings by itself.
BROUGHT = frozenset({"tfapp", "cloudpickle", "__main__", "__mp_main__"})
_SUFFIXES = tuple(importlib.machinery.all_suffixes())


@frozen
class Module:
    """A module that was found. `needed`: the name to ask an interpreter for, which is the top-level
    package. `source`: its source file, None without one. `package`: the base of its relative
    imports. `roots`: for the user's own, path below files/ -> file or folder; empty for an
    installed module. `archive`: the .zip or .egg that contains it. `nowhere`: it was created at run
    time and has no file."""

    name: str
    needed: str
    source: Path | None
    package: str
    roots: tuple[tuple[str, Path], ...]
    archive: Path | None = None
    nowhere: bool = False


class Finder:
    """Finds modules as a program would, without importing them. `folders` are searched before
    sys.path. With `loaded`, a module that this process has loaded takes precedence."""

    def __init__(self, folders: Iterable[Path], loaded: bool = True):
        self._path = [*map(str, folders), *sys.path]
        self._loaded = loaded
        importlib.invalidate_caches()  # a file may have been written just now

    def find(self, name: str) -> Module | None:
        """The module `name` (dotted). None when there is none."""
        specs = list(self._specs(name))
        if not specs or specs[-1].name != name:
            return self._made_by_hand(name)
        spec = specs[-1]
        anchor = next((one for one in specs if not _is_namespace(one)), specs[0])
        places = [Path(place) for place in _places(anchor)]
        origin = Path(spec.origin) if spec.has_location and spec.origin else None
        archive = next((file for place in places if (file := _archive(place))), None)
        roots = _roots(specs[0]) if any(map(is_own, places)) else ()
        is_package = spec.submodule_search_locations is not None
        if not is_package and origin and not origin.name.endswith(_SUFFIXES):
            return self._made_by_hand(name)  # a notebook, by an importer of its own
        return Module(
            name=name,
            needed=anchor.name,
            source=origin if origin and origin.suffix == ".py" and origin.is_file() else None,
            package=name if is_package else name.rpartition(".")[0],
            roots=roots if specs[0].name not in BROUGHT else (),
            archive=archive,
        )

    def _made_by_hand(self, name: str) -> Module | None:
        if not self._loaded or name not in sys.modules:
            return None
        return Module(name, name.partition(".")[0], None, "", (), nowhere=True)

    def _specs(self, name: str) -> Iterator[importlib.machinery.ModuleSpec]:
        """The specs of the packages around a module and of the module itself, up to the first that
        is not found."""
        parts = name.split(".")
        path = None
        for count in range(1, len(parts) + 1):
            spec = self._spec(".".join(parts[:count]), path)
            if spec is None:
                return
            yield spec
            path = spec.submodule_search_locations
            if path is None:
                return

    def _spec(self, name: str, path: Iterable[str] | None) -> importlib.machinery.ModuleSpec | None:
        if self._loaded and name not in BROUGHT:
            spec = getattr(sys.modules.get(name), "__spec__", None)
            if spec is not None:
                return spec
        for finder in sys.meta_path:
            where = path
            if path is None and finder is importlib.machinery.PathFinder:
                where = self._path
            try:
                spec = finder.find_spec(name, where and list(where))  # type: ignore[arg-type]
            except Exception:  # somebody's own finder; or an old one without find_spec
                continue
            if spec is not None:
                return spec
        return None


class Collection:
    """The modules that programs import. `files`: path below files/ -> one of the user's files.
    `roots`: the top-level names of these, "lib/" or "wine.py". `needed`: modules that must be
    installed. `archives`: module -> an archive that contains it and is not shipped."""

    def __init__(self, finder: Finder, cwd: Path):
        self._finder = finder
        self._cwd = cwd
        self.files: dict[str, Path] = {}
        self.roots: list[str] = []
        self.needed: dict[str, Needed] = {}
        self.archives: dict[str, Path] = {}
        self._seen: set[str] = set()
        self._installed: set[str] = set()
        self._shipped: set[Path] = set()

    def add(
        self, name: str, at: Position, when: str = AT_LOAD, variable: str = "", called: str = ""
    ) -> None:
        """Adds the module `name`, which is imported at a place, or of which `variable` holds an
        object. The imports of its function `called` are added too."""
        first = name.partition(".")[0]
        if name in self._seen or first in BROUGHT or _is_standard(first):
            return
        if first in self._installed:
            self._need(first, at, when, variable)
            return
        found = self._finder.find(name)
        if found is None and "." in name:  # a name in a module, or a missing module of a package
            self.add(name.rpartition(".")[0], at, when, variable)
            return
        if found is None or not found.roots:
            needed = found.needed if found else name
            self._need(needed, at, when, variable)
            if found and found.archive:
                self.archives.setdefault(needed, found.archive)
            if needed == first:
                self._installed.add(first)
            return
        self._seen.add(name)
        for target, root in found.roots:
            self._ship(target, root)
        if "." in name:
            self.add(name.rpartition(".")[0], at, when)
        if found.source is not None:
            self.read(found.source, found.package, called)

    def read(self, source: Path, package: str = "", called: str = "") -> None:
        """Adds all imports of the file `source`, which belongs to `package`."""
        try:
            text = source.read_bytes()
        except OSError:
            return  # told when it is shipped
        file = shown(source, self._cwd)
        for one in imports_of(text, package, (called,)):
            at = Position(file, one.line, one.column)
            self.add(one.module, at, one.when)
            if one.sure and one.when == AT_LOAD:
                self._need_below(one.module, at)

    def _need_below(self, name: str, at: Position) -> None:
        """Notes a module of a package: that may lack it, or make it when it is loaded."""
        first = name.partition(".")[0]
        if first == name or first in BROUGHT or _is_standard(first):
            return
        found = self._finder.find(name)
        if found is None or not found.roots:
            self.needed.setdefault(name, Needed(name, at, sure=False))

    def _need(self, module: str, at: Position, when: str, variable: str) -> None:
        if when == PERHAPS:
            return
        sure = when != IN_FUNCTION
        before = self.needed.get(module)
        if before is None or (sure and not before.sure):
            self.needed[module] = Needed(module, at, sure, variable)

    def _ship(self, target: str, root: Path) -> None:
        if root in self._shipped:
            return
        self._shipped.add(root)
        if not root.is_dir():
            self.files.setdefault(target, root)
            self.roots.append(target)
            return
        self.roots.append(f"{target}/")
        try:
            inside = list_folder(root).files
        except (UnsafeSourceError, OSError) as refused:
            where = f"{getattr(refused, 'path', '')}: ".lstrip(": ")
            raise ProgramError(
                f"the package {shown(root, self._cwd)} cannot be shipped: {where}"
                f"{getattr(refused, 'message', refused)}",
                "Install it, or take out of its folder what is no part of the program.",
            ) from None
        for name, path in inside.items():
            self.files.setdefault(f"{target}/{name}", path)


def _is_namespace(spec: importlib.machinery.ModuleSpec) -> bool:
    return spec.submodule_search_locations is not None and not spec.has_location


def _places(spec: importlib.machinery.ModuleSpec) -> list[str]:
    if spec.submodule_search_locations is not None:
        return list(spec.submodule_search_locations)
    return [spec.origin] if spec.has_location and spec.origin else []


def _roots(top: importlib.machinery.ModuleSpec) -> tuple[tuple[str, Path], ...]:
    """The files to ship for a top-level module: the module itself, or the folder of its package."""
    found = []
    for place in map(Path, _places(top)):
        folder = top.submodule_search_locations is not None
        if is_own(place) and (not _is_namespace(top) or _has_modules(place)):
            found.append((top.name if folder else place.name, place))
    return tuple(found)


def _has_modules(folder: Path) -> bool:
    """Whether a folder contains modules, so that it can be a package."""
    walk = os.walk(folder)
    return any(name.endswith(_SUFFIXES) for _, _, files in walk for name in files)


def is_own(path: Path) -> bool:
    """Whether a file or folder exists and belongs to no installation."""
    if not path.exists():
        return False  # in an archive
    resolved = str(path.resolve())
    return not resolved.startswith(_installed(tuple(sys.path)))


def _archive(path: Path) -> Path | None:
    """The archive of the user that `path` leads into."""
    if path.exists():
        return None
    return next((p for p in path.parents if p.is_file() and is_own(p)), None)


@functools.lru_cache(maxsize=8)
def _installed(path: tuple[str, ...]) -> tuple[str, ...]:
    """Folders below which everything is installed, with a slash; `path`: sys.path."""
    places = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    places |= {place for place in path if place.endswith(("site-packages", "dist-packages"))}
    places.add(site.getusersitepackages())
    return tuple(f"{Path(place).resolve()}{os.sep}" for place in places if place)


@functools.cache
def _is_standard(name: str) -> bool:
    """Whether a top-level module is part of the standard library."""
    names = getattr(sys, "stdlib_module_names", None)  # from 3.10 on
    if names is not None:
        return name in names
    spec = importlib.machinery.PathFinder.find_spec(name)
    if name in sys.builtin_module_names or spec is None or not spec.origin:
        return name in sys.builtin_module_names
    standard = f"{Path(sysconfig.get_path('stdlib')).resolve()}{os.sep}"
    origin = str(Path(spec.origin).resolve())
    return origin.startswith(standard) and "-packages" not in origin
