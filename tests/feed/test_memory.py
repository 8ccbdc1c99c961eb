"""Rows travel through memory that a task and a program share, where they can."""

import json
import os
import socket
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from tfapp.feed.columns import PIECE, arrays_of, record_batch
from tfapp.feed.memory import SLOT, SLOTS, Memory, SharedMemory
from tfapp.feed.wire import ImpossibleError

if not hasattr(os, "memfd_create"):
    pytest.skip("there is no memfd_create", allow_module_level=True)


@pytest.fixture
def memory():
    made = Memory()
    yield made
    made.close()


@pytest.fixture
def shared(memory):
    made = SharedMemory()
    assert made.open(memory.place)
    return made


def rows(size: int, value: int = 7) -> pa.RecordBatch:
    return record_batch({"x": np.full((size // 64, 64), value, "u1")})


def test_what_is_written_is_read(memory, shared):
    for slot in range(SLOTS):
        size = memory.write(slot, rows(PIECE, slot))
        assert PIECE < size <= SLOT
    for slot in range(SLOTS):
        found = arrays_of(shared.read(slot, size))["x"]
        assert found.shape == (PIECE // 64, 64) and (found == slot).all()


def test_some_rows_of_a_batch_with_texts(memory, shared):
    batch = pa.record_batch({"id": range(100), "name": [f"row {n}" for n in range(100)]})
    size = memory.write(1, batch.slice(40, 3))
    found = arrays_of(shared.read(1, size))
    assert found["id"].tolist() == [40, 41, 42]
    assert found["name"].tolist() == ["row 40", "row 41", "row 42"]
    assert size < 1000


@pytest.mark.parametrize("size", [SLOT - 64, SLOT, SLOT + 64, 3 * SLOT])
def test_rows_that_are_too_large(memory, shared, size):
    assert memory.write(0, rows(size)) is None
    assert arrays_of(shared.read(0, memory.write(0, rows(64))))["x"].tolist() == [[7] * 64]


@pytest.mark.parametrize(("slot", "size"), [(SLOTS, 1), (-1, 1), (0, SLOT + 1), (0, -1)])
def test_no_such_slot(shared, slot, size):
    with pytest.raises(ImpossibleError):
        shared.read(slot, size)


def test_memory_that_was_not_opened():
    with pytest.raises(ImpossibleError):
        SharedMemory().read(0, 1)


def test_what_was_opened_stays_as_it_is(shared, memory):
    """The task has failed, and its process has gone on to another one."""
    other = Memory()
    assert shared.open(other.place)
    size = other.write(0, rows(640, 3))
    other.close()
    assert memory.write(0, rows(640, 5)) == size
    assert (arrays_of(shared.read(0, size))["x"] == 3).all()


def test_that_of_another_process():
    code = (
        "from tfapp.feed.memory import Memory; import json, tests.feed.test_memory as test;"
        "memory = Memory(); size = memory.write(1, test.rows(640));"
        "print(json.dumps(memory.place), size, flush=True); input()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=-1, stdout=subprocess.PIPE, text=True
    )
    with process:
        place, _, size = process.stdout.readline().rpartition(" ")
        shared = SharedMemory()
        assert shared.open(json.loads(place))
        process.communicate("\n")
    assert (arrays_of(shared.read(1, int(size)))["x"] == 7).all(), "it is kept to the end"
    assert not SharedMemory().open(json.loads(place)), "its process has ended"


def test_files_that_are_no_memory_of_a_task(memory, tmp_path):
    """A process of another machine can have the number of one that is here."""
    shared = SharedMemory()
    assert not shared.open({**memory.place, "name": "tfapp-feed-another"})
    assert not shared.open({**memory.place, "file": 999_999})
    assert not shared.open({**memory.place, "process": 2**30})
    with socket.socket() as other, (tmp_path / "file").open("w") as file:
        for each in (other, file):
            assert not shared.open({**memory.place, "file": each.fileno()})
    small = os.memfd_create("small")
    try:
        assert not shared.open({"process": os.getpid(), "file": small, "name": "small"})
    finally:
        os.close(small)


def test_a_system_without_such_memory(monkeypatch):
    monkeypatch.delattr(os, "memfd_create")
    with pytest.raises(OSError):
        Memory()
