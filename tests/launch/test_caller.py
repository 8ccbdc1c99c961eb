from __future__ import annotations

import io
import os
import sys

import pytest

from tests.cli.played_engine import Output
from tfapp.errors import UnavailableError
from tfapp.launch.caller import Caller, OutputClosedError, calling_process


def caller(tmp_path, out, err=None) -> Caller:
    return Caller(out, err or io.StringIO(), {}, tmp_path, tmp_path / "home", "ada", sys.executable)


def test_a_stream_of_bytes_gets_what_was_written_as_it_is(tmp_path):
    out = Output()
    caller(tmp_path, out).write(b"caf\xe9 \xff")
    assert out.buffer.getvalue() == b"caf\xe9 \xff"


def test_a_stream_of_text_gets_whole_characters(tmp_path):
    out = io.StringIO()
    notebook = caller(tmp_path, out)
    for piece in ("é€".encode()[:3], "é€".encode()[3:], b" \xff\n"):
        notebook.write(piece)
    assert out.getvalue() == "é€ \ufffd\n"


def test_a_note_comes_behind_what_was_written_before(tmp_path):
    with open(tmp_path / "log", "w") as file:
        file.write("one ")
        with open(tmp_path / "log", "a") as err:
            caller(tmp_path, file, err).note("two")
    assert (tmp_path / "log").read_text() == "one two\n"


def test_a_reader_that_has_gone_ends_the_output_and_no_note(tmp_path):
    read, write = os.pipe()
    os.close(read)
    stream = os.fdopen(write, "w")
    with pytest.raises(OutputClosedError):
        caller(tmp_path, stream).write(b"x")
    caller(tmp_path, io.StringIO(), stream).note("nobody reads this")
    with pytest.raises(BrokenPipeError):
        stream.close()


def test_no_call_comes_from_windows(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(UnavailableError, match="tfapp does not run on Windows") as error:
        calling_process(Caller)
    assert "WSL" in error.value.hint
