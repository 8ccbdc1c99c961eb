"""The journal of a master: what the next one has to know where the containers of a run live on.

It is a table, written to one file by appending: each line is a batch of changes, which hold
together or not at all, behind their checksum. What was written is there after the death of this
process, so each batch is written before anybody is told of it; it need not survive the machine. A
last line that was torn by the death does not count. Where containers outlive the machine of the
master, too, it has a copy elsewhere. A file that has grown large is written anew,
beside, and put in its place.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from tfapp.frozen import frozen
from tfapp.master.launcher import KeepingLauncher
from tfapp.master.lifecycle import KILLED, RUNNING, ContainerRecord
from tfapp.master.store import Owner, StoreEntry

COMPACT = 4 << 20  # bytes of a file that may be written anew, if half of it is out of date

Table = dict[tuple[str, str], Any]  # (kind, name) -> plain data

log = logging.getLogger(__name__)


class DamagedJournalError(ValueError):
    """It is no journal, or not all of it."""


def replay(data: bytes) -> Table:
    """The table that a journal holds. DamagedJournalError."""
    table: Table = {}
    *lines, _ = data.split(b"\n")  # the last one was torn
    for line in lines:
        sum_, _, text = line.partition(b" ")
        if sum_ != _checksum(text):
            raise DamagedJournalError("a line is damaged")
        _change(table, json.loads(text))
    return table


@frozen
class Kept:
    """What a table says, in the words of the master. `end`: the fields of its end, if it has come
    to that."""

    table: Table
    attempt: int
    started: bool
    driver: tuple[int, int]  # the coordinators that were lost, the number of its container
    end: Mapping[str, Any] | None
    entries: tuple[StoreEntry, ...]
    containers: tuple[ContainerRecord, ...]
    counted: Mapping[str, Mapping[str, Any]]  # service -> see Lifecycle.counted
    pages: tuple[Mapping[str, str], ...]

    @property
    def begun(self) -> dict[str, str]:
        """The containers whose script may run, also those that were killed, of whose end nothing is
        known: their ids at the launcher -> their services."""
        states = (RUNNING, KILLED)
        found = (c for c in self.containers if c.state in states and c.engine_id)
        return {container.engine_id: container.service for container in found}

    @classmethod
    def of(cls, table: Table) -> Kept:
        """DamagedJournalError if it is of no master."""
        found: dict[str, dict[str, Any]] = {}
        for (kind, name), value in table.items():
            found.setdefault(kind, {})[name] = value
        own = found.get("master", {})
        try:
            return cls(
                table,
                int(own["attempt"]),
                bool(own.get("started")),
                (int((driver := own.get("driver", (0, 1)))[0]), int(driver[1])),
                own.get("end"),
                tuple(_entry(key, *value) for key, value in found.get("store", {}).items()),
                tuple(ContainerRecord(**one) for one in found.get("container", {}).values()),
                own.get("counted", {}),
                tuple(found.get("page", {}).values()),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedJournalError(f"it is of no master: {error!r}") from error


def entry_data(entry: StoreEntry) -> list[Any]:
    value, owner = base64.b64encode(entry.value).decode(), entry.owner
    return [value] if owner is None else [value, owner.service, owner.instance]


def _entry(key: str, value: str, *owner: Any) -> StoreEntry:
    return StoreEntry(key, base64.b64decode(value), Owner(*owner) if owner else None)


class Copy(Protocol):
    """Of a journal, outside of the place of its master."""

    def changed(self, table: Table, changes: Table) -> asyncio.Future[None] | None:
        """The table is another one. Returns what is done once it is written there; None if that
        may be later."""


class Journal:
    """Writes the journal at `path`, which begins as `table`. `pending`: done once what the last
    batch must not lose is written in its copy, too. OSError."""

    def __init__(self, path: Path, table: Table, copy: Copy | None = None):
        self.table = table
        self.pending: asyncio.Future[None] | None = None
        self._copy = copy
        self._path = path
        self._changes: Table = {}  # the present batch; None: deleted
        self._size = self._compacted = 0
        self._file: int | None = None
        self._compact()

    def put(self, kind: str, name: str, value: Any) -> None:
        """Sets a value (None: deletes it) in the present batch, which `commit` writes."""
        self._changes[kind, name] = value

    def commit(self) -> asyncio.Future[None] | None:
        """Writes the present batch. Returns what is done once it is in the copy, None if nobody has
        to wait for that. Without room for it there is no journal any more: another master then
        begins anew."""
        batch, self._changes = self._changes, {}
        changes = [(*key, value) for key, value in batch.items()]
        if not changes:
            return None
        _change(self.table, changes)
        self._append(changes)
        copied = self._copy.changed(self.table, batch) if self._copy is not None else None
        self.pending = copied or self.pending
        return copied

    def _append(self, changes: list[Any]) -> None:
        if self._file is None:
            return
        line = _line(changes)
        try:
            written = os.write(self._file, line)
            if written != len(line):
                raise OSError("it has no room")
            self._size += written
            if self._size > max(COMPACT, 2 * self._compacted):
                self._compact()
        except OSError as error:
            log.error("the journal cannot be written, another master starts anew: %s", error)
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, 0)
            self.delete()

    def delete(self) -> None:
        """What this master writes from now on is for nobody."""
        self.close()
        delete(self._path)

    def close(self) -> None:
        """Nothing is written from now on."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _compact(self) -> None:
        line = whole(self.table)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC
        with open(os.open(_beside(self._path), flags, 0o600), "wb", buffering=0) as file:
            if file.write(line) != len(line):
                raise OSError("it has no room")
            _beside(self._path).replace(self._path)
            self.close()
            self._file = os.dup(file.fileno())
        self._size = self._compacted = len(line)


def read_kept(path: Path) -> Kept | None:
    """What the master before this one has written down; None if that is not usable."""
    try:
        return Kept.of(replay(path.read_bytes()))
    except (OSError, ValueError) as error:
        log.error("the master was lost, and its journal cannot be read: %s", error)
        return None


@frozen
class Memory:
    """What a master has beyond its own life. `kept`: of the one before it, if it goes on with its
    containers. `leaves` is called when another one goes on instead of this one."""

    journal: Journal
    kept: Kept | None
    launcher: KeepingLauncher
    leaves: Callable[[], None] = lambda: None


def whole(table: Table) -> bytes:
    """A journal with all of `table`."""
    return _line((kind, name, value) for (kind, name), value in table.items())


def delete(path: Path) -> None:
    """Deletes a journal, and one that was half-written beside it."""
    for each in (path, _beside(path)):
        each.unlink(missing_ok=True)


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.new")


def _line(changes: Iterable[tuple[str, str, Any]]) -> bytes:
    text = json.dumps(list(changes), separators=(",", ":")).encode()
    return _checksum(text) + b" " + text + b"\n"


def _checksum(text: bytes) -> bytes:
    return b"%08x" % binascii.crc32(text)


def _change(table: Table, changes: Iterable[Any]) -> None:
    for kind, name, value in changes:
        if value is None:
            table.pop((kind, name), None)
        else:
            table[kind, name] = value
