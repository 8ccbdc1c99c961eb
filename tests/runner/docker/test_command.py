"""`tfapp exec` beside a program in a Docker container."""

import os
import shutil
import struct
from types import SimpleNamespace

import pytest

from tests.end_to_end.command_line import CommandLine
from tests.end_to_end.sessions import (
    DAEMONS,
    check_commands,
    check_end_of_runner,
    check_terminal,
    check_what_ends,
    create,
    sleeping,
)
from tests.lacking import lacking
from tests.runner.docker.engine import BASE
from tests.runner.docker.flags import in_docker
from tfapp.contract.channel import ERRORS, OUTPUT
from tfapp.runner.docker.command import Demultiplexer
from tfapp.runner.docker.engine import DockerEngine, EngineError

# The image has a Python of its own.
IN_IMAGE = (
    "--option",
    "site.global.run.mode",
    "docker",
    "--option",
    "site.global.docker.image",
    BASE,
)
OTHER = 12345  # a user whom no list of users names
# It may see this Python and this working tree, wherever they are, and nothing else that is root's.
AS_OTHER = (
    *("setpriv", f"--reuid={OTHER}", f"--regid={OTHER}", "--clear-groups"),
    "--securebits=+no_setuid_fixup",  # so that access(2) looks with that right, too
    *("--inh-caps=-all,+dac_read_search", "--ambient-caps=+dac_read_search"),
)


@pytest.fixture
def tfapp(engine, tmp_path, tfapp_home):
    (tmp_path / "work").mkdir()
    tfapp = CommandLine(tmp_path / "work", tfapp_home)
    yield tfapp
    tfapp.ok("stop", "app", "--force")
    assert engine.containers() == []


@pytest.fixture
def other(engine, tmp_path):
    """`tfapp`, called by another user than root, who may use the engine."""
    if shutil.which("setpriv") is None:
        lacking("no setpriv on PATH")
    work, home = tmp_path / "work", tmp_path / "home"
    for path in (work, home):
        path.mkdir()
        os.chown(path, OTHER, OTHER)
    before = engine.socket.stat()
    os.chown(engine.socket, OTHER, OTHER)
    other = CommandLine(work, home, AS_OTHER, environ={"HOME": str(home)})
    yield other
    other.ok("stop", "app", "--force")
    os.chown(engine.socket, before.st_uid, before.st_gid)
    assert (engine.containers(), other.living()) == ([], [])


def test_commands_a_terminal_and_their_ends(tfapp, engine):
    create(tfapp, *in_docker())
    check_commands(tfapp, "executable file not found in $PATH")
    check_terminal(tfapp)
    # What is left in the background goes with the command that ends.
    ended = tfapp("exec", "app", "worker/0", "--", "sh", "-c", f"{DAEMONS}; exit 6")
    assert (ended.code, sleeping(tfapp)) == (6, [])
    check_what_ends(tfapp)
    check_end_of_runner(tfapp)


def test_beside_a_program_of_another_user_than_root(other):
    """It is that user's, too, without any right of root's, and so is all that has to be ended."""
    create(other, *IN_IMAGE)
    check_commands(other, "executable file not found in $PATH")
    look = "id -u; id -g; id -G; grep -E 'Cap(Prm|Eff|Amb)' /proc/self/status; cat /etc/shadow"
    ended = other("exec", "app", "worker/0", "--", "sh", "-c", look)
    assert ended.out.split()[:3] == [str(OTHER)] * 3
    assert ended.out.split()[4::2] == ["0" * 16] * 3
    assert (ended.code, "Permission denied" in ended.err) == (1, True)
    check_terminal(other)
    check_what_ends(other)


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
