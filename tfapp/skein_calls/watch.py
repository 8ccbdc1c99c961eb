"""A stream of what happens in the key-value store."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tfapp.skein_calls.events import Broken, Deleted, Put, StoreEvent


class Watch:
    """A stream of store events. Opened by `Connection.watch`."""

    def __init__(
        self,
        client: Any,
        keys: tuple[str, ...],
        prefixes: tuple[str, ...],
        into: queue.SimpleQueue | None,
        on_close: Callable[[Watch], None],
    ):
        """`client` is of `client_class()`. `on_close` is told of the watch that is closed."""
        self.events: queue.SimpleQueue = queue.SimpleQueue() if into is None else into
        self._client = client
        self._on_close = on_close
        self._keys = keys
        self._prefixes = prefixes
        self._requests: queue.SimpleQueue = queue.SimpleQueue()
        self._unconfirmed = len(keys) + len(prefixes)
        self._settled = threading.Event()  # all taken by the master, or broken
        self._broken = ""
        self._closed = False
        for request in _watch_requests(keys, prefixes):
            self._requests.put(request)
        self._call = client._call("Watch", iter(self._requests.get, None))
        # A daemon: a stopped master must not keep a process from ending.
        threading.Thread(target=self._listen, name="tfapp-watch", daemon=True).start()
        confirmed = self._settled.wait(client.deadline)
        if self._broken or not confirmed:
            self.close()
            raise client.unreachable("Watch", self._broken)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def read(self) -> dict[str, bytes]:
        """What stands now under all that is watched, in one call."""
        from tfapp.skein_library import skein

        reads = [*map(skein.kv.get, self._keys), *map(skein.kv.get_prefix, self._prefixes)]
        results = self._client.kv.transaction(on_success=reads).results
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
        self._on_close(self)
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
