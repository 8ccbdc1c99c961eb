"""Bytecode of source files, from Python's own cache or made in it."""

import importlib.util
import os
import py_compile
import sys
from pathlib import Path

import pytest

from tests import programs
from tfapp.compiler.runtime import bytecode

SOURCE = b"print('as it was')\n"
NEWER = b"print('as it is now')\n"


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "module.py"
    path.write_bytes(SOURCE)
    return path


def run(compiled: bytes, folder: Path) -> str:
    """Its output beside another source, of another time and size."""
    beside = folder / "elsewhere" / "module.py"
    cached = Path(importlib.util.cache_from_source(str(beside)))
    cached.parent.mkdir(parents=True, exist_ok=True)
    cached.write_bytes(compiled)
    beside.write_text("print('compiled anew')")
    done = programs.python("-B", "-c", "import module", cwd=beside.parent)
    return done.stdout + done.stderr


def test_it_is_valid_beside_a_source_of_any_time(path, tmp_path):
    compiled = bytecode(path, SOURCE)
    assert compiled is not None
    assert run(compiled, tmp_path) == "as it was\n"


@pytest.mark.parametrize("mode", py_compile.PycInvalidationMode)
def test_what_python_has_cached_is_taken(path, mode):
    cached = Path(py_compile.compile(str(path), invalidation_mode=mode))
    before = cached.read_bytes()
    compiled = bytecode(path, SOURCE)
    assert compiled is not None
    assert compiled[16:] == before[16:]
    assert cached.read_bytes() == before


@pytest.mark.parametrize("mode", py_compile.PycInvalidationMode)
def test_what_is_older_than_the_source_is_not(path, mode, tmp_path):
    py_compile.compile(str(path), invalidation_mode=mode)
    path.write_bytes(NEWER)
    os.utime(path, (1, 1))
    compiled = bytecode(path, NEWER)
    assert compiled is not None
    assert run(compiled, tmp_path) == "as it is now\n"


@pytest.mark.parametrize("found", [b"", b"rubbish", bytes(40)])
def test_what_is_damaged_is_not(path, found, tmp_path):
    cached = Path(py_compile.compile(str(path)))
    cached.write_bytes(found)
    compiled = bytecode(path, SOURCE)
    assert compiled is not None
    assert run(compiled, tmp_path) == "as it was\n"


def test_there_is_none_where_nothing_can_be_cached(path, tmp_path):
    (tmp_path / "__pycache__").write_text("a file where the folder would be")
    assert bytecode(path, SOURCE) is None


def test_there_is_none_for_an_interpreter_without_a_cache(path, monkeypatch):
    monkeypatch.setattr(sys.implementation, "cache_tag", None)
    assert bytecode(path, SOURCE) is None
