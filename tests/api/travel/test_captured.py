"""What cannot travel is named: the variable, and the line that uses it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import ctypes
import io
import multiprocessing
import queue
import socket
import sqlite3
import sys
import tempfile
import threading
import weakref

import pytest

from tests.api.travel.test_pickling import by_value
from tfapp.api.travel.pickling import pickle_function
from tfapp.errors import ProgramError

SOURCE = """
import functools
import threading

def made(value):
    def train():
        x = 1
        return value
    return train

def made_deep(value):
    config = {"paths": {"log": value}}
    def inner():
        return config
    def train():
        return [inner()
                for _ in range(3)]
    return train

def with_default(value):
    def train(*, log=value):
        return log
    return train

def with_positional_default(value):
    def train(
        context=None,
        log=value,
    ):
        return log
    return train

def bound(value):
    class Trainer:
        def __init__(self):
            self.lock = value
        def train(self):
            return self.lock
    return Trainer().train

def called(value):
    class Trainer:
        def __init__(self):
            self.parts = [1, value]
        def __call__(self):
            return self.parts
    return Trainer()

def of_class(value):
    class Trainer:
        shared = value
        def train(self):
            return self.shared
    return Trainer().train

def in_method(value):
    class Model:
        def fit(self):
            return value
    def train():
        return Model().fit()
    return train

def partial(value):
    return functools.partial(lambda one: one, value)

def keyword(value):
    return functools.partial(lambda one: one, one=value)

def attribute(value):
    def train():
        return train.log
    train.log = value
    return train

def decorated(value):
    def logged(function):
        @functools.wraps(function)
        def wrapper():
            return value, function()
        return wrapper
    @logged
    def train():
        return 1
    return train

def of_set(value):
    some = {value}
    return lambda: some

def method_of(value):
    write = value.write
    def train():
        write("x")
    return train

def itself(value):
    def train(n=2):
        if n:
            return train(n - 1)
        return value
    return train
