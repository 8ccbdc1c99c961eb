"""The watches of the key-value store. Pure, no I/O."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from tfapp.frozen import frozen
from tfapp.master.store import Entry, KeyRange, contains

ALL = "ALL"

# (watch id, "PUT" or "DELETE", entries in the watch's range) -> to the watch's stream
Send = Callable[[int, str, Sequence[Entry]], None]


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
        """Registers a watch and returns its id."""
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

    def notify(self, kind: str, entries: Sequence[Entry]) -> None:
        """Sends each watch those of `entries` that it watches, as one message."""
        wanted: dict[int, list[Entry]] = {}
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

    def _group(self, range_: KeyRange) -> dict:
        return self._by_key if _is_single(range_) else self._by_range


def _is_single(range_: KeyRange) -> bool:
    return bool(range_.start) and range_.end == range_.start + "\0"


def _group_key(range_: KeyRange) -> str | KeyRange:
    return range_.start if _is_single(range_) else range_
