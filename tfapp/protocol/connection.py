"""A connection to the application master, with all its calls."""

from __future__ import annotations

import importlib
import queue
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfapp.contract.exit import read_container_message
from tfapp.errors import UnavailableError, UnreachableError
from tfapp.frozen import frozen
from tfapp.protocol.watch import Watch, key_range, prefix_range

if TYPE_CHECKING:
    from tfapp.protocol.client import Client

LIVE_STATES = ("WAITING", "REQUESTED", "RUNNING")
FINISHED_STATES = ("SUCCEEDED", "FAILED", "KILLED")


@frozen
class ContainerReport:
    """The master's report on a container. `state`: one of LIVE_STATES or FINISHED_STATES.
    `message`: the exit message of a finished container. `reason`: one of contract.exit.REASONS, or
    "" if unknown. `yarn_id`: YARN's id. `node`: the address of the node's web pages (host:port)."""

    id: str  # "<service>_<number>"
    service: str
    state: str
    host: str
    message: str
    yarn_id: str = ""
    node: str = ""
    reason: str = ""


class Connection:
    """A connection to one application master. Thread-safe. Methods raise `UnreachableError` if the
    master does not answer before the deadline, and `RefusedError` if it refuses. Call `close()` or
    use it as a context manager: an open watch keeps it alive otherwise."""

    def __init__(self, client: Client, container: str = ""):
        self._client = client
        self._watches: set[Watch] = set()
        self.container = container  # this container's id; "" outside of a service's container

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all watches and closes the connection. May be called twice."""
        for watch in tuple(self._watches):
            watch.close()
        self._client.close()

    def move(self, address: str, credentials: tuple[bytes, bytes] | None = None) -> None:
        """From now on calls go to the master at another address (host:port), which may have a
        certificate and key of its own. Watches break."""
        self._client.move(address, credentials)

    def when_lost(self, look: Callable[[], None]) -> None:
        """Calls `look`, in any thread, each time that the master was not reached."""
        self._client.look = look

    @property
    def address(self) -> str:
        """Of the master (host:port)."""
        return self._client.address

    @property
    def certificate(self) -> bytes:
        """Of the application, in PEM."""
        return self._client.credentials[0]

    @property
    def key(self) -> bytes:
        """Of the certificate, in PEM."""
        return self._client.credentials[1]

    @property
    def deadline(self) -> float:
        """Seconds for each call."""
        return self._client.deadline

    # -- the key-value store --
    def get(self, key: str) -> bytes | None:
        """The value of `key`; None if it does not exist."""
        found = self._client.call("GetRange", **key_range(key)).result
        return found[0].value if found else None

    def values(self, prefix: str) -> tuple[bytes, ...]:
        """The values of all keys with this prefix."""
        found = self._client.call("GetRange", **prefix_range(prefix)).result
        return tuple(entry.value for entry in found)

    def put(self, key: str, value: bytes, owner: str | None = None) -> None:
        """Sets `key`. A key with an owner is deleted when the container of the owner ends;
        RefusedError if it has ended already."""
        self._client.call("PutKey", **_put(key, value, owner))

    def put_own(self, key: str, value: bytes) -> None:
        """Sets `key`, owned by this container."""
        self.put(key, value, owner=self.container)

    def update(self, values: Mapping[str, bytes], owners: Mapping[str, str] | None = None) -> None:
        """Sets all of `values` in one call, or none of them. `owners`: key -> container id."""
        owners = owners or {}
        puts = [{"put_key": _put(key, values[key], owners.get(key))} for key in values]
        if puts:
            self._client.call("Transaction", on_success=puts)

    def discard(self, key: str) -> None:
        self._client.call("DeleteRange", **key_range(key))

    def watch(
        self,
        keys: Sequence[str] = (),
        prefixes: Sequence[str] = (),
        into: queue.SimpleQueue[Any] | None = None,
    ) -> Watch:
        """Watches keys and prefixes from now on, in the order of commits. Returns when the master
        has accepted all of them. Events are put into the queue `into`, which several sources may
        share, or else into the queue of the watch. A key that matches twice is delivered twice."""
        ranges = [*map(key_range, keys), *map(prefix_range, prefixes)]
        watch = self._client.repeat(
            lambda seconds: Watch(self._client, ranges, into, self._watches.discard, seconds)
        )
        self._watches.add(watch)
        return watch

    # -- containers --
    def containers(self, states: Sequence[str] = LIVE_STATES) -> tuple[ContainerReport, ...]:
        """The containers of all services in one of `states`."""
        found = self._client.call("getContainers", states=states).containers
        return tuple(map(_report, sorted(found, key=lambda c: (c.service_name, c.instance))))

    def add_container(self, service: str, env: Mapping[str, str]) -> str:
        """Requests one more container and returns its id. Never repeated: after an UnreachableError
        only `containers()` tells whether it was requested."""
        return _id(self._client.call("addContainer", service_name=service, env=dict(env)))

    def kill_container(self, container: str) -> None:
        """Kills a container; does nothing if it has ended."""
        self._client.call("killContainer", **_instance(container))

    # -- the application --
    def queue(self) -> str:
        """The name of the queue of YARN to which the application was submitted."""
        return str(self._client.call("getApplicationSpec").queue)

    def set_progress(self, progress: float) -> None:
        """Sets the progress of the application, from 0 to 1."""
        self._client.call("SetProgress", progress=progress)

    def add_page(self, route: str, target: str, title: str) -> None:
        """Adds a link to `target` to the web page of the application. Never repeated."""
        self._client.call("AddProxy", route=route, target=target, link_name=title)

    def remove_page(self, route: str) -> None:
        """Removes a link. RefusedError if it does not exist."""
        self._client.call("RemoveProxy", route=route)

    def shutdown(self, status: str, diagnostics: str) -> None:
        """Ends the application. `status`: SUCCEEDED, FAILED or KILLED. Never repeated."""
        self._client.call("shutdown", final_status=status, diagnostics=diagnostics)


def load() -> None:
    """Imports gRPC, which a connection otherwise does at the first use. Call this before a second
    thread imports anything: importlib of CPython 3.11 and older can deadlock between two threads.
    https://github.com/python/cpython/issues/91351"""
    importlib.import_module("tfapp.protocol.client")


