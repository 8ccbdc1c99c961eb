"""A stream of events of the key-value store."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Union

from tfapp import threads
from tfapp.frozen import frozen

if TYPE_CHECKING:
    from tfapp.protocol.client import Client


@frozen
class Put:
    """A key was set. `owner`: a container id or None."""

    key: str
    value: bytes
    owner: str | None = None


@frozen
class Deleted:
    """A key was deleted, or its owner's container has ended."""

    key: str


@frozen
class Broken:
    """The last event of a watch whose stream broke. Events may have been missed."""

    message: str


StoreEvent = Union[Put, Deleted, Broken]

Range = dict[str, str]  # the fields `start` and `end` of a request; "" as an end is no end


class Watch:
    """A stream of events of the store. Opened by `Connection.watch`."""

    def __init__(
        self,
        client: Client,
        ranges: Sequence[Range],
        into: queue.SimpleQueue[Any] | None,
        on_close: Callable[[Watch], None],
        timeout: float,
    ):
        """`on_close` is called with the watch when it is closed. UnreachableError if the master has
        not accepted all `ranges` within `timeout` seconds."""
        self.events: queue.SimpleQueue[Any] = queue.SimpleQueue() if into is None else into
        self._client = client
        self._on_close = on_close
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._ranges = ranges
        self._unconfirmed = len(ranges)
        self._settled = threading.Event()  # all taken by the master, or broken
        self._broken = ""
        self._closed = False
        for span in ranges:
            self._requests.put({"create": {**span, "event_type": "ALL"}})
        try:
            self._call = client.stream("Watch", iter(self._requests.get, None))
            # A daemon: a stopped master must not keep a process from ending.
            threads.start("tfapp-watch", self._listen, failed=self._break)
        except (OSError, RuntimeError) as error:  # no thread, here or in gRPC
            raise client.unreachable("Watch", str(error)) from error
        confirmed = self._settled.wait(timeout)
        if self._broken or not confirmed:
            self.close()
            raise client.unreachable("Watch", self._broken)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def read(self) -> dict[str, bytes]:
        """The present values of all watched keys, by one call."""
        reads = [{"get_range": span} for span in self._ranges]
        results = self._client.call("Transaction", on_success=reads).result
        return {entry.key: entry.value for read in results for entry in read.get_range.result}

    def get(self, timeout: float) -> StoreEvent | None:
        """The next event; None after `timeout` seconds without one."""
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
        self._break(message)

    def _break(self, why: object) -> None:
        self._requests.put(None)
        self._broken = message = str(why) or repr(why)
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


def key_range(key: str) -> Range:
    return {"start": key, "end": f"{key}\0"}


def prefix_range(prefix: str) -> Range:
    """The range of all keys with the prefix."""
    return {"start": prefix, "end": prefix[:-1] + chr(ord(prefix[-1]) + 1) if prefix else ""}


def _store_events(kind: str, entries: Iterable[Any]) -> Iterator[StoreEvent]:
    for entry in entries:
        if kind == "DELETE":
            yield Deleted(entry.key)
        else:
            owner = entry.owner if entry.HasField("owner") else None
            name = None if owner is None else f"{owner.service_name}_{owner.instance}"
            yield Put(entry.key, entry.value, name)
