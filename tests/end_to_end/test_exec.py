"""`tfapp exec`: a command, or a shell, beside a program on the local engine."""

import contextlib
import json
import socket
import ssl

import pytest

from tests.end_to_end.command_line import LIMIT
from tests.end_to_end.sessions import (
    LEAVES,
    check_commands,
    check_end_of_runner,
    check_terminal,
    check_what_ends,
    create,
    moments,
    sleeping,
)
from tests.waiting import wait
from tfapp.contract.encoding import encode
from tfapp.contract.names import KEY_EXEC, OFFER_PREFIX
from tfapp.contract.sessions import SessionOffer, SessionRequest
from tfapp.engines import open_engine
from tfapp.runner.sessions import MOST

pytestmark = pytest.mark.slow


@pytest.fixture
def running(tfapp):
    """`tfapp`, whose application is ended."""
    yield tfapp
    tfapp.ok("stop", "app", "--force")


def test_commands_a_terminal_and_their_ends(running):
    create(running)
    check_commands(running, "No such file or directory")
    check_terminal(running, "--", "sh")
    check_what_ends(running)
    check_end_of_runner(running)


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


@pytest.mark.slow
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
