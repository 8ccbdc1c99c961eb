"""What a function returned is written as data, or one sentence says why not."""

from __future__ import annotations

import datetime
import hashlib
import json
import threading
from pathlib import Path

import pytest

from tests.program import calls
from tfapp.contract.names import RETURNED_FILE
from tfapp.program import returned


@pytest.fixture
def environ(tmp_path):
    for folder in ("container/log", "container/work"):
        (tmp_path / folder).mkdir(parents=True)
    return {
        "TFAPP_COMPONENT": "worker",
        "TFAPP_INDEX": "1",
        "TFAPP_GENERATION": "3",
        "TFAPP_LOG_DIR": str(tmp_path / "container" / "log"),
        "TFAPP_WORK_DIR": str(tmp_path / "container" / "work"),
        "TFAPP_CHECKPOINT_DIR": str(tmp_path / "container" / "checkpoints"),
    }


@pytest.fixture
def record(environ):
    """Writes the record of a value; what is in it then, which is all that is there."""

    def record(value, pickles=False, **more):
        returned.write(value, pickles, {**environ, **more})
        (file,) = Path(environ["TFAPP_LOG_DIR"]).iterdir()
        assert file.name == "tfapp-returned.json"
        return json.loads(file.read_bytes())

    return record


def test_engines_know_it_by_its_name():
    assert returned.FILE == RETURNED_FILE


def test_plain_data_is_plain_json(record, capfd):
    value = {"loss": 0.5, "steps": [1, 2], "name": "a\ud800", "none": None, "yes": True}
    assert record(value) == {"generation": 3, "value": value}
    assert record([]) == {"generation": 3, "value": []}
    assert record(None) == {"generation": 3}
    assert capfd.readouterr() == ("", "")


class Thing:
    pass


class History:
    __module__ = "keras.src.callbacks.history"


class LateTensor:
    """One of a graph."""

    __module__ = "tensorflow.python.framework.ops"

    def numpy(self):
        raise NotImplementedError


LOOP: list = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            {"history": History()},
            "returned['history'] is a keras History, which is no data; return its .history, or "
            "give pickles=True",
        ),
        (
            [0, ({"a": {1, 2}},)],
            "returned[1][0]['a'] is a set, which is no data; return a list, or give pickles=True",
        ),
        (
            Thing(),
            "returned is a tests Thing, which is no data; return numbers, text, bytes, lists, "
            "dicts or NumPy arrays, or give pickles=True",
        ),
        (
            [datetime.datetime(2026, 1, 1)],
            "returned[0] is a datetime datetime, which is no data; return its .isoformat(), or "
            "give pickles=True",
        ),
        (
            LateTensor(),
            "returned is a tensorflow LateTensor, which is no data; return numbers, text, bytes, "
            "lists, dicts or NumPy arrays, or give pickles=True",
        ),
        (
            {"a": {Thing: 1}},
            "returned['a'] has a key that is a type, which is no data; return numbers, text, "
            "bytes, lists, dicts or NumPy arrays, or give pickles=True",
        ),
        (LOOP, "what it returned is nested too deeply, or contains itself"),
    ],
    ids=["hint", "nested", "class", "base", "tensor", "key", "loop"],
)
def test_what_is_no_data_is_one_sentence_with_its_place(record, capfd, value, said):
    assert record(value) == {"generation": 3, "error": said}
    warning = f"tfapp: what the program returned does not come back: {said}\n"
    assert capfd.readouterr() == ("", warning)


def test_arrays_that_are_no_data(record):
    numpy = pytest.importorskip("numpy")
    array = numpy.array([Thing()], dtype=object)
    assert record(array)["error"] == (
        "returned is a NumPy array of dtype object, which is no data; return its .tolist()"
    )
    masked = numpy.ma.masked_array([1, 2], mask=[True, False])
    assert record({"m": masked})["error"] == (
        "returned['m'] is a masked array, which is no data; return its .filled() and .mask"
    )


def test_what_does_not_even_pickle(record):
    assert record([open], pickles=True)["value"][0]["$"] == "pickle"
    said = record({"lock": threading.Lock()}, pickles=True)["error"]
    assert said.startswith("returned['lock'] does not pickle: TypeError: ")


LARGE = "x" * (returned.LIMIT - 1)  # and two quotation marks


def test_a_large_value_is_a_file_below_the_checkpoint_folder(record, tmp_path):
    assert record(LARGE[1:])["value"] == LARGE[1:]
    for place in (str(tmp_path / "shared" / "app"), f"file://{tmp_path}/shared/app"):
        written = record(LARGE, TFAPP_CHECKPOINT_DIR=place)
        path = tmp_path / "shared" / "app" / "returned" / "worker-1.json"
        assert list(path.parent.iterdir()) == [path]
        assert json.loads(path.read_bytes()) == LARGE
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        file = {"path": str(path), "size": returned.LIMIT + 1, "sha256": digest}
        assert written == {"generation": 3, "file": file}
        path.unlink()


def test_a_large_value_without_a_place(record, tmp_path):
    assert record(LARGE * 3)["error"] == (
        "what it returned is 3 MiB, and at most 1 MiB come back without a checkpoint folder; give "
        "checkpoints=, and larger values are kept there"
    )
    assert record(LARGE * 3, TFAPP_CHECKPOINT_DIR="gs://c/app/")["error"] == (
        "what it returned is 3 MiB, more than 1 MiB, and gs://c/app/returned/worker-1.json cannot "
        "be written: the packages of tfapp open no such URL"
    )
    (tmp_path / "file").touch()
    said = record(LARGE, TFAPP_CHECKPOINT_DIR=str(tmp_path / "file" / "app"))["error"]
    assert "Not a directory" in said


def test_without_a_log_folder_there_is_a_warning(environ, capfd):
    returned.write(1, False, {**environ, "TFAPP_LOG_DIR": "/nonexistent"})
    assert "No such file or directory" in capfd.readouterr().err


def test_a_program_that_returns_no_data_succeeds(tmp_path):
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "own.py").write_text("def tell():\n    return {1}\n")
    program = {"kind": "function", "module": "own", "function": "tell"}
    done = calls.start(calls.ship(tmp_path / "files", {"worker": program}), tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (0, 1)
    assert "returned is a set" in done.stderr
