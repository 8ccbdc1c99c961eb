"""Calls over gRPC, each with a deadline. Imports gRPC and protobuf."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import grpc

from tfapp.errors import RefusedError, SilentError, TfappError, UnreachableError
from tfapp.protocol.definition import CALLS

DEADLINE = 10.0  # seconds for one call, its repetitions included
LARGEST_REQUEST = 4 * 1024 * 1024  # bytes; masters break the connection of a larger one
_PAUSE = 0.1  # seconds between repetitions
_BACKOFF = (100, 1000)  # milliseconds until a lost connection is tried again: first, longest
_CLOSED = "the connection is closed"

# All that a master answers on purpose. Any other status is a transport's failure, or a bug in the
# master (UNKNOWN), and may have passed at the next try.
_REFUSALS = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.NOT_FOUND,
    }
)
# A repetition of these could act twice: the first try may have arrived although its answer did
# not. Their caller has to find out.
_ONCE = frozenset({"addContainer", "scale", "shutdown", "AddProxy"})

T = TypeVar("T")


def open_channel(address: str, certificate: bytes, key: bytes) -> grpc.Channel:
    """A channel to a server of Skein at `address` (host:port). Client and server use the same
    credentials, in PEM. Proxy variables of the user are ignored."""
    return grpc.secure_channel(
        address,
        grpc.ssl_channel_credentials(certificate, key, certificate),
        [
            ("grpc.ssl_target_name_override", "skein-internal"),
            ("grpc.default_authority", "skein-internal"),
            ("grpc.enable_http_proxy", 0),
            ("grpc.initial_reconnect_backoff_ms", _BACKOFF[0]),
            ("grpc.max_reconnect_backoff_ms", _BACKOFF[1]),
            ("grpc.max_receive_message_length", -1),
        ],
    )


class Client:
    """One channel to the master at `address` (host:port). Thread-safe. Nothing is sent before the
    first call. `certificate` and `key`: PEM. `deadline`: seconds for each call. `look` is
    called each time that the master was not reached: it may know of another one (`move`)."""

    def __init__(
        self,
        address: str,
        certificate: bytes,
        key: bytes,
        deadline: float = DEADLINE,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ):
        self.address = address
        self.deadline = deadline
        self._clock = clock
        self._sleep = sleep
        self.closed = False
        self.look: Callable[[], None] = lambda: None
        self.credentials = certificate, key
        self._open()

    def _open(self) -> None:
        self._channel = open_channel(self.address, *self.credentials)
        self._methods = {
            call.name: (
                self._channel.stream_stream if call.is_stream else self._channel.unary_unary
            )(call.path, call.request.SerializeToString, call.response.FromString)
            for call in CALLS.values()
        }

    def move(self, address: str, credentials: tuple[bytes, bytes] | None = None) -> None:
        """Goes to another address, with other credentials if there are. Calls and streams to the
        old one break; calls are repeated."""
        old, self.address = self._channel, address
        self.credentials = credentials or self.credentials
        self._open()
        old.close()
        if self.closed:  # by another thread
            self._channel.close()

    def close(self) -> None:
        """Cancels all calls and streams. May be called twice."""
        self.closed = True
        self._channel.close()

    def call(self, method: str, **fields: Any) -> Any:
        """Sends a request with these fields and returns the answer. RefusedError if the master
        refuses it, UnreachableError if there is no answer before the deadline."""
        request = CALLS[method].request(**fields)
        if request.ByteSize() > LARGEST_REQUEST:
            raise RefusedError(
                f"{method} would send {request.ByteSize()} bytes to the application's master, "
                f"which takes {LARGEST_REQUEST}"
            )

        def attempt(seconds: float) -> Any:
            try:
                return self._methods[method](request, timeout=seconds)
            except grpc.RpcError as error:
                raise self._meaning(method, error) from error
            except ValueError as error:
                raise self.unreachable(method, _CLOSED) from error

        return attempt(self.deadline) if method in _ONCE else self.repeat(attempt)

    def repeat(self, attempt: Callable[[float], T]) -> T:
        """Returns the result of `attempt(seconds)`. It is repeated after UnreachableError until its
        `seconds` are over. Then the last one that was answered says why."""
        end = self._clock() + self.deadline
        failed = None
        while True:
            try:
                return attempt(max(end - self._clock(), 0.001))
            except UnreachableError as error:
                cut_short = self._clock() >= end
                failed = failed if failed and cut_short and not self.closed else error
                if self.closed or self._clock() + _PAUSE >= end:
                    raise failed from failed.__cause__
            self.look()
            self._sleep(_PAUSE)

    def _meaning(self, method: str, error: grpc.RpcError) -> TfappError:
        code, detail = error.code(), error.details()
        if self.closed:
            return self.unreachable(method, _CLOSED)
        if code in _REFUSALS:
            reason = detail or "it gave no reason"
            return RefusedError(f"the application's master refused {method}: {reason}")
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return self.unreachable(method, "")
        if code is grpc.StatusCode.UNAVAILABLE:
            return self.unreachable(method, "no connection")
        return self.unreachable(method, f"{code.name} {detail}".rstrip())

    def stream(self, method: str, requests: Iterable[Mapping[str, Any]]) -> Any:
        """The call object of gRPC: iterate over it for responses; `cancel` ends it."""
        make = CALLS[method].request
        try:
            return self._methods[method](make(**fields) for fields in requests)
        except ValueError as error:
            raise self.unreachable(method, _CLOSED) from error

    def unreachable(self, method: str, because: str) -> SilentError:
        """The error for `method`. `because`: the reason; "" if the deadline is over."""
        because = because or f"no answer within {self.deadline:g} s"
        return SilentError(
            f"the application's master at {self.address} cannot be reached: {because} ({method})",
            hint="it has ended, is stopped, or the network between is cut",
        )
