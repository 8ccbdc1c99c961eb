"""`tfapp exec` beside a program in a Docker container."""

import os
import signal
import struct
from types import SimpleNamespace

import pytest

from tests.end_to_end.command_line import CommandLine
from tests.end_to_end.sessions import (
    DAEMONS,
    check_commands,
    check_end,
    check_terminal,
    cmdline,
    create,
    sleeping,
)
from tests.runner.docker.flags import in_docker
from tfapp.contract.channel import ERRORS, OUTPUT
from tfapp.runner.docker.command import Demultiplexer
from tfapp.runner.docker.engine import DockerEngine, EngineError


@pytest.fixture
def tfapp(engine, tmp_path, tfapp_home):
    (tmp_path / "work").mkdir()
    tfapp = CommandLine(tmp_path / "work", tfapp_home)
    yield tfapp
    tfapp.ok("stop", "app", "--force")
    assert engine.containers() == []


def test_commands_a_terminal_and_their_ends(tfapp, engine):
    create(tfapp, *in_docker())
    check_commands(tfapp, "executable file not found in $PATH")
    check_terminal(tfapp)
    # What is left in the background goes with the command that ends.
    ended = tfapp("exec", "app", "worker/0", "--", "sh", "-c", f"{DAEMONS}; exit 6")
    assert (ended.code, sleeping(tfapp)) == (6, [])
    check_end(tfapp, lambda client: client.kill())
    check_end(tfapp, lambda client: client.terminate())

    def kill(words: bytes) -> None:
        (pid,) = (pid for pid in tfapp.living() if words in cmdline(pid))
        os.kill(pid, signal.SIGKILL)

    check_end(tfapp, lambda client: kill(b"tfapp.runner.session"))
    check_end(tfapp, lambda client: kill(b"tfapp-runtime\0runner"))


@pytest.mark.parametrize("size", [1, 3, 9, 1000])
def test_both_outputs_come_apart_however_they_are_cut(size):
    sent = b"".join(
        struct.pack("!B3xI", stream, len(data)) + data
        for stream, data in ((1, b"one"), (2, b""), (2, b"\x01\0wrong"), (1, b"two" * 100))
    )
    streams, told = Demultiplexer(), {OUTPUT: b"", ERRORS: b""}
    for start in range(0, len(sent), size):
        for kind, piece in streams.feed(sent[start : start + size]):
            told[kind] += piece
    assert told == {OUTPUT: b"one" + b"two" * 100, ERRORS: b"\x01\0wrong"}


def test_a_command_that_is_no_utf8_is_refused(monkeypatch):
    """The engine would run another one: its JSON has no surrogates."""
    monkeypatch.setattr("docker.APIClient", lambda **_: SimpleNamespace(base_url="http://near"))
    with pytest.raises(EngineError, match="bytes that are no UTF-8"):
        DockerEngine({}).prepare_command("id", ("cat", "\udcff"), {}, False)


@pytest.mark.parametrize("url", ["https://far:2376", "http+docker://ssh"])
def test_no_command_runs_where_half_a_connection_cannot_end(monkeypatch, url):
    client = SimpleNamespace(base_url=url)
    monkeypatch.setattr("docker.APIClient", lambda **_: client)
    engine = DockerEngine({"DOCKER_HOST": "tcp://far:2376"})
    with pytest.raises(EngineError, match="at tcp://far:2376 is reached by TLS or SSH"):
        engine.prepare_command("id", ("true",), {}, False)
