"""Pickles a function, and determines the modules that the pickle needs."""

from __future__ import annotations

import contextlib
import functools
import io
import linecache
import pickle
import sys
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import cloudpickle

from tfapp.api.travel import captured
from tfapp.api.travel.captured import UnwantedError, place_of, refused_in_pickles
from tfapp.api.travel.modules import is_own
from tfapp.environment.imports import AT_LOAD, IN_FUNCTION, absolute, imports_of
from tfapp.errors import ProgramError
from tfapp.frozen import frozen
from tfapp.problems import Position

MAX_PICKLE = 100 << 20  # bytes
LARGE_PICKLE = 10 << 20  # bytes, from which a pickle is worth a word
_CLOUDPICKLES_FILE = "<dynamic-code>"  # in place of the name of a function's file
_CHILD = "__mp_main__"  # what `__main__` is called in a process that multiprocessing has started


@frozen
class Use:
    """A module that a pickle needs. `when`: see `tfapp.environment.imports`. `variable`: the
    variable that holds an object of the module; "" if it is imported."""

    module: str
    at: Position
    when: str = AT_LOAD
    variable: str = ""


@frozen
class Pickled:
    """`data`: the pickle. `uses`: the modules that it needs. `sources`: file -> line -> text, of
    the functions that it includes. `note`: a message for the user."""

    data: bytes
    uses: tuple[Use, ...]
    sources: Mapping[str, Mapping[int, str]]
    note: str = ""


def pickle_function(
    function: Callable[..., Any], name: str, by_value: Callable[[str], bool] = lambda _: False
) -> Pickled:
    """Pickles a function. `name`: for messages. `by_value`: names of modules whose functions and
    classes are included in the pickle, as those of `__main__` are. ProgramError, with the variable
    and its line, for a function that cannot be pickled."""
    try:
        data, functions = dump(function)
        references = _references(data)
        made = {one for one, _ in references if one == _CHILD or by_value(one)}
        if made:
            with _by_value(sys.modules[one] for one in made):
                data, functions = dump(function)
            references = _references(data)
    except Exception as error:
        raise captured.explain(function, name, error, dump) from None
    for module, what in sorted(references):
        if module in {"__main__", *made}:
            raise ProgramError(
                f"{place_of(function, name)} uses {f'`{what}` of ' if what else ''}{module}, which "
                "travels by its name alone, and there is another module of that name there",
                "Define it inside the function, or in a module of its own, which is then shipped.",
            )
    modules = {module for module, _ in references}
    note = _size_note(function, name, len(data))
    uses = list(_uses(function, functions, modules))
    return Pickled(data, tuple(uses), _sources(functions), note)


def dump(value: Any) -> tuple[bytes, list[types.FunctionType]]:
    """The pickle, and the functions that it includes by value."""
    buffer = io.BytesIO()
    pickler = _Recording(buffer)
    pickler.dump(value)
    return buffer.getvalue(), pickler.functions


class _Recording(cloudpickle.Pickler):
    """A pickler that records functions that are pickled by value. It refuses values that could be
    pickled but would change their meaning, such as an open file. It pickles caches around functions
    by value, but empty. Code keeps the name of its file, for tracebacks."""

    def __init__(self, file: io.BytesIO):
        super().__init__(file, protocol=pickle.DEFAULT_PROTOCOL)
        self.functions: list[types.FunctionType] = []

    def reducer_override(self, obj: Any) -> Any:
        if refused_in_pickles(obj):
            raise UnwantedError
        if isinstance(obj, types.CodeType):
            cls, args = self.dispatch_table[types.CodeType](obj)
            named = captured.file_of(obj)
            return cls, tuple(named if arg == _CLOUDPICKLES_FILE else arg for arg in args)
        if isinstance(obj, functools.cached_property):
            names = {key: value for key, value in vars(obj).items() if key not in ("func", "lock")}
            return type(obj), (obj.func,), names
        if isinstance(obj, weakref.WeakKeyDictionary):  # of functools.singledispatch
            return type(obj), (dict(obj),)
        if isinstance(obj, functools._lru_cache_wrapper):
            if super().reducer_override(obj.__wrapped__) is NotImplemented:
                return NotImplemented
            how = obj.cache_parameters()
            made_of = obj.__wrapped__, how["maxsize"], how["typed"], functools._CacheInfo
            return type(obj), made_of, vars(obj)
        reduced = super().reducer_override(obj)
        if isinstance(obj, types.FunctionType) and reduced is not NotImplemented:
            self.functions.append(obj)
        return reduced


