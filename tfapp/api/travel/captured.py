"""The variables that a function captures, and which of them cannot be pickled."""

from __future__ import annotations

import dis
import functools
import io
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tfapp.api.travel.kinds import INSIDE, kind_of, known
from tfapp.errors import ProgramError, cell_name
from tfapp.frozen import frozen

Dump = Callable[[Any], tuple[bytes, Any]]

_DEPTH = 6  # of containers and objects in which a value is looked for
_MOST_ITEMS = 1000  # of one of them
_FUNCTIONS = (types.FunctionType, types.MethodType, functools.partial, type)
_MOST_VARIABLES = 2000  # of all functions that are looked at


# Types of values that could be pickled, and would be nothing elsewhere.
_BOUND_TO_THIS_PROCESS = {
    ("tfapp.api.handle", "Application"),
    ("multiprocessing.connection", "Connection"),
    ("ctypes", "CDLL"),
    ("tempfile", "TemporaryDirectory"),
}


class UnwantedError(Exception):
    """A captured value that would change its meaning when it is pickled."""


@frozen
class Variable:
    """A captured variable. `name`: as in the function, such as "self.lock". `line`: where it is
    used; 0 if unknown. `code`: the code of the function."""

    name: str
    value: Any
    line: int
    code: types.CodeType | None
    function: str


# ---- Places ------------------------------------------------------------------------------------
def place_of(function: Callable[..., Any], name: str) -> str:
    """A function for a message: "train (train.py:12)", "train (In[3]:1)"."""
    return _place(code_of(function), name)


def _place(code: types.CodeType | None, name: str) -> str:
    if code is None:
        return name
    return f"{name} ({file_of(code).rpartition('/')[2]}:{code.co_firstlineno})"


def file_of(code: types.CodeType | None) -> str:
    """The file that a function is in, or the cell of a notebook: "In[3]"."""
    return cell_name(code.co_filename) if code is not None else "program"


