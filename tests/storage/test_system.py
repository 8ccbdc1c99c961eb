"""tfapp.storage.fsspec on a real object store."""

import io
import os

import pytest

import tfapp.storage
from tests import programs
from tests.cli.commands.test_tensorboard import write_scalar
from tests.lacking import needs_storage
from tests.storage.test_startup import STARTUP
from tfapp.contract.names import ENV_STORAGE

pytestmark = needs_storage

BASE = "s3://bucket/base"
ODD = ("a#b", "a?b", "a%20b c", "ü+&=")


@pytest.fixture
def system(s3, monkeypatch):
    for name, value in s3.items():
        monkeypatch.setenv(name, value)
    system = tfapp.storage.fsspec(BASE)
    with system.open(f"{BASE}/keep", "wb") as file:
        file.write(b"kept")
    yield system
    system.rm("s3://bucket/base", recursive=True)


@pytest.mark.parametrize("name", ODD)
def test_names_are_whole(system, name):
    with system.open(f"{BASE}/{name}", "wb") as file:
        file.write(name.encode())
    assert sorted(one.rpartition("/")[2] for one in system.ls(BASE, detail=False)) == sorted(
        [name, "keep"]
    )
    assert system.cat_file(f"{BASE}/{name}") == name.encode()
    system.rm_file(f"{BASE}/{name}")
    assert system.find(BASE) == [f"{BASE}/keep"]


def test_files_and_folders(system):
    content = os.urandom(9_000_000)
    system.pipe_file(f"{BASE}/a/b/large", content)
    assert system.info(f"{BASE}/a/b/large")["size"] == len(content)
    assert system.isdir(f"{BASE}/a") and not system.isfile(f"{BASE}/a")
    with system.open(f"{BASE}/a/b/large", "rb") as file:
        file.seek(-5, io.SEEK_END)
        assert file.read() == content[-5:]
        file.seek(4_200_000)
        assert file.read(10) == content[4_200_000:4_200_010]
    assert system.find(BASE) == [f"{BASE}/a/b/large", f"{BASE}/keep"]
    assert system.glob(f"{BASE}/*/b/l*") == [f"{BASE}/a/b/large"]
    system.mv(f"{BASE}/a/b/large", f"{BASE}/moved")
    system.copy(f"{BASE}/moved", f"{BASE}/copy")
    assert system.cat_file(f"{BASE}/copy", 3, 7) == content[3:7]
    system.rm([f"{BASE}/moved", f"{BASE}/copy"])
    assert system.find(BASE) == [f"{BASE}/keep"]


def test_the_names_of_hadoop_are_the_same_files(system):
    other = BASE.replace("s3://", "s3a://")
    assert tfapp.storage.fsspec(other).cat_file(f"{other}/keep") == b"kept"


def test_a_table_is_written_and_read(system):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"x": [1, 2, 3]})
    with system.open(f"{BASE}/table.parquet", "wb") as file:
        table.to_parquet(file)
    with system.open(f"{BASE}/table.parquet", "rb") as file:
        assert pandas.read_parquet(file).equals(table)
    assert pandas.read_parquet(f"{BASE}/table.parquet", filesystem=system).equals(table)


def test_errors_are_those_of_files(system):
    with pytest.raises(FileNotFoundError, match="s3://bucket/base/none: "):
        system.open(f"{BASE}/none", "rb")
    with pytest.raises(OSError, match="s3://nowhere/x: .*Make the bucket first"):
        tfapp.storage.fsspec("s3://nowhere/x").open("s3://nowhere/x", "rb")
    with pytest.raises(FileNotFoundError):
        system.rm(f"{BASE}/none")


def test_programs_end_as_they_would(system):
    """obstore's own file system ended one in a hundred by SIGABRT."""
    program = f"import tfapp.storage; tfapp.storage.fsspec({BASE!r}).cat_file({BASE!r} + '/keep')"
    codes = [programs.python("-c", program).returncode for _ in range(5)]
    assert codes == [0] * 5


BOARD = """
import sys, types
sys.modules["tensorboard.compat.notf"] = types.ModuleType("notf")  # as if there were no TensorFlow
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
board = EventMultiplexer().AddRunsFromDirectory(sys.argv[1])
board.Reload()
print({run: board.GetAccumulator(run).Tags() for run in board.Runs()}, "tensorflow" in sys.modules)
"""


@pytest.mark.slow
def test_a_tensorboard_without_tensorflow_reads_event_files(system, s3, tmp_path):
    write_scalar(tmp_path / "train")
    system.put(str(tmp_path / "train"), f"{BASE}/train", recursive=True)
    hook = {"PYTHONPATH": STARTUP, ENV_STORAGE: "/packages"}
    printed = programs.printed("-c", BOARD, BASE, environ={**s3, **hook})
    assert "'train': " in printed and "'loss'" in printed and "False" in printed
