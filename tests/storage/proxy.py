"""Stands between a program and a real server, passes everything on, and does what a test asks for
to some of it: an answer of its own, a connection that is cut, an answer that comes slowly."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from collections.abc import Callable
from typing import Union

from tfapp import threads

CUT = b""  # in place of an answer: the connection is closed
XML = '<?xml version="1.0"?>\n<Error><Code>{}</Code><Message>{}</Message></Error>'

# What becomes of a request. None: it is passed on. Bytes: the answer, in place of the server's. A
# function: it gets the server's answer, and returns the one that is sent.
Fault = Union[bytes, Callable[[bytes], bytes], None]


def answer(status: str, code: str = "", words: str = "Why", bare: bool = False) -> bytes:
    """Of S3. `bare`: without a body, as to HEAD."""
    body = XML.format(code, words).encode() if code and not bare else b""
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


def half(whole: bytes) -> bytes:
    """Of a body, and no more: the length in the header is the whole one's."""
    head, _, body = whole.partition(b"\r\n\r\n")
    return head + b"\r\n\r\n" + body[: len(body) // 2]


class Proxy:
    """`fault` decides about each request. `seen` has the first line of each."""

    def __init__(self, server: str):
        host, _, port = server.rpartition(":")
        self._server = host, int(port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self.fault: Callable[[str], Fault] = lambda line: None
        self.seen: list[str] = []
        self._lock = threading.Lock()
        threads.start("proxy", self._accept)

    def times(self, count: int, pattern: str, fault: Fault) -> None:
        """From now on this becomes of the first `count` requests that begin with `pattern`."""
        left = [count]
        self.seen.clear()

        def decide(line: str) -> Fault:
            if not re.match(pattern, line) or not left[0]:
                return None
            left[0] -= 1
            return fault

        self.fault = decide

    def _accept(self) -> None:
        while True:
            client, _ = self._listening.accept()
            threads.start("proxied", lambda client=client: self._serve(client))

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client, socket.create_connection(self._server) as server:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            reading, answers = client.makefile("rb"), server.makefile("rb")
            while request := _message(reading):
                line = request[: request.index(b"\r\n")].decode()
                with self._lock:
                    self.seen.append(line)
                    fault = self.fault(line)
                if isinstance(fault, bytes):
                    sent = fault
                else:
                    server.sendall(request)
                    sent = whole = _message(answers, bare=line.startswith("HEAD"))
                    if fault is not None:
                        sent = fault(whole)
                client.sendall(sent)
                if sent == CUT or callable(fault):
                    time.sleep(0.05)  # what was sent has arrived before the end
                    return


def _message(file, bare: bool = False) -> bytes:
    """A request or an answer; nothing at the end of the connection."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = file.readline()
        if not line:
            return b""
        head += line
    if bare:
        return head
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    if length:
        return head + file.read(int(length[1]))
    if not re.search(rb"(?i)\r\ntransfer-encoding: *chunked", head):
        return head
    while True:  # chunks, as they are
        line = file.readline()
        head += line + file.read(int(line.split(b";")[0], 16) + 2)
        if int(line.split(b";")[0], 16) == 0:
            return head
