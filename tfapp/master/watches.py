"""The watches of the key-value store, and the stream of events of each client: the Watch call."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import grpc

from tfapp.frozen import frozen
from tfapp.master.messages import entry_message
from tfapp.master.store import KeyRange, StoreEntry, contains
from tfapp.protocol.definition import messages

ALL = "ALL"

# (watch id, "PUT" or "DELETE", entries in the watch's range) -> to the watch's stream
Send = Callable[[int, str, Sequence[StoreEntry]], None]
# A client that stopped reading must not fill the master's memory. It gets a broken stream
# instead and has to read anew, as after any broken stream.
MAX_QUEUED = 16 << 20  # bytes


@frozen
class Watch:
    """Events of `kind` (ALL, "PUT" or "DELETE") in `range` go to `send`."""

    id: int
    range: KeyRange
    kind: str
    send: Send


class Watches:
    """All watches of one application. Grouped by range: a thousand runners that watch the same
    prefix cost one comparison for each event, and one that watches a single key costs none."""

    def __init__(self) -> None:
        self._ids = itertools.count()
        self._watches: dict[int, Watch] = {}
        self._by_key: dict[str, dict[int, Watch]] = {}
        self._by_range: dict[KeyRange, dict[int, Watch]] = {}

    def add(self, range_: KeyRange, kind: str, send: Send) -> int:
        watch = Watch(next(self._ids), range_, kind, send)
        self._watches[watch.id] = watch
        self._group(range_).setdefault(_group_key(range_), {})[watch.id] = watch
        return watch.id

    def remove(self, watch_id: int) -> None:
        """Forgets a watch; nothing happens when it is forgotten already."""
        watch = self._watches.pop(watch_id, None)
        if watch is not None:
            groups, key = self._group(watch.range), _group_key(watch.range)
            del groups[key][watch_id]
            if not groups[key]:
                del groups[key]

    def notify(self, kind: str, entries: Sequence[StoreEntry]) -> None:
        """Sends each watch those of `entries` that it watches, as one message."""
        wanted: dict[int, list[StoreEntry]] = {}
        for entry in entries:
            for watch_id in self._by_key.get(entry.key, ()):
                wanted.setdefault(watch_id, []).append(entry)
        for range_, group in self._by_range.items():
            inside = [entry for entry in entries if contains(range_, entry.key)]
            if inside:
                wanted.update(dict.fromkeys(group, inside))
        for watch_id, found in wanted.items():
            watch = self._watches[watch_id]
            if watch.kind in (ALL, kind):
                watch.send(watch_id, kind, found)

    def _group(self, range_: KeyRange) -> dict[Any, Any]:
        return self._by_key if _is_single(range_) else self._by_range


def _is_single(range_: KeyRange) -> bool:
    return bool(range_.start) and range_.end == range_.start + "\0"


def _group_key(range_: KeyRange) -> str | KeyRange:
    return range_.start if _is_single(range_) else range_


class WatchStream:
    """Serves one Watch call. The stream is never completed: Skein's client would wait for ever.
    It ends with UNAVAILABLE, which its client turns into a ConnectionError."""

    def __init__(self, watches: Watches, max_queued: int = MAX_QUEUED):
        self._watches = watches
        self._max_queued = max_queued
        self._ids: set[int] = set()
        self._queue: deque[tuple[Any, int]] = deque()  # messages and their bytes
        self._queued = 0  # bytes
        self._wake = asyncio.Event()
        self._end = ""

    def end(self, reason: str) -> None:
        """Breaks the stream once everything queued is sent."""
        self._end = self._end or reason
        self._wake.set()

    async def serve(self, requests: Any, context: Any) -> None:
        """Runs until the client goes or `end` was called."""
        reader = asyncio.ensure_future(self._read(requests))
        reader.add_done_callback(self._read_ended)
        try:
            while True:
                while self._queue:
                    message, size = self._queue.popleft()
                    self._queued -= size
                    await context.write(message)
                if self._end:
                    await context.abort(grpc.StatusCode.UNAVAILABLE, self._end)
                self._wake.clear()
                await self._wake.wait()
        finally:
            reader.cancel()
            for watch_id in self._ids:
                self._watches.remove(watch_id)

    async def _read(self, requests: Any) -> None:
        async for request in requests:
            kind = request.WhichOneof("request")
            if kind == "create":
                self._create(request.create)
            elif kind == "cancel":
                self._cancel(request.cancel.watch_id)

    def _read_ended(self, reader: asyncio.Future[Any]) -> None:
        if not reader.cancelled() and reader.exception() is not None:
            self.end(f"the requests cannot be read: {reader.exception()}")

    def _create(self, create: Any) -> None:
        kind = messages.WatchCreateRequest.Type.Name(create.event_type)
        watch_id = self._watches.add(KeyRange(create.start, create.end), kind, self._send)
        self._ids.add(watch_id)
        # No event can come in between: the loop does nothing else before this is queued.
        self._put(messages.WatchResponse(type="CREATE", watch_id=watch_id))

    def _cancel(self, watch_id: int) -> None:
        if watch_id in self._ids:
            self._ids.discard(watch_id)
            self._watches.remove(watch_id)
        self._put(messages.WatchResponse(type="CANCEL", watch_id=watch_id))

    def _send(self, watch_id: int, kind: str, entries: Sequence[StoreEntry]) -> None:
        found = [entry_message(entry) for entry in entries]
        self._put(messages.WatchResponse(type=kind, watch_id=watch_id, event=found))

    def _put(self, message: Any) -> None:
        size = message.ByteSize()
        if self._queue and self._queued + size > self._max_queued:
            self._queue.clear()
            self._queued = 0
            self.end("the client does not read its events")
        elif not self._end:
            self._queue.append((message, size))
            self._queued += size
            self._wake.set()
