"""`tfapp exec`: a command, or a shell, beside a program on the local engine."""

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import socket
import ssl
import struct
import termios
import time

import pytest

from tests.end_to_end.command_line import LIMIT, PLAIN_PACKAGE
from tests.waiting import wait
from tfapp.contract.encoding import encode
from tfapp.contract.names import KEY_EXEC, OFFER_PREFIX
from tfapp.contract.sessions import SessionOffer, SessionRequest
from tfapp.engines import open_engine
from tfapp.ready import ready
from tfapp.runner.sessions import MOST

RUNS = "import time\nprint('begins', flush=True)\ntime.sleep(600)\n"
# Leaves a daemon behind that has ended its parent, and then waits.
LEAVES = "(setsid sleep 7777 & setsid sleep 8888 &) ; exec sleep 9999"


@pytest.fixture
def running(tfapp):
    """`tfapp`, whose application is ended."""
    yield tfapp
    tfapp.ok("stop", "app", "--force")


def create(tfapp, *words):
    tfapp.program(RUNS)
    one = ("--appdef", PLAIN_PACKAGE, "--files", "program.py", "--component", "worker", 1)
    tfapp.ok("create", "app", *one, "--detach", "--wait", LIMIT, *words)
    wait(lambda: "begins" in tfapp.asks("logs", "app"), "it has not begun", LIMIT)


def sleeping(tfapp):
    return [pid for pid in tfapp.living() if re.search(rb"^sleep\0[789]{4}\0", cmdline(pid))]


def cmdline(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read()
    return b""


def moments(tfapp):
    found = tfapp.status("app")["status"]["timeline"]
    return [one["instance"] for one in found if one["kind"] == "session"]


def read_until(terminal, text, limit=60.0):
    found, end = b"", time.monotonic() + limit
    while text not in found:
        assert time.monotonic() < end, found
        if ready([terminal], seconds=1.0)[0]:
            found += os.read(terminal, 1 << 16)
    return found


def resize(terminal, rows, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def test_commands_a_terminal_and_their_ends(running, tmp_path):
    create(running)
    command = "pwd; echo $TFAPP_INSTANCE; echo wrong >&2; exit 7"
    ended = running("exec", "app", "worker/0", "--", "sh", "-c", command)
    assert (ended.code, ended.err) == (7, "wrong\n")
    assert re.fullmatch(r"/.*/work\nworker/0\n", ended.out)
    assert moments(running) == ["worker/0"]

    data = os.urandom(20_000_000)
    (tmp_path / "in").write_bytes(data)
    with open(tmp_path / "in", "rb") as given, open(tmp_path / "out", "wb") as got:
        cat = ("exec", "app", "worker/0", "--", "cat")
        assert running.start(*cat, stdin=given, stdout=got, stderr=None).wait(LIMIT) == 0
    assert (tmp_path / "out").read_bytes() == data

    nothing = running("exec", "app", "worker/0", "--", "no-such-command")
    assert nothing.code == 127
    assert nothing.err == "tfapp: no-such-command cannot be run: No such file or directory\n"

    own, its = pty.openpty()
    resize(own, 33, 111)
    streams = {"stdin": its, "stdout": its, "stderr": its}
    shell = running.start("exec", "app", "worker/0", "--", "sh", **streams)
    os.close(its)
    os.write(own, b"stty size; tty\n")
    assert b"/dev/pts/" in read_until(own, b"/dev/pts/")[-400:]
    os.write(own, b"stty size\n")
    read_until(own, b"33 111")
    resize(own, 44, 222)
    shell.send_signal(signal.SIGWINCH)
    # What is typed before the size has come is no mistake: it is asked again.
    os.write(own, b"until stty size | grep '^44 222'; do sleep 0.1; done; echo $((6*7))be\n")
    read_until(own, b"42be")
    os.write(own, b"sleep 9999; echo after $?\n")
    wait(lambda: sleeping(running), "it does not sleep", LIMIT)
    os.write(own, b"\x03")
    os.write(own, b"echo inter$((20+2))\n")
    read_until(own, b"inter22")
    assert sleeping(running) == []
    os.write(own, b"exit 5\n")
    assert shell.wait(LIMIT) == 5
    os.close(own)

    def end(kill):
        with running.start("exec", "app", "worker/0", "--", "sh", "-c", LEAVES) as client:
            wait(lambda: len(sleeping(running)) == 3, "not all sleep", LIMIT)
            kill(client)
            client.communicate(timeout=LIMIT)
        assert client.returncode != 0
        wait(lambda: not sleeping(running), "something is left", LIMIT)

    end(lambda client: client.kill())
    end(lambda client: client.terminate())
    runner = running.process("app", "worker/0", "tfapp-runtime")
    end(lambda client: os.kill(runner, signal.SIGKILL))


def test_only_the_owner_gets_in(running):
    """Neither another user's key, nor that of the containers, nor nobody's."""
    create(running)
    engine = open_engine("local", running.home, {})
    with engine.connect("app") as connection:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.check_hostname = False
        tls.load_verify_locations(cadata=connection.certificate.decode())
        shared = running.work / "shared.pem"
        shared.write_bytes(connection.key + connection.certificate)
        for pem in (None, shared):
            if pem is not None:
                tls.load_cert_chain(pem)
            with connection.watch(prefixes=[OFFER_PREFIX]) as watch:
                connection.put(KEY_EXEC, encode(SessionRequest(f"mine{pem}", "worker/0")))
                offer = SessionOffer.from_dict(json.loads(watch.get(30).value))
            assert offer.why == ""
            plain = socket.create_connection((offer.host, offer.port), 30)
            with plain, pytest.raises(OSError), tls.wrap_socket(plain) as connected:
                assert connected.recv(100) == b"", "it was let in"
                raise ConnectionError
    owner = running.home / "owner" / "owner.pem"
    assert owner.stat().st_mode & 0o777 == 0o600
    owner.rename(owner.with_name("was.pem"))
    refused = running("exec", "app", "worker/0", "--", "true")
    assert refused.code == 70
    assert "worker/0 does not let this user in" in refused.err
    owner.with_name("was.pem").rename(owner)
    assert running("exec", "app", "worker/0", "--", "true").code == 0


def test_few_are_open_at_once_and_they_end_with_the_program(running):
    create(running)
    with contextlib.ExitStack() as stack:
        beside = ("exec", "app", "worker/0", "--")
        clients = [
            stack.enter_context(running.start(*beside, "sh", "-c", LEAVES)) for _ in range(MOST)
        ]
        wait(lambda: len(sleeping(running)) == 3 * MOST, "not all sleep", LIMIT)
        refused = running(*beside, "true")
        assert refused.code == 70
        assert "4 sessions are open in it, and more are not allowed" in refused.err
        running.ok("stop", "app")
        for client in clients:
            client.communicate(timeout=LIMIT)
            assert client.returncode != 0
    wait(lambda: not running.living(), "something is left", LIMIT)


def test_it_is_refused_where_it_is_off(running):
    create(running, "--option", "site.global.exec", "false")
    refused = running("exec", "app", "worker/0", "--", "true")
    assert refused.code == 70
    assert "sessions are off: set site.global.exec: true" in refused.err
    assert moments(running) == []
    assert running("exec", "app", "worker", "--", "true").code == 2