@contextlib.contextmanager
def _by_value(modules: Iterable[types.ModuleType]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for module in modules:
            if module.__name__ not in cloudpickle.list_registry_pickle_by_value():
                cloudpickle.register_pickle_by_value(module)
                stack.callback(cloudpickle.unregister_pickle_by_value, module)
        yield


def _size_note(function: Callable[..., Any], name: str, size: int) -> str:
    if size <= min(LARGE_PICKLE, MAX_PICKLE):
        return ""
    largest, its_size = captured.largest(function, dump)
    what = f", {its_size / (1 << 20):.0f} MiB of it in `{largest}`" if largest else ""
    text = f"{place_of(function, name)} takes {size / (1 << 20):.0f} MiB along{what}"
    if size <= MAX_PICKLE:
        return text
    raise ProgramError(
        f"{text}; the limit is {MAX_PICKLE >> 20} MiB",
        "Load data where it is used: from a path that every instance sees.",
    )


def _sources(functions: Iterable[types.FunctionType]) -> dict[str, dict[int, str]]:
    """The lines of functions, as far as they are known, by file and number."""
    found: dict[str, dict[int, str]] = {}
    for code in (function.__code__ for function in functions):
        source = linecache.getlines(code.co_filename)
        last = max(line for one in _codes(code) for _, line in captured.lines_of(one))
        lines = dict(enumerate(source[code.co_firstlineno - 1 : last], code.co_firstlineno))
        if lines:
            found.setdefault(captured.file_of(code), {}).update(lines)
    return found


# ---- Modules -----------------------------------------------------------------------------------
class _AnythingType(type):
    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return cls

    def __setstate__(cls, state: Any) -> None:
        pass

    def __setitem__(cls, key: Any, value: Any) -> None:
        pass

    append = extend = add = __setstate__


class _Anything(metaclass=_AnythingType):
    """A placeholder for every object that a pickle creates by a call."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return cls


class _Reader(pickle.Unpickler):
    """Records the imports of a pickle without importing or calling anything. Loading the pickle
    would run code of the user, and would reset the globals of classes in `__main__` (cloudpickle
    sets them anew for classes that it knows)."""

    def __init__(self, data: bytes):
        super().__init__(io.BytesIO(data))
        self.references: set[tuple[str, str]] = set()

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] == "cloudpickle" and name == "subimport":
            return self._subimport
        self.references.add((module, name))
        return _Anything

    def _subimport(self, name: str) -> Any:
        self.references.add((name, ""))
        return _Anything


def _references(data: bytes) -> set[tuple[str, str]]:
    """(module, name in it) of what a pickle imports; the name is "" for the module itself."""
    reader = _Reader(data)
    reader.load()
    return reader.references


def _uses(
    function: Callable[..., Any], functions: list[types.FunctionType], modules: set[str]
) -> Iterator[Use]:
    """The modules that a pickle needs, each with the first place that needs it."""
    for one in functions:
        yield from _imported_by(one)
    variables = [v for one in functions for v in captured.captured(one)]
    variables += captured.captured(function)
    for module in sorted(modules):
        variable = next((one for one in variables if _has_to_do(one.value, module)), None)
        if variable is None:
            code = captured.code_of(function)
            yield Use(module, _at(code, code.co_firstlineno if code else 0))
        else:
            named = isinstance(variable.value, types.ModuleType)
            at = _at(variable.code, variable.line)
            yield Use(module, at, variable="" if named else variable.name)


def _has_to_do(value: Any, module: str) -> bool:
    """Whether the type of a value belongs to the package of `module`."""
    if isinstance(value, types.ModuleType):
        mine = value.__name__
    else:
        mine = getattr(value, "__module__", None) or type(value).__module__
    return str(mine).partition(".")[0] == module.partition(".")[0]


def _at(code: types.CodeType | None, line: int) -> Position:
    return Position(captured.file_of(code), line, 1 if line else 0)


def _imported_by(function: types.FunctionType) -> Iterator[Use]:
    """The imports of a function and its inner functions. The source tells which of them may
    fail."""
    code = function.__code__
    file = Path(code.co_filename)
    if file.exists() and not is_own(file):  # a library's, which knows what it needs
        return
    source = "".join(linecache.getlines(code.co_filename))
    whens = {one.line: one.when for one in imports_of(source, called=None)}
    package = str(function.__globals__.get("__package__") or "")
    for one in _codes(code):
        for module, line in _imports_in(one, package):
            when = whens.get(line, IN_FUNCTION)
            yield Use(module, _at(one, line), when)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _imports_in(code: types.CodeType, package: str) -> Iterator[tuple[str, int]]:
    """(module, line). Before IMPORT_NAME stand the level and the names of `from`."""
    before: list[Any] = [0, None]
    for instruction, line in captured.lines_of(code):
        if instruction.opname == "IMPORT_NAME":
            level, names = before
            module = absolute(instruction.argval, level, package)
            if module:
                yield module, line
            for name in names or ():
                yield f"{module}.{name}", line
        if instruction.opname.startswith("LOAD_"):
            before = [before[1], instruction.argval]
