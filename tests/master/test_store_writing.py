"""put and swap: value, owner, or both."""

import pytest

NEW, OLD = object(), b"old"

# (owner before, arguments) -> (value, owner) after; BOX stands for the live container's id.
BOX = "BOX"
WRITES = [
    (NEW, {"value": b"v"}, (b"v", None)),
    (NEW, {"value": b"v", "owner": BOX}, (b"v", BOX)),
    (NEW, {"value": b"v", "owner": None}, (b"v", None)),
    (None, {"value": b"v"}, (b"v", None)),
    (None, {"value": b"v", "owner": BOX}, (b"v", BOX)),
    (None, {"owner": BOX}, (OLD, BOX)),
    (None, {"owner": None}, (OLD, None)),
    (BOX, {"value": b"v"}, (b"v", BOX)),
    (BOX, {"value": b"v", "owner": None}, (b"v", None)),
    (BOX, {"owner": None}, (OLD, None)),
    (BOX, {"owner": BOX}, (OLD, BOX)),
]

# arguments -> the master's answer
REFUSED = [
    ("missing", {"owner": BOX}, "ignore_value=True & key isn't already set"),
    ("key", {"owner": "other_0"}, "Unknown service 'other'"),
    ("key", {"owner": "box_99"}, "Service 'box' has no container instance 99"),
    ("key", {"owner": "box_0"}, "Container 'box_0' has already completed"),
]


def filled_in(value, box):
    if isinstance(value, dict):
        return {key: filled_in(item, box) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(filled_in(item, box) for item in value)
    return box if value is BOX else value


def prepare(kv, before, box):
    if before is NEW:
        return (None, None)
    owner = filled_in(before, box)
    kv.put("key", OLD, owner=owner)
    return (OLD, owner)


@pytest.mark.parametrize(("before", "arguments", "after"), WRITES)
class TestWrites:
    def test_put(self, client, box, before, arguments, after):
        prepare(client.kv, before, box)
        assert client.kv.put("key", **filled_in(arguments, box)) is None
        assert client.kv.get("key", return_owner=True) == filled_in(after, box)

    def test_swap_with_owner(self, client, box, before, arguments, after):
        previous = prepare(client.kv, before, box)
        arguments = filled_in(arguments, box)
        assert client.kv.swap("key", **arguments, return_owner=True) == previous
        assert client.kv.get("key", return_owner=True) == filled_in(after, box)

    def test_swap(self, client, box, before, arguments, after):
        previous = prepare(client.kv, before, box)
        assert client.kv.swap("key", **filled_in(arguments, box)) == previous[0]


@pytest.mark.parametrize("method", ["put", "swap"])
@pytest.mark.parametrize(("key", "arguments", "message"), REFUSED)
def test_refused(client, box, method, key, arguments, message):
    client.kv["key"] = OLD
    with pytest.raises(ValueError) as refused:
        getattr(client.kv, method)(key, **filled_in(arguments, box))
    assert str(refused.value) == message
    assert client.kv.get_range(return_owner=True) == {"key": (OLD, None)}
