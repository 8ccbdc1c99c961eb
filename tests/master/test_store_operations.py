"""One key and ranges of keys, through Skein's own client, which makes a range of a prefix."""

from collections import OrderedDict

import pytest

FRUIT = {
    "app": b"0",
    "apple": b"1",
    "applet": b"2",
    "apply": b"3",
    "pea": b"4",
    "peach": b"5",
    "pear": b"6",
}
NAMES = sorted(FRUIT)

# arguments of a range -> the keys in it
RANGES = [
    ({}, NAMES),
    ({"start": "apply"}, ["apply", "pea", "peach", "pear"]),
    ({"end": "apply"}, ["app", "apple", "applet"]),
    ({"start": "apple", "end": "pear"}, ["apple", "applet", "apply", "pea", "peach"]),
    ({"start": "apple", "end": "apple"}, []),
    ({"start": "zucchini"}, []),
    ({"end": "aaa"}, []),
    ({"start": "z", "end": "a"}, []),
    ({"start": "\0"}, NAMES),
]


def values(keys):
    return OrderedDict((key, FRUIT[key]) for key in keys)


def pairs(keys):
    return OrderedDict((key, (FRUIT[key], None)) for key in keys)


@pytest.fixture
def fruit(client):
    client.kv.update(FRUIT)
    return client.kv


@pytest.mark.parametrize(("arguments", "keys"), RANGES)
class TestRange:
    def test_counts(self, fruit, arguments, keys):
        assert fruit.count(**arguments) == len(keys)

    def test_lists_keys(self, fruit, arguments, keys):
        assert fruit.list_keys(**arguments) == keys

    def test_gets(self, fruit, arguments, keys):
        assert fruit.get_range(**arguments) == values(keys)
        assert fruit.get_range(**arguments, return_owner=True) == pairs(keys)
        assert list(fruit.get_range(**arguments)) == keys

    def test_pops(self, fruit, arguments, keys):
        assert fruit.pop_range(**arguments) == values(keys)
        assert fruit.pop_range(**arguments) == OrderedDict()
        assert dict(fruit) == {k: v for k, v in FRUIT.items() if k not in keys}

    def test_pops_with_owners(self, fruit, arguments, keys):
        assert fruit.pop_range(**arguments, return_owner=True) == pairs(keys)

    def test_discards(self, fruit, arguments, keys):
        assert fruit.discard_range(**arguments) == len(keys)
        assert fruit.discard_range(**arguments) == 0

    def test_discards_and_tells_keys(self, fruit, arguments, keys):
        assert fruit.discard_range(**arguments, return_keys=True) == keys
        assert fruit.discard_range(**arguments, return_keys=True) == []


@pytest.mark.parametrize("method", ["get", "pop"])
class TestOneKey:
    def test_value(self, fruit, method):
        assert getattr(fruit, method)("pea") == b"4"

    def test_value_and_owner(self, fruit, method):
        assert getattr(fruit, method)("pea", return_owner=True) == (b"4", None)

    def test_missing(self, fruit, method):
        read = getattr(fruit, method)
        assert read("fig") is None
        assert read("fig", b"other") == b"other"
        assert read("fig", return_owner=True) == (None, None)
        assert read("fig", b"other", return_owner=True) == (b"other", None)


def test_pop_deletes(fruit):
    fruit.pop("pea")
    assert fruit.missing("pea")


def test_exists_and_missing(fruit):
    assert (fruit.exists("pea"), fruit.missing("pea"), "pea" in fruit) == (True, False, True)
    assert (fruit.exists("fig"), fruit.missing("fig"), "fig" in fruit) == (False, True, False)


def test_discard(fruit):
    assert fruit.discard("pea")
    assert not fruit.discard("pea")
    assert not fruit.discard("fig")


def test_as_a_mapping(fruit):
    fruit["fig"] = b"7"
    del fruit["app"]
    assert list(fruit) == sorted([*NAMES, "fig"])[1:]
    fruit.clear()
    assert (len(fruit), dict(fruit)) == (0, {})


class TestValues:
    @pytest.mark.parametrize("value", [b"", b"\0", bytes(range(256)), b"x" * 3_000_000])
    def test_any_bytes(self, client, value):
        client.kv["a"] = value
        assert client.kv["a"] == value

    def test_keys_sort_by_utf16(self, client):
        # U+FFFD is one code unit, U+1F600 is two, of which the first is smaller.
        client.kv.update({"\ufffd": b"", "\U0001f600": b"", "z": b""})
        assert list(client.kv) == ["z", "\U0001f600", "\ufffd"]

    def test_too_large_a_message_is_an_error(self, client):
        with pytest.raises(Exception, match=r"RST_STREAM|larger than max|exhausted"):
            client.kv["a"] = b"x" * (4 * 1024 * 1024 + 1)
        assert len(client.kv) == 0
