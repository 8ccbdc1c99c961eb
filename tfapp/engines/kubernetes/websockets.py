"""Websockets of the API server: commands in containers, and connections to ports of pods.

Each message begins with its channel number (https://kubernetes.io/docs/reference/, protocol
v4.channel.k8s.io).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tfapp.engines.kubernetes.configuration import one_line
from tfapp.engines.kubernetes.failures import Asked, AwayError, ExecError
from tfapp.engines.kubernetes.transport import Query, Transport

PROTOCOL = "v4.channel.k8s.io"
UNAUTHORIZED = 401
STDOUT, STDERR, STATUS = 1, 2, 3  # channels of a command


class Message(NamedTuple):
    """The bytes of a channel."""

    channel: int
    data: bytes


class Socket:
    """A websocket. May be closed twice."""

    def __init__(self, websocket: Any):
        self.websocket = websocket
        self._channel = -1

    @property
    def socket(self) -> Any:
        """The underlying socket."""
        return self.websocket.sock

    def read(self) -> tuple[Message | None, bytes]:
        """Waits for a frame. Returns its message, None if it has none, and an answer to send.
        EOFError at the end."""
        from websocket import ABNF, WebSocketException

        try:
            frame = self.websocket.recv_frame()
        except (WebSocketException, OSError, AttributeError) as error:
            raise EOFError(one_line(error)) from error
        if frame.opcode == ABNF.OPCODE_CLOSE:
            raise EOFError("")
        if frame.opcode == ABNF.OPCODE_PING:
            return None, encode(bytes(frame.data), ABNF.OPCODE_PONG)
        if frame.opcode == ABNF.OPCODE_CONT:
            return Message(self._channel, frame.data), b""
        if frame.opcode not in (ABNF.OPCODE_BINARY, ABNF.OPCODE_TEXT) or not frame.data:
            return None, b""
        self._channel = frame.data[0]
        return Message(self._channel, frame.data[1:]), b""

    def close(self) -> None:
        """Closes the connection without waiting for the other side."""
        self.websocket.shutdown()


def encode(data: bytes, opcode: int | None = None) -> bytes:
    """A frame to send; by default with binary data."""
    from websocket import ABNF

    return ABNF.create_frame(data, ABNF.OPCODE_BINARY if opcode is None else opcode).format()


def connect(transport: Transport, asked: Asked, path: str, query: Query) -> Socket:
    """Opens a websocket. Raises the exceptions of `failures`."""
    from websocket import WebSocketBadStatusException

    try:
        return _connect(transport, path, query)
    except WebSocketBadStatusException as error:
        if error.status_code != UNAUTHORIZED:
            raise transport.refuse(error.status_code, _words(error), asked) from error
    transport.renew()  # a token may have been replaced in its file, or by its plug-in
    try:
        return _connect(transport, path, query)
    except WebSocketBadStatusException as error:
        raise transport.refuse(error.status_code, _words(error), asked) from error


def _connect(transport: Transport, path: str, query: Query) -> Socket:
    from kubernetes.stream.ws_client import create_websocket, get_websocket_url
    from websocket import WebSocketBadStatusException, WebSocketException

    access = transport.access
    headers = {"sec-websocket-protocol": PROTOCOL}
    authorization = access.authorization()
    if authorization:
        headers["authorization"] = authorization
    url = get_websocket_url(f"{access.server}{path}", list(query))
    try:
        return Socket(create_websocket(access.configuration, url, headers))
    except WebSocketBadStatusException:
        raise
    except (WebSocketException, OSError) as error:
        raise AwayError(
            f"the Kubernetes API at {access.server} ({access.source}) opens no websocket: "
            f"{one_line(error)}"
        ) from error


def _words(error: Any) -> str:
    """The body of a refusal."""
    body = getattr(error, "resp_body", None) or b""
    return body.decode("utf-8", "replace") if isinstance(body, bytes) else str(body)


def run(
    transport: Transport, asked: Asked, path: str, container: str, command: Sequence[str]
) -> Iterator[bytes]:
    """Yields the standard output of a command in a container. ExecError if it fails."""
    query = [*(("command", word) for word in command), ("container", container)]
    query += [("stdout", "true"), ("stderr", "true")]
    socket = connect(transport, asked, path, query)
    stderr, status = bytearray(), b""
    try:
        while not status:
            try:
                message, answer = socket.read()
            except EOFError as error:
                raise AwayError(f"the connection to {asked.what} broke: {error}") from error
            if answer:
                socket.socket.sendall(answer)
            if message is None or not message.data:
                continue
            if message.channel == STDOUT:
                yield message.data
            elif message.channel == STDERR:
                stderr += message.data
            elif message.channel == STATUS:
                status = message.data
    finally:
        socket.close()
    ended = json.loads(status)
    if ended.get("status") != "Success":
        words = stderr.decode("utf-8", "replace")
        raise ExecError(
            f"`{' '.join(command)}` failed in {asked.what}: {one_line(ended.get('message', ''))}",
            _exit_code(ended),
            words,
        )


def _exit_code(status: dict[str, Any]) -> int:
    for cause in (status.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "ExitCode" and cause.get("message", "").isdigit():
            return int(cause["message"])
    return -1
