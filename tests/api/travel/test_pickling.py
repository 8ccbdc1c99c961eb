"""Functions as pickles: read by cloudpickle alone, and what they need is known."""

from __future__ import annotations

import builtins
import functools
import linecache
import pickle
import sys
import types

import pytest

from tests import programs
from tfapp.api.travel.pickling import _references, pickle_function
from tfapp.environment.imports import AT_LOAD, IN_FUNCTION, PERHAPS
from tfapp.errors import ProgramError


def _module(one: object) -> str:
    return getattr(one, "__module__", "builtins")


def by_value(source: str, file: str = "cell.py", kept: bool = False) -> dict:
    """The names of a module that cannot be imported, as those of a notebook; `kept`: with its
    source where Python looks for it."""
    # Libraries that some test has loaded leave among them what cannot travel.
    own = {name: one for name, one in vars(builtins).items() if _module(one) == "builtins"}
    names: dict = {"__name__": "__main__", "__builtins__": own}
    exec(compile(source, file, "exec"), names)
    if kept:
        linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    return names


NAMES = """
import functools, math
def add(one=1, two=2): return one + two
class Adder:
    def __init__(self, one): self.one = one
    def add_two(self): return self.one + int(math.sqrt(4))
    def __call__(self): return self.add_two()
    @classmethod
    def made(cls): return cls(1)()
def counted(function):
    @functools.wraps(function)
    def wrapper(): return function()
    return wrapper
@counted
def decorated(): return 3
def recursive(n=3): return n if n == 0 else 1 + recursive(n - 1)
@functools.lru_cache(maxsize=7)
def cached(n): return n if n == 0 else 1 + cached(n - 1)
def with_cache():
    limit = cached.cache_info().maxsize
    return cached(3) if cached.cache_info() == (0, 0, limit, 0) and limit == 7 else None
class Cached:
    @functools.lru_cache
    def one(self): return 1
    @functools.cached_property
    def two(self): return 2
    def __call__(self): return self.one() + self.two
@functools.singledispatch
def kind(value): return 1
@kind.register(int)
def whole(value): return 3
kind(1)
"""


@pytest.mark.parametrize(
    "make",
    [
        lambda names: names["add"],
        lambda names: lambda: names["add"](1, 2) and 3,
        lambda names: functools.partial(names["add"], 1, 2),
        lambda names: names["Adder"](1).add_two,
        lambda names: names["Adder"](1),
        lambda names: names["Adder"].made,
        lambda names: names["decorated"],
        lambda names: names["recursive"],
        lambda names: names["cached"](3) and names["with_cache"],
        lambda names: functools.partial(names["cached"], 3),
        lambda names: names["Cached"](),
        lambda names: functools.partial(names["kind"], 2),
    ],
    ids=[
        *("function", "lambda", "partial", "method", "object", "class method", "decorated", "self"),
        *("cache", "partial of a cache", "caches of a class", "dispatch"),
    ],
)
def test_whatever_can_be_called_is_run_elsewhere_by_cloudpickle_alone(make, tmp_path):
    file = tmp_path / "program.pkl"
    file.write_bytes(pickle_function(make(by_value(NAMES)), "program").data)
    code = f"import pickle; print(pickle.load(open({str(file)!r}, 'rb'))())"
    assert programs.printed("-c", code) == "3\n"


class ByName:
    """As typing.NewType and others are pickled."""

    def __init__(self, module):
        self.__module__ = module
        self.__qualname__ = "mark"

    def __reduce__(self):
        return self.__qualname__


@pytest.mark.parametrize("module", ["__main__", "__mp_main__", "of_nowhere"])
def test_what_travels_by_its_name_in_a_module_that_stays_here_is_refused(module, monkeypatch):
    here = types.ModuleType(module)
    here.mark = ByName(module)
    exec("def helper(): pass\ndef train():\n    return helper(), mark\n", vars(here))
    del vars(here)["__builtins__"]
    monkeypatch.setitem(sys.modules, module, here)
    with pytest.raises(ProgramError) as caught:
        pickle_function(here.train, "train", lambda name: name == "of_nowhere")
    told = f"train (<string>:2) uses `mark` of {module}, which travels by its name alone"
    assert told in caught.value.message
    assert "a module of its own" in caught.value.hint


def test_a_module_that_stays_here_is_refused_itself():
    train = by_value("def train():\n    return here\n")["train"]
    train.__globals__["here"] = sys.modules["__main__"]
    with pytest.raises(ProgramError, match="uses __main__, which travels by its name"):
        pickle_function(train, "train")


