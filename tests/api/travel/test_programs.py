"""What may be given as a program, and what is said of what may not."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest

from tfapp.api.travel.modules import Finder
from tfapp.api.travel.programs import ModuleProgram, ScriptProgram, parse_program, program_name
from tfapp.errors import ExitCode, ProgramError
from tfapp.program.named import NamedFunction


class Trainer:
    def train(self, context):
        return 1

    def __call__(self):
        return 1

    async def waits(self):
        return 1


def two(one, other):
    return one + other


async def waits():
    return 1


def counts():
    yield 1


@pytest.fixture
def parse(tmp_path):
    (tmp_path / "train.py").write_text("def main(): pass\nother = main\nfrom os import path\n")
    (tmp_path / "train.sh").touch()
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").touch()
    (tmp_path / "pkg" / "lazy.py").write_text("def __getattr__(name): return print\n")
    return lambda given: parse_program(given, Finder([tmp_path]), tmp_path)


@pytest.mark.parametrize(
    "function",
    [
        lambda: 1,
        lambda context: 1,
        functools.partial(two, 1),
        functools.partial(two, 1, 2),
        Trainer(),
        Trainer().train,
        print,
    ],
)
def test_whatever_can_be_called(parse, function):
    assert parse(function) is function


def test_scripts_and_modules(parse, tmp_path):
    assert parse("train.py") == ScriptProgram(tmp_path / "train.py") == parse(tmp_path / "train.py")
    assert parse("train.sh") == ScriptProgram(tmp_path / "train.sh")
    assert parse("train") == ModuleProgram("train")
    assert parse("pkg.lazy") == ModuleProgram("pkg.lazy")
    assert parse("timeit") == ModuleProgram("timeit")


@pytest.mark.parametrize(
    "text", ["train:main", "train:other", "train:path.join", "pkg.lazy:anything"]
)
def test_functions_by_name(parse, text):
    module, _, name = text.partition(":")
    assert parse(text) == NamedFunction(module, name)


def test_arguments_of_a_function_by_name(parse):
    given = NamedFunction("train", "main", (1, (2.5, None)), {"rates": {"a": [True, "x"]}})
    assert parse(given) is given


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("no_such_module", "there is no module no_such_module"),
        ("no_such_module:main", "there is no module no_such_module"),
        ("train:no_such", "has no no_such"),
        ("train.no_such:main", "there is no module train.no_such"),
        ("pkg", "pkg is a package without a module __main__"),
        ("no/such.py", "there is no script no/such.py"),
        ("trian.py", "there is no script trian.py"),
        ("~nobody/train.py", "there is no script ~nobody/train.py"),
        ("what is this", "'what is this' is no program"),
        (5, "an int is no program"),
        (json, "a module is no program"),
        (None, "a NoneType is no program"),
        (Trainer, "Trainer is a class"),
        (waits, "waits is a coroutine"),
        (Trainer().waits, "waits is a coroutine"),
        (counts, "counts is a generator"),
        (functools.partial(counts), "counts is a generator"),
        (two, "two has the parameters one, other"),
        (NamedFunction("train", "main", (object(),)), "are no plain data: Object of type object"),
        (NamedFunction("train", "main", ({1: 2},)), "the arguments of train:main are no plain"),
        (NamedFunction("train", "main", (), {"a": {1, 2}}), "are no plain data"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_is_no_program(parse, given: Any, told):
    with pytest.raises(ProgramError) as caught:
        parse(given)
    assert told in str(caught.value)
    assert caught.value.exit_code == ExitCode.BAD_CONFIGURATION


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("dir/train.py", "train"),
        ("pkg.train", "train"),
        ("train", "train"),
        ("pkg:main", "main"),
        (two, "two"),
        (functools.partial(two, 1), "two"),
        (lambda: 1, "run"),
        (Trainer(), "Trainer"),
        (NamedFunction("train", "main"), "main"),
    ],
)
def test_names(given, name):
    assert program_name(given) == name
