from __future__ import annotations

import contextlib
import dataclasses
import errno
import io
import os
import sys
from pathlib import Path

import pytest

from tests.cli.played_engine import Output, shell
from tfapp.errors import UnavailableError
from tfapp.launch.caller import Caller, OutputClosedError, OutputFullError, calling_process


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


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_an_output_that_cannot_be_written_is_no_full_disk(tmp_path, number):
    class Full(io.StringIO):
        def flush(self):
            raise OSError(number, os.strerror(number))

    caller = dataclasses.replace(shell(tmp_path), out=Full())
    with pytest.raises(OutputFullError):
        caller.write(b"x")
    assert "standard output cannot be written, its rest is lost" in caller.err.text


def test_no_call_comes_from_windows(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(UnavailableError, match="tfapp does not run on Windows") as error:
        calling_process(Caller)
    assert "WSL" in error.value.hint


def test_a_user_without_a_home_folder_needs_none_until_something_is_kept(monkeypatch):
    """As an arbitrary user in an image (OpenShift): no HOME, and no entry in the passwd file."""
    monkeypatch.delenv("TFAPP_HOME", raising=False)
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", lambda uid: {}[uid])
    assert calling_process(Caller).home == Path("/.tfapp")
    monkeypatch.setenv("TFAPP_HOME", "/there")
    assert calling_process(Caller).home == Path("/there")


def test_grpc_meets_no_fork_of_this_process(monkeypatch):
    """Programs do not inherit it, and a user may want it otherwise."""
    monkeypatch.delenv("GRPC_ENABLE_FORK_SUPPORT", raising=False)
    assert "GRPC_ENABLE_FORK_SUPPORT" not in calling_process(Caller).environ
    assert os.environ["GRPC_ENABLE_FORK_SUPPORT"] == "0"
    monkeypatch.setenv("GRPC_ENABLE_FORK_SUPPORT", "1")
    calling_process(Caller)
    assert os.environ["GRPC_ENABLE_FORK_SUPPORT"] == "1"


@pytest.mark.parametrize(
    ("written", "one_place", "expected"),
    [
        (b"epoch 1: 0.5", True, "epoch 1: 0.5\nan event\n more\nanother\n"),
        (b"epoch 1: 0.5\r", True, "epoch 1: 0.5\r\nan event\n more\nanother\n"),
        (b"epoch 1\n", True, "epoch 1\nan event\n more\nanother\n"),
        (b"", True, "an event\n more\nanother\n"),
        (b"epoch 1: 0.5", False, "an event\nanother\n"),
    ],
)
def test_a_note_is_not_glued_to_an_unfinished_line(tmp_path, written, one_place, expected):
    with open(tmp_path / "out", "wb") as file, open(tmp_path / "err", "wb") as other:
        place = file if one_place else other
        err = open(os.dup(place.fileno()), "w")  # noqa: SIM115
        with open(os.dup(file.fileno()), "w") as out, err:
            mine = caller(tmp_path, out, err)
            mine.write(written)
            mine.note("an event")
            mine.write(b" more\n")
            mine.write(b"")
            mine.note("another")
    shown = (tmp_path / ("out" if one_place else "err")).read_bytes().decode()
    assert shown == expected


def test_a_full_disk_ends_the_output_and_is_told_once(tmp_path):
    err = io.StringIO()
    with contextlib.suppress(OSError), open("/dev/full", "w") as out:  # closing it flushes
        mine = caller(tmp_path, out, err)
        with pytest.raises(OutputFullError):
            mine.write(b"text")
    assert err.getvalue() == (
        "standard output cannot be written, its rest is lost: No space left on device\n"
    )
