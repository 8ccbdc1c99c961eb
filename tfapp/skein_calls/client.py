"""Skein's own client, each call of which ends by a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tfapp.errors import RefusedError, UnreachableError

DEADLINE = 10.0  # seconds for one call, its repetitions included
_PAUSE = 0.1  # seconds between repetitions

# A repetition of these could act twice: the first try may have arrived although its answer did
# not. Their caller has to find out.
_ONCE = frozenset({"addContainer", "scale", "shutdown", "AddProxy"})


class _Bounded:
    """Put in front of skein.ApplicationClient, whose every unary call goes through `_call`."""

    deadline = DEADLINE
    address: str
    security: Any
    _channel: Any
    _closed = False
    _clock: Callable[[], float] = staticmethod(time.monotonic)
    _sleep: Callable[[float], None] = staticmethod(time.sleep)

    def bounded(self, deadline: float) -> Any:
        """Itself, with the seconds that each call may take."""
        self.deadline = deadline
        self._go_directly()
        return self

    def _go_directly(self) -> None:
        """A master is never behind the HTTP proxy that a user's environment names, but gRPC
        would look for it there."""
        import grpc

        from tfapp.skein_library import skein

        certificate, key = (self.security._get_bytes(kind) for kind in ("cert", "key"))
        credentials = grpc.ssl_channel_credentials(certificate, key, certificate)
        self._channel.close()
        self._channel = grpc.secure_channel(
            self.address,
            credentials,
            [
                ("grpc.ssl_target_name_override", "skein-internal"),
                ("grpc.default_authority", "skein-internal"),
                ("grpc.enable_http_proxy", 0),
            ],
        )
        self._stub = skein.proto.AppMasterStub(self._channel)

    def close(self) -> None:
        self._closed = True
        super().close()  # type: ignore[misc]

    def unreachable(self, method: str, detail: str) -> UnreachableError:
        because = detail or f"no answer within {self.deadline:g} s"
        return UnreachableError(
            f"the application's master at {self.address} cannot be reached: {because} ({method})",
            hint="it has ended, is stopped, or the network between is cut",
        )

    def _call(self, method: str, request: Any, timeout: float | None = None) -> Any:
        from tfapp.skein_library import skein

        inner = super()._call  # type: ignore[misc]
        if method == "Watch":
            return inner(method, request)
        end = self._clock() + (self.deadline if timeout is None else timeout)
        while True:
            try:
                return inner(method, request, timeout=max(end - self._clock(), 0.001))
            except skein.exceptions.TimeoutError as error:
                raise self.unreachable(method, "") from error
            except skein.exceptions.ConnectionError as error:
                if method in _ONCE or self._clock() + _PAUSE >= end:
                    raise self.unreachable(method, "no connection") from error
                self._sleep(_PAUSE)
            except (ValueError, KeyError, skein.exceptions.ApplicationError) as error:
                if self._closed:
                    raise self.unreachable(method, "the connection is closed") from error
                detail = error.args[0] if error.args and error.args[0] else "it gave no reason"
                raise RefusedError(
                    f"the application's master refused {method}: {detail}"
                ) from error


def client_class() -> Any:
    """skein.ApplicationClient with deadlines: make one, then call `bounded`."""
    from tfapp.skein_library import skein

    return type("BoundedApplicationClient", (_Bounded, skein.ApplicationClient), {})
