"""The connection of a session, and a peer that keeps to nothing."""

import socket
import ssl
import struct
import threading
import time

import pytest

from tfapp.contract.channel import AHEAD, MAX_FRAME, Channel, GoneError, size
from tfapp.engines.credentials import new_credentials

LIMIT = 60.0  # seconds


def frame(kind: bytes, data: bytes = b"", length: int = -1) -> bytes:
    return struct.pack("!cI", kind, len(data) if length < 0 else length) + data


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    """The contexts of both sides."""
    certificate, key = new_credentials(time.time())
    pem = tmp_path_factory.mktemp("tls") / "pem"
    pem.write_bytes(key + certificate)
    contexts = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for context in contexts:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    contexts[0].load_cert_chain(pem)
    return contexts


@pytest.fixture
def ends(tls):
    """The channel, and its peer, which may send and read whatever it likes."""
    mine, its = socket.socketpair()
    found = []

    def serve() -> None:
        found.append(tls[0].wrap_socket(its, server_side=True))

    thread = threading.Thread(target=serve)
    thread.start()
    connection = tls[1].wrap_socket(mine)
    thread.join(LIMIT)
    with connection, found[0]:
        yield Channel(connection), found[0]


def received(channel: Channel, count: int) -> list[tuple[bytes, bytes]]:
    """The next `count` frames."""
    found, end = [], time.monotonic() + LIMIT
    while len(found) < count:
        assert time.monotonic() < end, found
        channel.wait({}, 1.0)
        found += channel.take()
    return found


def gone(channel: Channel) -> None:
    """Waits for the GoneError. No frame comes before."""
    end = time.monotonic() + LIMIT
    with pytest.raises(GoneError):
        while time.monotonic() < end:
            channel.wait({}, 1.0)
            assert list(channel.take()) == []


@pytest.mark.parametrize("pieces", [1, 4, 1 << 20])
def test_frames_are_whole_however_they_come(ends, pieces):
    channel, peer = ends
    frames = [(b"o", b"one"), (b"x", b""), (b"?", bytes(range(256)))]
    sent = b"".join(frame(*each) for each in frames)
    for start in range(0, len(sent), pieces):
        peer.sendall(sent[start : start + pieces])
    assert received(channel, 3) == frames


def test_the_longest_frame_comes_and_a_longer_one_ends_it_before_it_has_come(ends):
    channel, peer = ends
    sender = threading.Thread(target=peer.sendall, args=(frame(b"o", b"x" * MAX_FRAME),))
    sender.start()
    assert received(channel, 1) == [(b"o", b"x" * MAX_FRAME)]
    sender.join(LIMIT)
    peer.sendall(frame(b"o", length=MAX_FRAME + 1))
    gone(channel)


@pytest.mark.parametrize("half", [b"", b"o", frame(b"o", b"half", length=5)])
def test_half_a_frame_is_none(ends, half):
    channel, peer = ends
    peer.sendall(half)
    peer.close()
    gone(channel)


def test_what_is_no_tls_ends_it(ends):
    channel, peer = ends
    raw = socket.socket(fileno=peer.detach())
    raw.sendall(b"GET / HTTP/1.1\r\n\r\n")
    gone(channel)
    raw.close()


def test_a_peer_that_takes_nothing_holds_nobody_up(ends):
    channel, peer = ends
    count = 0
    while not channel.full:
        channel.put(b"o", b"x" * (1 << 16))
        channel.wait({}, 0.0)
        count += 1
    assert AHEAD <= len(channel.waiting) < AHEAD + (1 << 17)
    # It takes all of it after all.
    taken, end = 0, time.monotonic() + LIMIT
    while taken < count * ((1 << 16) + 5):
        assert time.monotonic() < end
        channel.wait({}, 0.0)
        taken += len(peer.recv(1 << 20))
    assert not channel.waiting


def test_it_is_seen_to_go_while_nothing_is_read_of_it(ends):
    channel, peer = ends
    peer.sendall(frame(b"i", b"more than is taken"))
    assert channel.wait({}, 0.0, reads=False) == {}
    peer.close()
    with pytest.raises(GoneError):
        channel.wait({}, LIMIT, reads=False)


def test_a_size_of_a_terminal_fits_whatever_is_said():
    assert size(24, 80) == struct.pack("HHHH", 24, 80, 0, 0)
    assert size(-1, 1 << 40) == struct.pack("HHHH", 0xFFFF, 0, 0, 0)
