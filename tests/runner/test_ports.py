"""Held ports on the real kernel."""

import socket
import subprocess
import sys

import pytest

from tests import programs
from tfapp.runner import ports
from tfapp.runner.ports import NoPortError

LISTEN = """
import socket, sys
server = socket.socket()
if sys.argv[2] == "shared":
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
try:
    server.bind(("0.0.0.0", int(sys.argv[1])))
    server.listen()
except OSError:
    sys.exit(7)
print("listening", flush=True)
server.accept()[0].sendall(b"served")
"""


@pytest.fixture
def held():
    port = ports.hold()
    yield port
    port.close()


def busy_ports(count: int) -> list[socket.socket]:
    found = []
    for _ in range(count):
        taken = socket.socket()
        taken.bind(("", 0))
        found.append(taken)
    return found


def test_another_process_that_shares_the_port_serves_it(held):
    process = subprocess.Popen(
        [sys.executable, "-c", LISTEN, str(held.number), "shared"], stdout=subprocess.PIPE
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"listening\n"
        with socket.create_connection(("127.0.0.1", held.number), timeout=120) as client:
            assert client.recv(100) == b"served"
    assert process.returncode == 0


def test_a_process_that_does_not_share_the_port_is_refused(held):
    assert programs.python("-c", LISTEN, held.number, "alone").returncode == 7


def test_a_second_holder_gets_another_port(held):
    second = ports.hold(preferred=held.number)
    assert second.number != held.number
    second.close()


def test_the_preferred_port_is_taken_where_it_is_free(held):
    number = held.number
    held.close()
    again = ports.hold(preferred=number)
    assert again.number == number
    again.close()
    again.close()


def test_a_range_gives_its_free_ports_and_says_when_it_is_full():
    taken = busy_ports(2)
    first, second = (other.getsockname()[1] for other in taken)
    allowed = f"{first}, {second}-{second}"
    try:
        with pytest.raises(NoPortError) as error:
            ports.hold(allowed)
        assert str(error.value) == (
            f"no port is free in site.global.slider.allowed.ports: {allowed} "
            "(2 ports, all in use on this machine); widen the range"
        )
        taken[1].close()
        held = ports.hold(allowed)
        assert held.number == second
        held.close()
    finally:
        for other in taken:
            other.close()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("48000", [range(48000, 48001)]),
        ("48000, 50000-50010,", [range(48000, 48001), range(50000, 50011)]),
    ],
)
def test_ranges_are_read(text, expected):
    assert list(ports.parse_ranges(text)) == expected


@pytest.mark.parametrize("text", ["x", "1-", "-5", "1-2-3", "0", "70000", "5-4", "80 81", "²"])
def test_what_is_no_range_is_refused(text):
    with pytest.raises(NoPortError, match=r"^site\.global\.slider\.allowed\.ports: "):
        list(ports.parse_ranges(text))
