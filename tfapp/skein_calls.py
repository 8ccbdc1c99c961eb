"""Every call to an application's master, each with a deadline.

Skein's own client waits for ever on a master that is stopped or cut off. Here each call ends by
its deadline with an answer, a `RefusedError` or an `UnreachableError`, and a call that may be
repeated is repeated while the master cannot be connected to. A `Watch` says when it breaks; its
user then opens a new one, in this order: subscribe, read, then consume.

Travels into containers; Skein is imported by the first connection, not by this module.
"""

from __future__ import annotations

import dataclasses
import importlib
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Union

from tfapp.errors import RefusedError, UnavailableError, UnreachableError

DEADLINE = 10.0  # seconds for one call, its repetitions included
_PAUSE = 0.1  # seconds between repetitions

# A repetition of these could act twice: the first try may have arrived although its answer did
# not. Their caller has to find out.
_ONCE = frozenset({"addContainer", "scale", "shutdown", "AddProxy"})


# ---- what a watch delivers -------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class Put:
    """A key was written. `owner` is a container id or None."""

    key: str
    value: bytes
    owner: str | None = None


@dataclasses.dataclass(frozen=True)
class Deleted:
    """A key is gone: deleted, or its owner's container ended."""

    key: str


@dataclasses.dataclass(frozen=True)
class Broken:
    """The last event of a watch whose stream ended. Events may have been missed."""

    message: str


StoreEvent = Union[Put, Deleted, Broken]


@dataclasses.dataclass(frozen=True)
class Container:
    """A container as the master knows it. `state` is WAITING, REQUESTED, RUNNING, SUCCEEDED,
    FAILED or KILLED; `message` says how a finished one ended. `yarn_id` is YARN's own id of it,
    `node` the address of its node's web pages (host:port)."""

    id: str  # "<service>_<number>"
    service: str
    state: str
    host: str
    message: str
    yarn_id: str = ""
    node: str = ""


LIVE_STATES = ("WAITING", "REQUESTED", "RUNNING")
FINISHED_STATES = ("SUCCEEDED", "FAILED", "KILLED")


class Connection:
    """A connection to one application's master, for any number of threads. All methods raise
    `UnreachableError` when it does not answer by the deadline and `RefusedError` when it says
    no. `close()` it, or use it as a context manager: an open watch keeps it alive otherwise."""

    def __init__(self, client: Any, container: str = ""):
        self._client = client
        self._watches: set[Watch] = set()
        self.container = container  # this container's id; "" outside of a service's container

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all watches and releases the connection. May be called twice."""
        for watch in tuple(self._watches):
            watch.close()
        self._client.close()

    # -- the key-value store --
    def get(self, key: str) -> bytes | None:
        """The value of `key`, None when there is none."""
        return self._client.kv.get(key)

    def get_prefix(self, prefix: str) -> dict[str, bytes]:
        """All keys that begin with `prefix`, and their values."""
        return dict(self._client.kv.get_prefix(prefix))

    def put(self, key: str, value: bytes, owner: str | None = None) -> None:
        """Writes `key`. With an owner, it is deleted when that container ends; RefusedError
        when it has ended already."""
        self._client.kv.put(key, value, owner=owner)

    def put_own(self, key: str, value: bytes) -> None:
        """Writes `key`, to be deleted when this container ends."""
        self.put(key, value, owner=self.container)

    def update(self, values: Mapping[str, bytes], owners: Mapping[str, str] | None = None) -> None:
        """Writes all of `values` in one call, or none. `owners`: key -> container id."""
        from tfapp.skein_library import skein

        owners = owners or {}
        operations = [
            skein.kv.put(key, value, owner=owners.get(key)) for key, value in values.items()
        ]
        if operations:
            self._client.kv.transaction(on_success=operations)

    def discard(self, key: str) -> None:
        """Deletes `key` if it is there."""
        self._client.kv.discard(key)

    def watch(
        self,
        keys: Sequence[str] = (),
        prefixes: Sequence[str] = (),
        into: queue.SimpleQueue | None = None,
    ) -> Watch:
        """Follows keys and prefixes from now on, in commit order. Returns when the master has
        taken all of them. Events land in `into` when one is given (several sources can share a
        queue), in the watch's own queue otherwise. A key matched twice is delivered twice."""
        return Watch(self, tuple(keys), tuple(prefixes), into)

    # -- containers --
    def containers(self, states: Sequence[str] = LIVE_STATES) -> tuple[Container, ...]:
        """The containers of all services that are in one of `states`."""
        return tuple(
            Container(
                id=found.id,
                service=found.service_name,
                state=str(found.state),
                host=found.yarn_node_http_address.rpartition(":")[0],
                message=found.exit_message,
                yarn_id=found.yarn_container_id,
                node=found.yarn_node_http_address,
            )
            for found in self._client.get_containers(states=states)
        )

    def add_container(self, service: str, env: Mapping[str, str]) -> str:
        """Requests one more container, returns its id. Never repeated: after an
        UnreachableError only `containers()` can tell whether it was requested."""
        return self._client.add_container(service, env=dict(env)).id

    def kill_container(self, container: str) -> None:
        """Ends a container; nothing happens when it has ended already."""
        self._client.kill_container(container)

    # -- the application --
    def set_progress(self, progress: float) -> None:
        """The share of the work that is done, 0 to 1."""
        self._client.set_progress(progress)

    def add_page(self, route: str, target: str, title: str) -> str:
        """Adds a link to `target` to the application's web page, returns the link's address."""
        return self._client.ui.add_page(route, target, title).address

    def remove_page(self, route: str) -> None:
        """Removes a link again. RefusedError when there is none."""
        self._client.ui.remove_page(route)

    def shutdown(self, status: str, diagnostics: str) -> None:
        """Ends the application. `status` is SUCCEEDED, FAILED or KILLED. Never repeated."""
        self._client.shutdown(status, diagnostics)