"""


def refusal(function) -> str:
    with pytest.raises(ProgramError) as caught:
        pickle_function(function, "train")
    assert caught.value.hint
    return str(caught.value)


class Slots:
    __slots__ = ("lock",)

    def __init__(self):
        self.lock = threading.Lock()


@pytest.fixture
def log(tmp_path):
    with (tmp_path / "log").open("w") as file:
        yield file


@pytest.mark.parametrize(
    ("maker", "told"),
    [
        ("made", "train (cell.py:6) captures `value`, an open file, at line 8"),
        (
            "made_deep",
            "inner (cell.py:13) captures `config['paths']['log']`, an open file, at line 14",
        ),
        ("with_default", "train (cell.py:21) captures `log`, an open file, at line 21"),
        ("with_positional_default", "train (cell.py:26) captures `log`, an open file, at line 26"),
        ("bound", "train (cell.py:37) captures `self.lock`, an open file, at line 38"),
        ("called", "train (cell.py:45) captures `self.parts[1]`, an open file"),
        ("of_class", "Trainer captures `Trainer.shared`, an open file"),
        ("in_method", "fit (cell.py:58) captures `value`, an open file, at line 59"),
        ("partial", "train (cell.py:65) captures `argument 1`, an open file"),
        ("keyword", "train (cell.py:68) captures `one`, an open file"),
        ("attribute", "train (cell.py:71) captures `train.log`, an open file"),
        ("decorated", "train (cell.py:78) captures `value`, an open file, at line 80"),
        ("of_set", "train (cell.py:89) captures `an item of some`, an open file, at line 89"),
        ("itself", "train (cell.py:98) captures `value`, an open file, at line 101"),
    ],
)
def test_the_variable_and_the_line_are_named(maker, told, log):
    assert refusal(by_value(SOURCE)[maker](log)) == told


def test_a_global_and_one_of_a_function_that_is_called(log):
    names = by_value(
        "def helper():\n    return 1, log\n\ndef train():\n    x = 1\n    return helper()\n"
    )
    names["log"] = log
    assert refusal(names["train"]) == "helper (cell.py:1) captures `log`, an open file, at line 2"
    names["helper"].__globals__["other_log"] = names.pop("log")
    assert pickle_function(names["train"], "train").data  # an attribute's name is no global


def test_a_name_that_only_an_attribute_has_is_not_blamed(log):
    names = by_value("def train():\n    x.log = 1\n    return lock\n")
    names.update(log=log, lock=threading.Lock(), x=None)
    assert "captures `lock`, a lock, at line 3" in refusal(names["train"])


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (threading.Lock, "a lock"),
        (threading.RLock, "a lock"),
        (threading.Event, "a lock"),
        (threading.Condition, "a lock"),
        (lambda: threading.Thread(target=print), "a thread"),
        (lambda: (x for x in "abc"), "a generator"),
        (queue.Queue, "a queue"),
        (lambda: sqlite3.connect(":memory:"), "a database connection"),
        (tempfile.TemporaryFile, "an open file"),
        (tempfile.NamedTemporaryFile, "an open file"),
        (asyncio.new_event_loop, "a part of an event loop"),
        (socket.socket, "a socket"),
        (concurrent.futures.ThreadPoolExecutor, "a pool of threads or processes"),
        (lambda: weakref.ref(Slots), "a weak reference"),
        (lambda: multiprocessing.Pipe()[0], "a process, or what belongs to one"),
        (lambda: ctypes.CDLL(None), "a loaded library"),
        (lambda: tempfile.TemporaryDirectory(), "a temporary folder"),
        (lambda: contextvars.ContextVar("x"), "a ContextVar, which cannot be pickled"),
    ],
)
def test_what_it_is_and_what_to_do(make, kind):
    value = make()
    with contextlib.ExitStack() as stack:
        for ends in ("close", "cleanup"):
            if hasattr(value, ends):
                stack.callback(getattr(value, ends))
        told = refusal(by_value(SOURCE)["made"](value))
    assert f"captures `value`, {kind}, at line 8" in told


def test_an_object_that_has_a_lock():
    class Holder:
        def __init__(self):
            self.inner = [threading.Lock()]

    told = refusal(by_value(SOURCE)["made"](Holder()))
    assert "captures `value.inner[0]`, a lock, at line 8" in told


def test_an_object_with_slots_that_has_a_lock():
    told = refusal(by_value(SOURCE)["made"](Slots()))
    assert "captures `value.lock`, a lock, at line 8" in told


def test_an_application_is_used_where_one_submits_from():
    application = type("Application", (), {"__module__": "tfapp.api.handle"})()
    told = refusal(by_value(SOURCE)["made"](application))
    assert "captures `value`, a tfapp application, at line 8" in told


def test_a_spark_context_is_known_though_it_refuses_with_words_of_its_own():
    def refuse(self):
        raise RuntimeError("SPARK-5063: it appears that you are attempting to reference")

    kind = type("SparkContext", (), {"__module__": "pyspark.context", "__getstate__": refuse})
    told = refusal(by_value(SOURCE)["made"](kind()))
    assert "captures `value`, a Spark context, at line 8" in told


@pytest.mark.parametrize(
    ("module", "name", "kind"),
    [
        ("tensorflow.python.client.session", "BaseSession", "a TensorFlow session"),
        ("tensorflow.python.framework.ops", "Graph", "a TensorFlow graph"),
        (
            "tensorflow.python.distribute.distribute_lib",
            "StrategyBase",
            "a tf.distribute strategy",
        ),
        ("tensorflow.python.data.ops.dataset_ops", "MapDataset", "a tf.data.Dataset"),
        ("tensorflow.python.framework.ops", "EagerTensor", "an EagerTensor, which cannot"),
    ],
)
def test_what_is_of_tensorflow(module, name, kind):
    """By its class alone: nothing here loads TensorFlow."""
    made = type(name, (), {"__module__": module, "__reduce__": lambda self: 1 / 0})
    derived = type("Mine", (made,), {})
    assert f"captures `value`, {kind}" in refusal(by_value(SOURCE)["made"](made()))
    if "which" not in kind:
        assert f"captures `value`, {kind}" in refusal(by_value(SOURCE)["made"](derived()))


def test_what_is_nested_too_deeply():
    nested: list = []
    for _ in range(100_000):
        nested = [nested]
    told = refusal(by_value(SOURCE)["made"](nested))
    while nested:  # its deletion would nest as deeply
        nested = nested.pop()
    assert "captures `value" in told and "a list that is nested too deeply, at line 8" in told


def test_what_is_written_to_the_terminal_or_to_memory_goes_along(capsys):
    with capsys.disabled():
        function = by_value(SOURCE)["made"]([sys.stdout, sys.stderr, io.StringIO("x")])
        assert pickle_function(function, "train").data
