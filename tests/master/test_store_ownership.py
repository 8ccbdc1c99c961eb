"""A container's keys live as long as it does."""

from tfapp.contract.names import WAITS_PREFIX


def own(found):
    """Without what the master itself tells of containers."""
    return {key: value for key, value in found.items() if not key.startswith(WAITS_PREFIX)}


def test_keys_go_with_their_container(client, boxes):
    first, second = boxes
    for key in ("kept", "given", "freed"):
        client.kv.put(key, b"", owner=first)
    client.kv.put("given", owner=second)
    client.kv.put("freed", owner=None)
    assert own(client.kv.get_range(return_owner=True)) == {
        "freed": (b"", None),
        "given": (b"", second),
        "kept": (b"", first),
    }
    client.kill_container(first)
    assert [*own(client.kv.get_range())] == ["freed", "given"]


def test_a_deleted_key_is_not_owned_any_more(client, boxes):
    first, second = boxes
    for key in ("a", "b", "c"):
        client.kv.put(key, b"", owner=first)
    client.kv.put("b", owner=second)
    client.kv.put("c", owner=None)
    client.kv.clear()
    client.kv.update({"a": b"", "b": b"", "c": b""})
    client.kill_container(first)
    client.kill_container(second)
    assert client.kv.list_keys() == ["a", "b", "c"]


def test_keys_go_when_containers_are_scaled_away(client, boxes):
    """Those that do not run yet go first."""
    first, second = boxes
    client.kv.put("a", b"", owner=first)
    client.kv.put("b", b"", owner=second)
    client.scale("box", 1)
    (left,) = client.get_containers()
    assert [*own(client.kv.get_range())] == ["a" if left.id == first else "b"]
