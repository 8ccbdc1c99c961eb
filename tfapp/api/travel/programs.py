"""Parses the values that a call accepts as a program."""

from __future__ import annotations

import ast
import functools
import inspect
import json
import os
import re
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, Union

from tfapp.api.travel.captured import plain
from tfapp.api.travel.kinds import type_of
from tfapp.api.travel.modules import Finder
from tfapp.errors import ProgramError
from tfapp.frozen import frozen
from tfapp.package.find import nearby
from tfapp.program.context import accepts_context
from tfapp.program.named import NamedFunction
from tfapp.sources import parsed

_DATA = "Give numbers, text, lists and mappings with keys of text."
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\Z")
_EXPECTED = (
    "Expected a function, the path of a script, a module's name, or 'module:function'; found {!r}."
)


@frozen
class ScriptProgram:
    """A file that is run as it is."""

    path: Path


@frozen
class ModuleProgram:
    """A module that is run as `python -m` runs it."""

    name: str


Program = Union[Callable[..., Any], NamedFunction, ScriptProgram, ModuleProgram]


def parse_program(given: object, finder: Finder, cwd: Path) -> Program:
    """The program that `given` denotes. ProgramError for any other value, and if it does not
    exist."""
    if isinstance(given, NamedFunction):
        return _named(given, finder)
    if isinstance(given, os.PathLike):
        return _script(Path(given), cwd)
    if isinstance(given, str):
        return _text(given, finder, cwd)
    if callable(given):
        return _function(given)
    hint = _EXPECTED.format(given)
    if isinstance(given, types.ModuleType):
        hint = f"To run it, give its name: {given.__name__!r}."
    raise ProgramError(f"{type_of(given)} is no program", hint)


def program_name(given: object) -> str:
    """A name for a program, if it has one."""
    if isinstance(given, (str, os.PathLike)):
        text = os.fspath(given)
        if isinstance(given, str) and not _is_script(given):
            return re.split("[.:]", text)[-1]
        return Path(text).stem
    while isinstance(given, functools.partial):
        given = given.func
    name = getattr(given, "__name__", None) or type(given).__name__
    return "run" if name == "<lambda>" else str(name)


def _text(given: str, finder: Finder, cwd: Path) -> Program:
    module, colon, function = given.partition(":")
    if colon and _MODULE.match(module) and _MODULE.match(function):
        return _named(NamedFunction(module, function), finder)
    if given.endswith(".ipynb"):
        raise ProgramError(
            f"{given} is a notebook, and programs are files of Python",
            f"`jupyter nbconvert --to script {given}` writes one; in the notebook itself, give one "
            "of its functions.",
        )
    if _is_script(given):
        return _script(Path(given), cwd)
    if _MODULE.match(given):
        return _module(given, finder)
    raise ProgramError(f"{given!r} is no program", _EXPECTED.format(given))


def _is_script(text: str) -> bool:
    return text.endswith((".py", ".sh")) or os.sep in text


def _script(path: Path, cwd: Path) -> ScriptProgram:
    found = cwd / os.path.expanduser(path)  # that of pathlib raises where nobody has the home
    if not found.is_file():
        other = nearby(path)
        raise ProgramError(
            f"there is no script {path}", f"Did you mean {other}?" if other else "Check the path."
        )
    return ScriptProgram(found)


def _module(name: str, finder: Finder) -> ModuleProgram:
    found = finder.find(name)
    if found is None:
        raise ProgramError(f"there is no module {name}", _EXPECTED.format(name))
    if found.package == name and finder.find(f"{name}.__main__") is None:
        raise ProgramError(
            f"{name} is a package without a module __main__, and cannot be run",
            f"Name one of its modules, as '{name}.train', or a function: '{name}.train:main'.",
        )
    return ModuleProgram(name)


def _named(given: NamedFunction, finder: Finder) -> NamedFunction:
    name = f"{given.module}:{given.name}"
    found = finder.find(given.module)
    if found is None:
        hint = "It is looked for on sys.path and in this folder."
        if given.module.endswith(".py"):
            hint = f"A module is named without .py: {given.module[:-3]}:{given.name}."
        raise ProgramError(f"there is no module {given.module}", hint)
    if found.nowhere:
        raise ProgramError(f"module {given.module} has no file", "Give the function itself.")
    if found.source is not None and not _defines(found.source, given.name.partition(".")[0]):
        raise ProgramError(f"{given.module} ({found.source}) has no {given.name}")
    arguments = [list(given.args), dict(given.kwargs)]
    try:
        same = json.loads(json.dumps(arguments)) == _lists(arguments)
    except (TypeError, ValueError) as error:
        raise ProgramError(f"the arguments of {name} are no plain data: {error}", _DATA) from None
    if not same:
        raise ProgramError(f"the arguments of {name} are no plain data: {arguments!r:.80}", _DATA)
    return given


def _lists(value: Any) -> Any:
    """The value with lists in place of tuples, as in JSON."""
    if isinstance(value, (list, tuple)):
        return [_lists(one) for one in value]
    return {key: _lists(one) for key, one in value.items()} if isinstance(value, dict) else value


def _function(given: Callable[..., Any]) -> Callable[..., Any]:
    name = program_name(given)
    if isinstance(given, type):
        raise ProgramError(f"{name} is a class", "Give a function that makes one and uses it.")
    inner = plain(given)
    if inspect.iscoroutinefunction(inner):
        raise ProgramError(f"{name} is a coroutine", "Give a function that calls asyncio.run.")
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise ProgramError(f"{name} is a generator", "Give a function that returns its result.")
    accepts_context(given)
    return given


def _defines(source: Path, name: str) -> bool:
    """Whether the module in `source` has `name` at its top level, or may have it."""
    try:
        tree = parsed(source.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return True  # told when it is imported
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if node.name in (name, "__getattr__"):
                return True
        elif isinstance(node, ast.Name):
            if node.id == name and isinstance(node.ctx, ast.Store):
                return True
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names = {alias.asname or alias.name.partition(".")[0] for alias in node.names}
            if names & {name, "*"}:
                return True
    return False