def test_functions_of_a_spawned_process_travel(monkeypatch, tmp_path):
    here = types.ModuleType("__mp_main__")
    exec("def helper(): return 3\ndef train(): return helper()\n", vars(here))
    del vars(here)["__builtins__"]
    monkeypatch.setitem(sys.modules, "__mp_main__", here)
    modules = {module for module, _ in _references(pickle_function(here.train, "t").data)}
    assert not {"__main__", "__mp_main__"} & modules


def test_what_functions_import_is_known_with_its_line_and_whether_it_must_be_there():
    source = (
        "def helper():\n    import email.mime\n\n"
        "def train():\n    from json import dumps\n"
        "    def inner():\n        try:\n            import decimal\n"
        "        except ImportError:\n            pass\n"
        "    if inner: import bisect\n"
        "    return helper(), inner\n"
    )
    train = by_value(source, "kept.py", kept=True)["train"]
    used = {use.module: (str(use.at), use.when) for use in pickle_function(train, "train").uses}
    assert used["email.mime"] == ("kept.py:2:1", AT_LOAD)
    assert used["json"] == ("kept.py:5:1", AT_LOAD)
    assert used["decimal"] == ("kept.py:8:1", PERHAPS)
    assert used["bisect"] == ("kept.py:11:1", PERHAPS)


def test_without_a_source_an_import_need_not_succeed():
    train = by_value("def train():\n    import bisect\n", "no such file")["train"]
    assert [use.when for use in pickle_function(train, "t").uses if use.module == "bisect"] == [
        IN_FUNCTION
    ]


def test_relative_imports_are_those_of_the_package():
    names: dict = {"__name__": "__main__", "__package__": "pkg.sub"}
    source = "def train():\n    from ..far import one, two\n    from . import near\n"
    exec(compile(source, "cell.py", "exec"), names)
    used = {use.module for use in pickle_function(names["train"], "train").uses}
    assert {"pkg.far", "pkg.far.one", "pkg.far.two", "pkg.sub", "pkg.sub.near"} <= used


def test_the_variable_that_has_an_object_is_known():
    import decimal

    names = by_value("def train():\n    x = 1\n    return limit\n")
    names["limit"] = decimal.Decimal(3)
    (use,) = (use for use in pickle_function(names["train"], "t").uses if use.module == "decimal")
    assert (use.variable, str(use.at)) == ("limit", "cell.py:3:1")


def test_reading_it_back_leaves_the_users_own_classes_as_they_are():
    names = by_value(
        "COUNT = [0]\nclass Counter:\n    made = 0\n    def count(self):\n        COUNT[0] += 1\n"
        "    def __init_subclass__(cls):\n        raise AssertionError('made anew')\n"
        "    def __setstate__(self, state):\n        raise AssertionError('run')\n"
        "counter = Counter()\ndef train():\n    counter.count()\n"
    )
    count = names["Counter"].count
    pickle_function(names["train"], "train")
    assert names["Counter"].count is count
    names["train"]()
    assert names["COUNT"] == [1]


def test_every_kind_of_reference_is_read():
    import collections
    import email.policy
    import enum
    import fractions

    class Color(enum.Enum):
        RED = 1

    value = {
        "instance": fractions.Fraction(1, 2),
        "ordered": collections.OrderedDict(a=collections.deque([1], 3)),
        "object with a state": email.policy.default,
        "set of them": {fractions.Fraction(1, 3)},
        "a class as a key": {fractions.Fraction: 1},
        "a name inside": types.SimpleNamespace(inside=functools.partial(int, "3")),
    }
    modules = {module for module, _ in _references(pickle.dumps(value))}
    assert {"fractions", "collections", "functools"} <= modules
    train = by_value("def train():\n    return Color.RED\n")["train"]
    train.__globals__["Color"] = Color
    assert "enum" in {use.module for use in pickle_function(train, "train").uses}


def test_what_is_large_is_said_and_what_is_too_large_refused(monkeypatch):
    from tfapp.api.travel import pickling

    monkeypatch.setattr(pickling, "LARGE_PICKLE", 1 << 20)
    names = by_value("def train():\n    return small, table\n")
    names.update(small=b"x", table=b"x" * (3 << 20))
    told = "train (cell.py:1) takes 3 MiB along, 3 MiB of it in `table`"
    assert pickle_function(names["train"], "train").note == told
    monkeypatch.setattr(pickling, "MAX_PICKLE", 2 << 20)
    with pytest.raises(ProgramError) as caught:
        pickle_function(names["train"], "train")
    assert str(caught.value) == f"{told}; the limit is 2 MiB"


def test_what_is_small_is_not_worth_a_word():
    assert pickle_function(lambda: 1, "train").note == ""
