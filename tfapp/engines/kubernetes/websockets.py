"""Websockets of the API server: commands in containers, and connections to ports of pods.

Each message begins with its channel number (https://kubernetes.io/docs/reference/, protocol
v4.channel.k8s.io).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from tfapp.engines.kubernetes.configuration import one_line
from tfapp.engines.kubernetes.pod.api import UNAUTHORIZED, ApiCall
from tfapp.engines.kubernetes.pod.failures import Asked, AwayError, ExecError
from tfapp.engines.kubernetes.transport import PoolTransport

PROTOCOL = "v4.channel.k8s.io"
STDOUT, STDERR, STATUS = 1, 2, 3  # channels of a command

Refuse = Callable[[int, str, Asked], Exception]  # see Api.refuse


class Message(NamedTuple):
    channel: int
    data: bytes


class Socket:
    """A websocket. May be closed twice."""

    def __init__(self, websocket: Any):
        self.websocket = websocket
        self._channel = -1

    @property
    def socket(self) -> Any:
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


def connect(transport: PoolTransport, refuse: Refuse, call: ApiCall, again: bool = True) -> Socket:
    """Opens a websocket. Raises the exceptions of `failures`. `again`: a login that is not accepted
    may be read again."""
    from websocket import WebSocketBadStatusException

    try:
        return _connect(transport, call)
    except WebSocketBadStatusException as error:
        if error.status_code != UNAUTHORIZED or not again:
            raise refuse(error.status_code, _words(error), call.asked) from error
    transport.renew()
    return connect(transport, refuse, call, again=False)


def _connect(transport: PoolTransport, call: ApiCall) -> Socket:
    from kubernetes.stream.ws_client import create_websocket, get_websocket_url
    from websocket import WebSocketBadStatusException, WebSocketException

    access = transport.access
    headers = {"sec-websocket-protocol": PROTOCOL}
    authorization = access.authorization()
    if authorization:
        headers["authorization"] = authorization
    url = get_websocket_url(f"{access.server}{call.path}", list(call.query))
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
    body = getattr(error, "resp_body", None) or b""
    return body.decode("utf-8", "replace") if isinstance(body, bytes) else str(body)


def run(
    transport: PoolTransport, refuse: Refuse, call: ApiCall, command: Sequence[str]
) -> Iterator[bytes]:
    """Yields the standard output of a command in a container. ExecError if it fails."""
    socket = connect(transport, refuse, call)
    stderr, status = bytearray(), b""
    try:
        while not status:
            try:
                message, answer = socket.read()
            except EOFError as error:
                raise AwayError(f"the connection to {call.asked.what} broke: {error}") from error
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
            f"`{' '.join(command)}` failed in {call.asked.what}: "
            f"{one_line(ended.get('message', ''))}",
            _exit_code(ended),
            words,
        )


def _exit_code(status: dict[str, Any]) -> int:
    for cause in (status.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "ExitCode" and cause.get("message", "").isdigit():
            return int(cause["message"])
    return -1
