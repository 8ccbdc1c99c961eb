"""The files that are shipped for programs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Union

from tfapp.api.travel.captured import place_of, plain
from tfapp.api.travel.modules import BROUGHT, Collection, Finder
from tfapp.api.travel.pickling import pickle_function
from tfapp.api.travel.programs import ModuleProgram, ScriptProgram, parse_program, program_name
from tfapp.environment.imports import AT_LOAD, imports_of
from tfapp.errors import ProgramError
from tfapp.frozen import frozen
from tfapp.launch.caller import shown
from tfapp.launch.environments import CALL_FOLDER as FOLDER
from tfapp.launch.environments import OWN_PATHS, Needed, Needs
from tfapp.problems import Position
from tfapp.program import named
from tfapp.program.main import CALL_FILE
from tfapp.program.named import NamedFunction

ENTRY = f"{FOLDER}/main.py"

# The part of tfapp that programs import.
_OWN = (
    *("__init__.py", "course.py", "errors.py", "frozen.py", "listener.py", "tf_yarn.py"),
    *("threads.py", "topology.py"),
)

_SCRIPT = "<script>"  # in place of a package, for relative imports

_SPARK = ("__init__", "TFNode", "compat")

Content = Union[Path, bytes]


@frozen
class Pack:
    """`files`: path below files/ -> content. `entries`: component -> its
    site.global.user.scripts.entry. `called`: component -> its program in words. `notes`: messages
    for the user."""

    files: Mapping[str, Content]
    entries: Mapping[str, str]
    needs: Needs
    called: Mapping[str, str]
    notes: tuple[str, ...]


def pack(given: Mapping[str, object], cwd: Path, pickles: bool = False, feed: bool = False) -> Pack:
    """Packs the programs of components, by component. `cwd`: searched for modules and scripts,
    besides sys.path. `pickles`: whether values may be returned as pickles. `feed`: whether Spark
    feeds the programs. ProgramError for a value that is no program or cannot be shipped."""
    packer = _Packer(cwd, feed)
    for component, one in given.items():
        packer.add(component, one)
    return packer.packed(pickles)


@frozen
class _Travelling:
    """One program. `record`: its part of call.json, None for a script."""

    entry: str
    called: str
    record: Mapping[str, Any] | None
    needed: tuple[Needed, ...]
    pickled: bool = False


class _Packer:
    """Collects the files of several programs, which often share most of them."""

    def __init__(self, cwd: Path, feed: bool):
        self._cwd = cwd
        self._feed = feed
        self._finder = Finder([cwd])
        self._files: dict[str, Content] = {}
        self._notes: list[str] = []
        self._done: dict[int, _Travelling] = {}
        self._components: dict[str, _Travelling] = {}

    def add(self, component: str, given: object) -> None:
        if id(given) not in self._done:
            self._done[id(given)] = self._travelling(component, given)
        self._components[component] = self._done[id(given)]

    def packed(self, pickles: bool) -> Pack:
        """The files, entries and requirements of all programs."""
        python = sys.version_info[:2]
        each = self._components.items()
        records = {name: one.record for name, one in each if one.record is not None}
        pickled = {name: python for name, one in each if one.pickled}
        files = dict(self._files)
        if records:
            call = {"python": list(python), "components": records, "pickles": pickles}
            files[f"{FOLDER}/{CALL_FILE}"] = json.dumps(call, indent=1).encode()
            files.update(_machinery(bool(pickled), self._feed))
        return Pack(
            files=files,
            entries={name: one.entry for name, one in each},
            needs=Needs({name: one.needed for name, one in each}, pickled),
            called={name: one.called for name, one in each},
            notes=tuple(dict.fromkeys(self._notes)),
        )

    def _travelling(self, component: str, given: object) -> _Travelling:
        program = parse_program(given, self._finder, self._cwd)
        name = program_name(given)
        if isinstance(program, ScriptProgram):
            return self._script(program.path, name)
        collection = Collection(self._finder, self._cwd)
        record: dict[str, Any]
        called = str(given)
        if isinstance(program, ModuleProgram):
            module = self._finder.find(program.name)
            main = ".__main__" if module is not None and module.package == program.name else ""
            collection.add(program.name + main, Position(program.name))
            record = {"kind": "module", "module": program.name}
        elif isinstance(program, NamedFunction):
            called = f"{program.module}:{program.name}"
            collection.add(program.module, Position(called), called=program.name.partition(".")[0])
            record = {
                "kind": "function",
                "module": program.module,
                "function": program.name,
                "args": list(program.args),
                "kwargs": dict(program.kwargs),
            }
        else:
            called = place_of(program, name)
            record = self._pickle(component, program, name, collection)
        pickled = record["kind"] == "pickle"
        return _Travelling(ENTRY, called, record, self._taken(name, collection), pickled)

    def _script(self, path: Path, name: str) -> _Travelling:
        """A script, and the modules of the user that it imports. What it needs besides is not known
        where it changes its path."""
        source = path.read_bytes()
        _check_not_relative(path, source, self._cwd)
        # Of a link Python looks beside the file that it leads to.
        collection = Collection(Finder([path.resolve().parent], loaded=False), self._cwd)
        collection.read(path)
        self._put(path.name, path)
        needed = self._taken(name, collection)
        changes_path = any(word in source for word in OWN_PATHS)
        called = shown(path, self._cwd)
        return _Travelling(path.name, called, None, () if changes_path else needed)

    def _pickle(
        self, component: str, function: Callable[..., Any], name: str, collection: Collection
    ) -> dict[str, Any]:
        pickled = pickle_function(function, name, self._is_nowhere)
        if pickled.note:
            self._notes.append(pickled.note)
        file = f"{component}.pkl"
        self._put(f"{FOLDER}/{file}", pickled.data)
        called = getattr(plain(function), "__qualname__", "").partition(".")[0]
        own = getattr(plain(function), "__module__", "")
        for use in sorted(pickled.uses, key=lambda use: use.module != own):
            collection.add(
                use.module,
                use.at._replace(file=shown(Path(use.at.file), self._cwd)),
                use.when,
                use.variable,
                called if use.module == own else "",
            )
        return {"kind": "pickle", "file": file, "name": name, "sources": pickled.sources}

    def _is_nowhere(self, module: str) -> bool:
        """Whether a loaded module has no file from which it could be imported."""
        if module.partition(".")[0] in BROUGHT or module not in sys.modules:
            return False
        found = self._finder.find(module)
        return found is not None and found.nowhere

    def _taken(self, name: str, collection: Collection) -> tuple[Needed, ...]:
        for target, path in collection.files.items():
            self._put(target, path)
        if collection.roots:
            self._notes.append(f"ships {', '.join(sorted(collection.roots))}, which {name} needs")
        for module, archive in collection.archives.items():
            where = shown(archive, self._cwd)
            self._notes.append(f"does not ship {module}, which is in the archive {where}")
        return tuple(collection.needed.values())

    def _put(self, target: str, content: Content) -> None:
        before = self._files.setdefault(target, content)
        if isinstance(before, bytes) or isinstance(content, bytes):
            return
        if not os.path.samefile(before, content):
            raise ProgramError(
                f"{before} and {content} would both be shipped as {target}",
                "Rename one of them, or put them into packages of different names.",
            )


def _check_not_relative(path: Path, source: bytes, cwd: Path) -> None:
    """ProgramError for a script that imports from its package as it is loaded: it has none."""
    for one in imports_of(source, ".".join([_SCRIPT] * 9)) if path.suffix == ".py" else ():
        if one.module.startswith(_SCRIPT) and one.when == AT_LOAD:
            where = f"{shown(path, cwd)}:{one.line}:{one.column}"
            module = ".".join(Path(shown(path, cwd)).with_suffix("").parts[-2:])
            raise ProgramError(
                f"{where}: a relative import, and a script belongs to no package",
                f"Run it as a module, from the folder above its package: `-m {module}`, in Python "
                f'"{module}".',
            )


def _machinery(pickled: bool, feed: bool) -> dict[str, Content]:
    """The files that run a program in its container: a part of tfapp, and the version of
    cloudpickle that made the pickle."""
    root = Path(named.__file__).parents[1]
    found: dict[str, Content] = {ENTRY: root / "program" / "entry.py"}
    for name in _OWN:
        found[f"{FOLDER}/tfapp/{name}"] = root / name
    for package in ("program", "feed", "feed/program") if feed else ("program",):
        for path in sorted((root / package).glob("*.py")):
            found[f"{FOLDER}/tfapp/{package}/{path.name}"] = path
    for name in _SPARK:
        file = f"tensorflowonspark/{name}.py"
        found[f"{FOLDER}/tfapp/{file}"] = root / file
    if pickled:
        import cloudpickle

        for path in sorted(Path(cloudpickle.__file__).parent.glob("*.py")):
            found[f"{FOLDER}/cloudpickle/{path.name}"] = path
    return found
