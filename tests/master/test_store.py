"""The store by itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfapp.master.store import (
    Delete,
    Get,
    KeyRange,
    KeyValueStore,
    Owner,
    RequestError,
    StoreEntry,
    StorePut,
)

A, B = Owner("w", 0), Owner("w", 1)
EVERYTHING = Get(KeyRange())

keys = st.text(alphabet="abc\ufffd\U0001f600", max_size=3)
operations = st.one_of(
    st.builds(StorePut, keys, st.binary(max_size=2), st.sampled_from([None, A, B])),
    st.builds(StorePut, keys, st.binary(max_size=2), keep_owner=st.just(True)),
    st.builds(Delete, st.builds(KeyRange, keys, keys)),
    st.builds(Get, st.builds(KeyRange, keys, keys)),
)


def open_store():
    log = []
    return KeyValueStore(lambda kind, entries: log.append((kind, entries)), lambda _: None), log


class Replica:
    """The state that a watcher of everything has."""

    def __init__(self):
        self.entries = {}

    def notify(self, kind, entries):
        for entry in entries:
            if kind == "PUT":
                self.entries[entry.key] = entry
            else:
                del self.entries[entry.key]


@given(st.lists(operations, max_size=30))
def test_events_tell_the_whole_story(history):
    replica = Replica()
    store = KeyValueStore(replica.notify, lambda _: None)
    for operation in history:
        before = dict(replica.entries)
        result = store.apply(operation)
        if isinstance(operation, StorePut):
            assert result == before.get(operation.key)
        elif isinstance(operation, Delete):
            assert {e.key: e for e in result} == {
                key: entry for key, entry in before.items() if key not in replica.entries
            }
    found = store.apply(EVERYTHING)
    assert {entry.key: entry for entry in found} == replica.entries
    names = [entry.key for entry in found]
    assert names == sorted(names, key=lambda key: key.encode("utf-16-be"))
    for owner in (A, B):
        store.drop_owner(owner)
    assert replica.entries == {e.key: e for e in found if e.owner is None}


def test_each_owned_key_has_a_deletion_of_its_own():
    store, log = open_store()
    for key in "ba":
        store.apply(StorePut(key, owner=A))
    del log[:]
    store.drop_owner(A)
    store.drop_owner(A)
    assert log == [("DELETE", (StoreEntry("a"),)), ("DELETE", (StoreEntry("b"),))]


def test_a_range_is_deleted_by_one_event():
    store, log = open_store()
    for key in "abc":
        store.apply(StorePut(key, b"1"))
    store.apply(Delete(KeyRange("b")))
    assert log[-1] == ("DELETE", (StoreEntry("b"), StoreEntry("c")))
    store.apply(Delete(KeyRange("b")))
    assert len(log) == 4


def test_refused_operations_change_nothing():
    def nobody(owner):
        raise RequestError(f"no {owner}")

    log = []
    store = KeyValueStore(lambda *event: log.append(event), nobody)
    with pytest.raises(RequestError, match="no w_0"):
        store.transaction([], [StorePut("a", b"1"), StorePut("b", b"2", A)], [])
    with pytest.raises(RequestError, match="can't both be true"):
        store.apply(StorePut("a", keep_value=True, keep_owner=True))
    assert (store.apply(EVERYTHING), log) == ([], [])