class Watch:
    """A stream of store events. Opened by `Connection.watch`."""

    def __init__(
        self,
        connection: Connection,
        keys: tuple[str, ...],
        prefixes: tuple[str, ...],
        into: queue.SimpleQueue | None,
    ):
        self.events: queue.SimpleQueue = queue.SimpleQueue() if into is None else into
        self._connection = connection
        self._keys = keys
        self._prefixes = prefixes
        self._requests: queue.SimpleQueue = queue.SimpleQueue()
        self._unconfirmed = len(keys) + len(prefixes)
        self._settled = threading.Event()  # all taken by the master, or broken
        self._broken = ""
        self._closed = False
        client = connection._client
        for request in _watch_requests(keys, prefixes):
            self._requests.put(request)
        self._call = client._call("Watch", iter(self._requests.get, None))
        # A daemon: a stopped master must not keep a process from ending.
        threading.Thread(target=self._listen, name="tfapp-watch", daemon=True).start()
        confirmed = self._settled.wait(client.deadline)
        if self._broken or not confirmed:
            self.close()
            raise client.unreachable("Watch", self._broken)
        connection._watches.add(self)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def read(self) -> dict[str, bytes]:
        """What stands now under all that is watched, in one call."""
        from tfapp.skein_library import skein

        reads = [*map(skein.kv.get, self._keys), *map(skein.kv.get_prefix, self._prefixes)]
        results = self._connection._client.kv.transaction(on_success=reads).results
        values = dict(zip(self._keys, results))
        for found in results[len(self._keys) :]:
            values.update(found)
        return {key: value for key, value in values.items() if value is not None}

    def get(self, timeout: float) -> StoreEvent | None:
        """The next event, or None after `timeout` seconds without one."""
        try:
            return self.events.get(timeout=max(timeout, 0))
        except queue.Empty:
            return None

    def close(self) -> None:
        """Ends the stream; no `Broken` follows. May be called twice."""
        self._closed = True
        self._connection._watches.discard(self)
        self._requests.put(None)
        self._call.cancel()

    def _listen(self) -> None:
        import grpc

        message = "the application's master ended the stream"
        try:
            for response in self._call:
                self._receive(response)
        except grpc.RpcError as error:
            message = error.details() or error.code().name
        self._requests.put(None)
        self._broken = message
        confirmed = self._settled.is_set()
        self._settled.set()
        if confirmed and not self._closed:
            self.events.put(Broken(message))

    def _receive(self, response: Any) -> None:
        kind = response.Type.Name(response.type)
        if kind == "CREATE":
            self._unconfirmed -= 1
            if not self._unconfirmed:
                self._settled.set()
        elif not self._closed and kind in ("PUT", "DELETE"):
            for event in _store_events(kind, response.event):
                self.events.put(event)


def _watch_requests(keys: Iterable[str], prefixes: Iterable[str]) -> Iterator[Any]:
    from tfapp.skein_library import skein

    filters = [skein.kv.EventFilter(key=key) for key in keys]
    filters += [skein.kv.EventFilter(prefix=prefix) for prefix in prefixes]
    for wanted in filters:
        create = skein.proto.WatchCreateRequest(
            start=wanted.start, end=wanted.end, event_type="ALL"
        )
        yield skein.proto.WatchRequest(create=create)


def _store_events(kind: str, entries: Iterable[Any]) -> Iterator[StoreEvent]:
    for entry in entries:
        if kind == "DELETE":
            yield Deleted(entry.key)
        else:
            owner = entry.owner if entry.HasField("owner") else None
            name = None if owner is None else f"{owner.service_name}_{owner.instance}"
            yield Put(entry.key, entry.value, name)


# ---- opening a connection ----------------------------------------------------------------------
def connect(
    address: str, application: str, certificate: bytes, key: bytes, deadline: float = DEADLINE
) -> Connection:
    """A connection from outside. `address` is host:port, `application` Skein's id, then the
    application's credentials in PEM. Nothing is sent yet: the first call finds out."""
    from tfapp.skein_library import skein

    security = skein.Security(cert_bytes=certificate, key_bytes=key)
    return Connection(_client_class()(address, application, security=security)._bounded(deadline))


def load() -> None:
    """Imports Skein, which `connect` and `from_current` do otherwise. To be called before there
    is a second thread that imports anything: importlib of CPython 3.11 and older can deadlock
    between two. https://github.com/python/cpython/issues/91351"""
    importlib.import_module("tfapp.skein_library")


def from_current(deadline: float = DEADLINE) -> Connection:
    """The connection of a process that an application's master started. UnavailableError
    elsewhere. Reads the environment, as Skein does."""
    from tfapp.skein_library import skein

    try:
        client = _client_class().from_current()
    except (ValueError, FileNotFoundError) as error:
        raise UnavailableError(
            f"this process is not part of an application: {error}",
            hint="it is started by an application's master, not by hand",
        ) from error
    return Connection(client._bounded(deadline), skein.properties.container_id or "")


class _Bounded:
    """Put in front of skein.ApplicationClient, whose every unary call goes through `_call`."""

    deadline = DEADLINE
    address: str
    security: Any
    _channel: Any
    _closed = False
    _clock: Callable[[], float] = staticmethod(time.monotonic)
    _sleep: Callable[[float], None] = staticmethod(time.sleep)

    def _bounded(self, deadline: float) -> Any:
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


def _client_class() -> Any:
    from tfapp.skein_library import skein

    return type("BoundedApplicationClient", (_Bounded, skein.ApplicationClient), {})