def plain(function: Any) -> Any:
    """The callable inside partials, methods and callable objects."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, types.MethodType):
            function = function.__func__
        elif isinstance(function, (types.FunctionType, type)) or not callable(function):
            return function
        else:
            call = type(function).__call__
            return call if isinstance(call, types.FunctionType) else function


def code_of(function: Any) -> types.CodeType | None:
    return getattr(plain(function), "__code__", None)


def lines_of(code: types.CodeType) -> Iterator[tuple[dis.Instruction, int]]:
    """The instructions of a function, each with its line."""
    line = code.co_firstlineno
    for instruction in dis.get_instructions(code):
        # `starts_line` is a truth value from Python 3.13 on.
        found = getattr(instruction, "line_number", None) or instruction.starts_line
        line = found if type(found) is int else line
        yield instruction, line


# ---- What is taken along -----------------------------------------------------------------------
def captured(function: Any) -> Iterator[Variable]:  # noqa: C901 - a case for each kind
    """The variables that are pickled with a function: its closure, the globals that it uses, its
    defaults, and the object that it is bound to. For a class, its members; for an object, its
    attributes."""
    code = code_of(function)
    name = getattr(plain(function), "__name__", "") or type(function).__name__
    at = code.co_firstlineno if code is not None else 0

    def variable(called: str, value: Any, line: int = 0) -> Variable:
        return Variable(called, value, line, code, name)

    if isinstance(function, functools.partial):
        for number, value in enumerate(function.args, 1):
            yield variable(f"argument {number}", value)
        for called, value in function.keywords.items():
            yield variable(called, value)
        yield from captured(function.func)
    elif isinstance(function, types.MethodType):
        yield variable("self", function.__self__, _used(code, "self") if code else 0)
        yield from captured(function.__func__)
    elif isinstance(function, types.FunctionType):
        for called, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            try:
                value = cell.cell_contents
            except ValueError:  # not set yet
                continue
            yield variable(called, value, _used(function.__code__, called))
        for called in dict.fromkeys(_globals(function.__code__)):
            if called in function.__globals__:
                line = _used(function.__code__, called)
                yield variable(called, function.__globals__[called], line)
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        for called, value in zip(reversed(names), reversed(function.__defaults__ or ())):
            yield variable(called, value, at)
        for called, value in (function.__kwdefaults__ or {}).items():
            yield variable(called, value, at)
        for called, value in vars(function).items():
            yield variable(f"{name}.{called}", value)
    elif isinstance(function, type):
        for called, value in list(vars(function).items()):
            if isinstance(value, (staticmethod, classmethod)):
                value = value.__func__
            if not called.startswith("__") or isinstance(value, types.FunctionType):
                yield variable(f"{name}.{called}", value)
    else:
        for called, value in list(getattr(function, "__dict__", {}).items()):
            yield variable(f"self.{called}", value)
        yield variable(type(function).__name__, type(function))


def _globals(code: types.CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _globals(constant)


def _used(code: types.CodeType, name: str) -> int:
    """The first line on which a function, or one inside it, reads `name`; 0 for none."""
    for instruction, line in lines_of(code):
        loads = instruction.opname.startswith("LOAD_") and instruction.opname != "LOAD_CLOSURE"
        names = instruction.argval  # two, in LOAD_FAST_LOAD_FAST of Python 3.13
        named = name in names if isinstance(names, tuple) else name == names
        if loads and named and not _is_for_closure(code, instruction, name):
            return line
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType) and (found := _used(constant, name)):
            return found
    return 0


def _is_for_closure(code: types.CodeType, instruction: dis.Instruction, name: str) -> bool:
    """Whether an instruction only passes a cell to an inner function, which Python 3.13 loads like
    a variable."""
    return instruction.opname == "LOAD_FAST" and name in (*code.co_freevars, *code.co_cellvars)


# ---- Why it cannot be pickled ------------------------------------------------------------------
def refused_in_pickles(value: Any) -> bool:
    """Whether a value must not be pickled although it could be: an open file, whose content would
    be copied, and what belongs to this process, such as the handle of an application."""
    if any((cls.__module__, cls.__name__) in _BOUND_TO_THIS_PROCESS for cls in type(value).__mro__):
        return True
    return isinstance(value, io.IOBase) and not (
        isinstance(value, (io.BytesIO, io.StringIO)) or value in (sys.stdin, sys.stdout, sys.stderr)
    )


def explain(function: Any, name: str, error: Exception, dump: Dump) -> ProgramError:
    """The error for a function that `dump` refused, with the variable and its line."""
    found = _Search(dump).culprit(function)
    deep = isinstance(error, RecursionError) or isinstance(error.__cause__, RecursionError)
    if found is None:
        if deep:
            what, hint = "is nested too deeply to be pickled", "Make it less deep."
        else:
            what = f"cannot be pickled: {error}"
            hint = "Make what it needs inside the function, or name it: 'module:function'."
        return ProgramError(f"{place_of(function, name)} {what}", hint)
    kind, hint = kind_of(found.value)
    if deep and not known(found.value):
        kind, hint = f"a {type(found.value).__name__} that is nested too deeply", INSIDE
    at = f", at line {found.line}" if found.line else ""
    user = _place(found.code, name if found.code is code_of(function) else found.function)
    return ProgramError(f"{user} captures `{found.name}`, {kind}{at}", hint)


def largest(function: Any, dump: Dump) -> tuple[str, int]:
    """The captured variable with the largest pickle, and its size in bytes; ("", 0) for none."""
    sizes = [(len(dump(one.value)[0]), one.name) for one in captured(function)]
    size, name = max(sizes, default=(0, ""))
    return name, size


class _Search:
    """A search for the innermost variable that cannot be pickled."""

    def __init__(self, dump: Dump):
        self._dump = dump
        self._seen: set[int] = set()

    def culprit(self, function: Any) -> Variable | None:
        """The variable that keeps `function`, a function, a class or a callable object, from being
        pickled; None if none is found."""
        if id(function) in self._seen or len(self._seen) > _MOST_VARIABLES:
            return None
        self._seen.add(id(function))
        for variable in captured(function):
            if self._pickles(variable.value):
                continue
            if isinstance(variable.value, _FUNCTIONS):
                seen = id(variable.value) in self._seen
                inner = self.culprit(variable.value)
                if inner is not None:
                    return inner
                if seen:  # a function that calls itself: something else is to blame
                    continue
            name, value = self._innermost(variable.name, variable.value, 0)
            if not known(value) and not self._pickles(type(value)):
                inner = self.culprit(type(value))
                if inner is not None:
                    return inner
            return Variable(name, value, variable.line, variable.code, variable.function)
        return None

    def _innermost(self, name: str, value: Any, depth: int) -> tuple[str, Any]:
        """The part of a container or an object that cannot be pickled, such as "config['log']"."""
        if depth == _DEPTH or known(value):
            return name, value
        for inner, part in _parts(name, value):
            if not self._pickles(part):
                return self._innermost(inner, part, depth + 1)
        return name, value

    def _pickles(self, value: Any) -> bool:
        try:
            self._dump(value)
        except Exception:  # whatever the user's own __reduce__ raises
            return False
        return True


def _parts(name: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return [(f"{name}[{key!r:.40}]", one) for key, one in [*value.items()][:_MOST_ITEMS]]
    if isinstance(value, (list, tuple)):
        return [(f"{name}[{number}]", one) for number, one in enumerate(value[:_MOST_ITEMS])]
    if isinstance(value, (set, frozenset)):
        return [(f"an item of {name}", one) for one in [*value][:_MOST_ITEMS]]
    if isinstance(value, types.MethodType):
        return [(f"{name}.__self__", value.__self__)]
    if isinstance(value, (type, types.ModuleType)):
        return []
    slots = (slot for cls in type(value).__mro__ for slot in getattr(cls, "__slots__", ()))
    inside = {slot: getattr(value, slot) for slot in slots if hasattr(value, slot)}
    inside.update(getattr(value, "__dict__", {}))
    return [(f"{name}.{key}", one) for key, one in [*inside.items()][:_MOST_ITEMS]]
