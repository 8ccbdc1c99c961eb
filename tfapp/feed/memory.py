"""Memory that a Spark task shares with a program on its machine. Rows in it need no encryption and
no network. This module is shipped to executors and to programs.

The memory belongs to one connection, whose two sides have proved who they are. It is a file without
a path: the task tells its process and the file's number there, and the program opens the file in
/proc. That works if both are on one machine, see the same processes and run as the same user. The
file's name is random and confirms that it is the right one.

A task offers it with its first line. Lines with rows have "size", the bytes of an Arrow stream. It
follows the line, or is in the slot "slot" of the memory. A slot is free again once the line has
been answered.
"""

from __future__ import annotations

import mmap
import os
import secrets
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tfapp.feed.columns import PIECE, serialized
from tfapp.feed.lines import ROWS_FOLLOW, SHARES, check, kind_of
from tfapp.feed.wire import ImpossibleError, Line

SLOTS = 3
SLOT = PIECE + (1 << 16)  # bytes of a slot, which holds one piece


class Memory:
    """The task's side: SLOTS slots of SLOT bytes, which take up only what is written to them."""

    def __init__(self) -> None:
        """OSError if the system has no such memory."""
        if not hasattr(os, "memfd_create"):
            raise OSError("this system has no memfd_create")
        name = f"tfapp-feed-{secrets.token_hex(16)}"
        self._file = os.memfd_create(name)
        try:
            os.truncate(self._file, SLOTS * SLOT)
            space = memoryview(mmap.mmap(self._file, SLOTS * SLOT))
        except BaseException:
            os.close(self._file)
            raise
        self._slots = [pa.py_buffer(space[at : at + SLOT]) for at in range(0, len(space), SLOT)]
        self.place = {"process": os.getpid(), "file": self._file, "name": name}

    def write(self, slot: int, rows: pa.RecordBatch) -> int | None:
        """Writes rows as an Arrow stream. Returns its size in bytes; None if the slot is too
        small."""
        if rows.nbytes > SLOT:
            return None
        stream = pa.FixedSizeBufferWriter(self._slots[slot])
        try:
            with pa.ipc.new_stream(stream, rows.schema) as writer:
                writer.write_batch(rows)
            return int(stream.tell())
        except OSError:
            return None

    def close(self) -> None:
        """Gives the memory up. The program can still read what it has opened."""
        os.close(self._file)
        self._slots = []


def share(line: Line) -> None:
    """Offers memory to the program at the other end of a new connection, and sets `line.memory` if
    the program has opened it. Raises the OSError of the connection."""
    try:
        memory = Memory()
    except OSError:
        return
    line.memory = memory  # closed with the connection
    if not line.ask({"memory": memory.place})["shared"]:
        memory.close()
        line.memory = None


def send(line: Line, what: dict[str, Any], rows: pa.RecordBatch, slot: int) -> None:
    """Sends a line with rows. `slot`: a free slot of the memory, if there is one. Raises
    OSError."""
    size = line.memory.write(slot, rows) if line.memory is not None else None
    if size is None:
        line.send(what, serialized(rows))
    else:
        line.say({**what, "slot": slot, "size": size})


class SharedMemory:
    """The program's side."""

    def __init__(self) -> None:
        self._bytes: mmap.mmap | None = None

    def open(self, place: Mapping[str, Any]) -> bool:
        """Opens the memory of a task. `place`: the task's `Memory.place`. Returns whether the
        memory is there."""
        path = f"/proc/{place['process']}/fd/{place['file']}"
        try:
            if os.readlink(path) != f"/memfd:{place['name']} (deleted)":
                return False  # that of a process on another machine
            file = os.open(path, os.O_RDONLY)
            try:
                self._bytes = mmap.mmap(file, SLOTS * SLOT, prot=mmap.PROT_READ)
            finally:
                os.close(file)
        except (OSError, ValueError):
            return False
        return True

    def read(self, slot: int, size: int) -> bytes:
        """A copy of the first `size` bytes of a slot."""
        if self._bytes is None or not (0 <= slot < SLOTS and 0 <= size <= SLOT):
            raise ImpossibleError(f"a message of {size} bytes in slot {slot}")
        return self._bytes[slot * SLOT : slot * SLOT + size]


class RowsReader:
    """Reads the lines with rows of a task from its connection."""

    def __init__(self, line: Line):
        self._line, self._memory = line, SharedMemory()

    def next(self) -> tuple[dict[str, Any], bytes]:
        """Waits for the next line. Returns it without "size" and "slot", and the Arrow stream.
        Raises OSError, and ImpossibleError for another line."""
        said = self._line.hear()
        while "memory" in said:
            kind_of(said, SHARES)
            self._line.say({"shared": self._memory.open(said["memory"])})
            said = self._line.hear()
        check({"slot": None, **said}, ROWS_FOLLOW, "size")
        size, slot = said.pop("size"), said.pop("slot", None)
        return said, self._line.body(size) if slot is None else self._memory.read(slot, size)
