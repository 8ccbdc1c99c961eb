"""The key-value store of one application, as Skein's protocol defines it: pure, no I/O.

Keys sort by their UTF-16 code units and values compare as signed bytes, both as in Skein's Java
master: a program must not find another order on another engine.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Union

from tfapp.frozen import frozen

PUT, DELETE = "PUT", "DELETE"

# Byte b as an unsigned byte that sorts as the signed b does: 0x80 (-128) first, 0x7f last.
_SIGNED_ORDER = bytes(b ^ 0x80 for b in range(256))


class RequestError(Exception):
    """The request is refused. `code` is the name of a gRPC status."""

    def __init__(self, message: str, code: str = "INVALID_ARGUMENT"):
        super().__init__(message)
        self.code = code


@frozen
class Owner:
    """The container that owns a key. Its keys are deleted when it ends."""

    service: str
    instance: int

    def __str__(self) -> str:
        return f"{self.service}_{self.instance}"


@frozen
class StoreEntry:
    """One key. A DELETE event carries entries without value and owner."""

    key: str
    value: bytes = b""
    owner: Owner | None = None


@frozen
class KeyRange:
    """Keys from `start` up to, not including, `end`; "" (and "\\0" as start) is an open end."""

    start: str = ""
    end: str = ""


# ---- requests ------------------------------------------------------------------------------------
@frozen
class Get:
    """Read a range. The result is its entries, sorted."""

    range: KeyRange


@frozen
class Delete:
    """Delete a range. The result is the entries that were there, sorted."""

    range: KeyRange


@frozen
class StorePut:
    """Write a key. `keep_value`, `keep_owner`: leave that part as it is. The result is the
    previous entry, or None."""

    key: str
    value: bytes = b""
    owner: Owner | None = None
    keep_value: bool = False
    keep_owner: bool = False


Operation = Union[Get, Delete, StorePut]


@frozen
class Condition:
    """`field` ("VALUE" or "OWNER") of `key` compared by `operator` ("EQUAL", "NOT_EQUAL",
    "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL") with `right`. Nothing is neither less nor
    greater than anything, and equal only to nothing (None)."""

    key: str
    operator: str
    field: str
    right: bytes | Owner | None


_COMPARISONS: dict[str, Callable[..., Any]] = {
    "LESS": lambda left, right: left < right,
    "LESS_EQUAL": lambda left, right: left <= right,
    "GREATER": lambda left, right: left > right,
    "GREATER_EQUAL": lambda left, right: left >= right,
}


def order(key: str) -> bytes:
    """The sort key of a key: its UTF-16 code units."""
    return key.encode("utf-16-be", "surrogatepass")


def _comparable(value: bytes | Owner) -> bytes | tuple[bytes, int]:
    if isinstance(value, Owner):
        return order(value.service), value.instance
    return value.translate(_SIGNED_ORDER)


class KeyValueStore:
    """The store. `notify(kind, entries)` is called in commit order: a PUT has one entry, a
    DELETE all entries that one request deleted. `check_owner` raises RequestError for a
    container that cannot own keys (any more)."""

    def __init__(
        self,
        notify: Callable[[str, Sequence[StoreEntry]], None],
        check_owner: Callable[[Owner], None],
    ):
        self._notify = notify
        self._check_owner = check_owner
        self._entries: dict[str, StoreEntry] = {}
        self._sorted: list[tuple[bytes, str]] = []
        self._owned: dict[Owner, set[str]] = {}

    def get(self, key: str) -> StoreEntry | None:
        return self._entries.get(key)

    def restore(self, entries: Iterable[StoreEntry]) -> None:
        """Begins with these entries, of which nobody is notified."""
        self._entries = {entry.key: entry for entry in entries}
        self._sorted = sorted((order(key), key) for key in self._entries)
        for entry in self._entries.values():
            if entry.owner is not None:
                self._owned.setdefault(entry.owner, set()).add(entry.key)

    def apply(self, operation: Operation) -> Any:
        """Executes one operation; its result is described at the operation's class."""
        return self._apply_all((operation,))[0]

    def transaction(
        self,
        conditions: Sequence[Condition],
        on_success: Sequence[Operation],
        on_failure: Sequence[Operation],
    ) -> tuple[bool, list[Any]]:
        """Whether all `conditions` hold, and the results of the branch that was taken: all of
        it or, with RequestError, nothing."""
        succeeded = all(self._holds(condition) for condition in conditions)
        return succeeded, self._apply_all(on_success if succeeded else on_failure)

    def drop_owner(self, owner: Owner) -> None:
        """Deletes all keys of an ended container, one DELETE event each."""
        for key in sorted(self._owned.pop(owner, ()), key=order):
            self._remove(key)
            self._notify(DELETE, (StoreEntry(key),))

    def _apply_all(self, operations: Sequence[Operation]) -> list[Any]:
        self._check(operations)
        return [self._execute(operation) for operation in operations]

    def _check(self, operations: Sequence[Operation]) -> None:
        """All are checked before the first one is executed."""
        deleted: list[KeyRange] = []
        for operation in operations:
            if isinstance(operation, Delete):
                deleted.append(operation.range)
            elif isinstance(operation, StorePut):
                self._check_put(operation, deleted)

    def _check_put(self, put: StorePut, deleted: Sequence[KeyRange]) -> None:
        if put.keep_value and put.keep_owner:
            raise RequestError("ignore_value & ignore_owner can't both be true")
        if put.keep_value:
            gone = any(contains(range_, put.key) for range_ in deleted)
            if gone or put.key not in self._entries:
                raise RequestError(
                    "ignore_value=True & key isn't already set", "FAILED_PRECONDITION"
                )
        if put.owner is not None and not put.keep_owner:
            self._check_owner(put.owner)

    def _execute(self, operation: Operation) -> Any:
        if isinstance(operation, StorePut):
            return self._put(operation)
        if isinstance(operation, Delete):
            return self._delete(operation.range)
        return self._select(operation.range)

    def _put(self, put: StorePut) -> StoreEntry | None:
        previous = self._entries.get(put.key)
        before = previous or StoreEntry(put.key)
        entry = StoreEntry(
            put.key,
            before.value if put.keep_value else put.value,
            before.owner if put.keep_owner else put.owner,
        )
        if previous is None:
            bisect.insort(self._sorted, (order(put.key), put.key))
        self._disown(before)
        if entry.owner is not None:
            self._owned.setdefault(entry.owner, set()).add(put.key)
        self._entries[put.key] = entry
        self._notify(PUT, (entry,))
        return previous

    def _delete(self, range_: KeyRange) -> list[StoreEntry]:
        found = self._select(range_)
        for entry in found:
            self._disown(entry)
            self._remove(entry.key)
        if found:
            self._notify(DELETE, tuple(StoreEntry(entry.key) for entry in found))
        return found

    def _select(self, range_: KeyRange) -> list[StoreEntry]:
        first = 0 if _open_start(range_) else self._position(range_.start)
        last = self._position(range_.end) if range_.end else len(self._sorted)
        return [self._entries[key] for _, key in self._sorted[first:last]]

    def _position(self, key: str) -> int:
        return bisect.bisect_left(self._sorted, (order(key), ""))

    def _remove(self, key: str) -> None:
        del self._entries[key]
        del self._sorted[self._position(key)]

    def _disown(self, entry: StoreEntry) -> None:
        if entry.owner is not None:
            keys = self._owned[entry.owner]
            keys.discard(entry.key)
            if not keys:
                del self._owned[entry.owner]

    def _holds(self, condition: Condition) -> bool:
        entry = self._entries.get(condition.key)
        left: bytes | Owner | None = None
        if entry is not None:
            left = entry.value if condition.field == "VALUE" else entry.owner
        right = condition.right
        if condition.operator == "EQUAL":
            return left == right
        if condition.operator == "NOT_EQUAL":
            return left != right
        if left is None or right is None:
            return False
        return _COMPARISONS[condition.operator](_comparable(left), _comparable(right))


def _open_start(range_: KeyRange) -> bool:
    return range_.start in ("", "\0")


def contains(range_: KeyRange, key: str) -> bool:
    position = order(key)
    if not _open_start(range_) and position < order(range_.start):
        return False
    return not range_.end or position < order(range_.end)
