"""What can be asked of an application's master."""

from __future__ import annotations

import queue
from collections.abc import Mapping, Sequence
from typing import Any

from tfapp.skein_calls.containers import LIVE_STATES, Container
from tfapp.skein_calls.watch import Watch


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
        watch = Watch(
            self._client, tuple(keys), tuple(prefixes), into, on_close=self._watches.discard
        )
        self._watches.add(watch)
        return watch

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