def connect(
    address: str, certificate: bytes, key: bytes, deadline: float | None = None
) -> Connection:
    """A connection from outside the cluster. `address`: host:port. `certificate`, `key`: the
    credentials of the application, in PEM. Nothing is sent before the first call."""
    return Connection(_client(address, certificate, key, deadline))


def from_current(environ: Mapping[str, str], deadline: float | None = None) -> Connection:
    """The connection of a process that an application master has started with `environ`.
    UnavailableError in any other process."""
    address, container = environ.get("SKEIN_APPMASTER_ADDRESS"), environ.get("CONTAINER_ID", "")
    # YARN makes a folder for the container on each of its disks and fills one of them.
    folders = [Path(disk, container) for disk in environ.get("LOCAL_DIRS", "").split(",")]
    for folder in folders if address and container else ():
        try:
            certificate = (folder / ".skein.crt").read_bytes()
            key = (folder / ".skein.pem").read_bytes()
        except FileNotFoundError:
            continue
        client = _client(str(address), certificate, key, deadline)
        return Connection(client, environ.get("SKEIN_CONTAINER_ID", ""))
    raise UnavailableError(
        "this process is not part of an application",
        hint="it is started by an application's master, not by hand",
    )


def _client(address: str, certificate: bytes, key: bytes, deadline: float | None) -> Client:
    from tfapp.protocol.client import DEADLINE, Client

    if not (certificate and key):  # gRPC would abort this process
        raise UnreachableError("the credentials of the application are empty")
    return Client(address, certificate, key, DEADLINE if deadline is None else deadline)


def _put(key: str, value: bytes, owner: str | None) -> dict[str, Any]:
    fields: dict[str, Any] = {"key": key, "value": value}
    return fields if owner is None else {**fields, "owner": _instance(owner)}


def _instance(container: str) -> dict[str, Any]:
    service, _, number = container.rpartition("_")
    return {"service_name": service, "instance": int(number)}


def _report(container: Any) -> ContainerReport:
    message, reason = read_container_message(container.exit_message)
    return ContainerReport(
        id=_id(container),
        service=container.service_name,
        state=container.State.Name(container.state),
        host=container.yarn_node_http_address.rpartition(":")[0],
        message=message,
        yarn_id=container.yarn_container_id,
        node=container.yarn_node_http_address,
        reason=reason,
    )


def _id(container: Any) -> str:
    return f"{container.service_name}_{container.instance}"
