from __future__ import annotations

import pytest

from tfapp.master.store import Entry, KeyRange
from tfapp.master.watches import Watches

KEYS = "abcd"


@pytest.fixture
def seen():
    return []


@pytest.mark.parametrize(
    ("range_", "kind", "event", "wanted"),
    [
        (KeyRange(), "ALL", "PUT", "abcd"),
        (KeyRange("b"), "ALL", "DELETE", "bcd"),
        (KeyRange("", "c"), "ALL", "PUT", "ab"),
        (KeyRange("b", "d"), "PUT", "PUT", "bc"),
        (KeyRange("b", "d"), "PUT", "DELETE", ""),
        (KeyRange("b", "b\0"), "DELETE", "DELETE", "b"),
        (KeyRange("b", "b\0"), "DELETE", "PUT", ""),
        (KeyRange("d", "b"), "ALL", "PUT", ""),
    ],
)
def test_one_message_with_what_is_wanted(seen, range_, kind, event, wanted):
    watches = Watches()
    watch_id = watches.add(range_, kind, lambda *message: seen.append(message))
    watches.notify(event, tuple(map(Entry, KEYS)))
    assert seen == ([(watch_id, event, list(map(Entry, wanted)))] if wanted else [])


def test_removed_watches_are_silent(seen):
    watches = Watches()
    ranges = [KeyRange(), KeyRange(), KeyRange("a", "a\0"), KeyRange("a", "a\0")]
    ids = [watches.add(range_, "ALL", lambda *message: seen.append(message)) for range_ in ranges]
    assert ids == [0, 1, 2, 3]
    for watch_id in (0, 2, 2):
        watches.remove(watch_id)
    watches.notify("PUT", (Entry("a"),))
    assert sorted(watch_id for watch_id, _, _ in seen) == [1, 3]
    watches.remove(1)
    watches.remove(3)
    watches.notify("PUT", (Entry("a"),))
    assert len(seen) == 2
