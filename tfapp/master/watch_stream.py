"""One client's stream of events: the Watch call."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

import grpc

from tfapp.master.messages import entry_message
from tfapp.master.store import Entry, KeyRange
from tfapp.master.watches import Watches
from tfapp.protocol.definition import messages

# A client that stopped reading must not fill the master's memory. It gets a broken stream
# instead and has to read anew, as after any broken stream.
MAX_QUEUED = 20_000


class WatchStream:
    """Serves one Watch call. The stream is never completed: Skein's client would wait for ever.
    It ends with UNAVAILABLE, which its client turns into a ConnectionError."""

    def __init__(self, watches: Watches, max_queued: int = MAX_QUEUED):
        self._watches = watches
        self._max_queued = max_queued
        self._ids: set[int] = set()
        self._queue: deque[Any] = deque()
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
                    await context.write(self._queue.popleft())
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

    def _read_ended(self, reader: asyncio.Future) -> None:
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

    def _send(self, watch_id: int, kind: str, entries: Sequence[Entry]) -> None:
        found = [entry_message(entry) for entry in entries]
        self._put(messages.WatchResponse(type=kind, watch_id=watch_id, event=found))

    def _put(self, message: Any) -> None:
        if len(self._queue) >= self._max_queued:
            self._queue.clear()
            self.end("the client does not read its events")
        elif not self._end:
            self._queue.append(message)
            self._wake.set()
