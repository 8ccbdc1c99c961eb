"""Conditions, branches, all or nothing."""

import operator

import pytest
from skein import kv

OPERATORS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
ABOVE, SAME, BELOW, NOTHING = "above", "same", "below", "nothing"

# How the stored side stands to the given one -> the operators that hold then.
HOLDS = {
    BELOW: {"!=", "<", "<="},
    SAME: {"==", "<=", ">="},
    ABOVE: {"!=", ">", ">="},
    NOTHING: {"!="},
}


@pytest.fixture
def check(client):
    return lambda *conditions: client.kv.transaction(conditions).succeeded


@pytest.mark.parametrize("symbol", OPERATORS)
class TestComparison:
    @pytest.mark.parametrize(
        ("stored", "given", "relation"),
        [
            (b"bcd", b"bcd", SAME),
            (b"bcd", b"bce", BELOW),
            (b"bcd", b"bcc", ABOVE),
            (b"bcd", b"bc", ABOVE),
            (b"bcd", b"bcde", BELOW),
            (b"", b"", SAME),
            (b"", b"\x80", BELOW),
            (b"\xff", b"\x01", BELOW),  # bytes are signed
            (b"\x80", b"\xff", BELOW),
            (None, b"bcd", NOTHING),
        ],
    )
    def test_value(self, client, check, symbol, stored, given, relation):
        if stored is not None:
            client.kv["key"] = stored
        assert check(OPERATORS[symbol](kv.value("key"), given)) == (symbol in HOLDS[relation])

    @pytest.mark.parametrize("relation", HOLDS)
    def test_owner(self, client, check, box, symbol, relation):
        service, _, number = box.rpartition("_")
        client.kv.put("key", b"", owner=None if relation == NOTHING else box)
        step = {BELOW: 1, ABOVE: -1}.get(relation, 0)
        given = f"{service}_{int(number) + step}"
        assert check(OPERATORS[symbol](kv.owner("key"), given)) == (symbol in HOLDS[relation])


def test_owner_or_none(client, check, box):
    client.kv.put("owned", b"", owner=box)
    client.kv.put("free", b"")
    assert check(kv.owner("owned") != None, kv.owner("free") == None)  # noqa: E711
    assert not check(kv.owner("owned") == None)  # noqa: E711
    assert not check(kv.owner("free") != None)  # noqa: E711


def test_presence(client, check):
    client.kv["key"] = b""
    assert check(kv.exists("key"), kv.missing("other"))
    assert not check(kv.missing("key"))
    assert not check(kv.exists("other"))


def test_all_conditions_have_to_hold(client, check):
    client.kv["key"] = b""
    true, false = kv.exists("key"), kv.missing("key")
    assert check()
    assert check(true, true)
    assert not check(true, false)
    assert not check(false, true)


@pytest.mark.parametrize("holds", [True, False])
class TestBranches:
    def transaction(self, client, holds, operations, others=()):
        condition = kv.exists("a") if holds else kv.missing("a")
        branches = (operations, others) if holds else (others, operations)
        return client.kv.transaction([condition], *branches)

    def test_results_of_the_branch_taken(self, client, holds):
        client.kv.update({"a": b"1", "aa": b"2", "b": b"3"})
        wrong = [kv.put("wrong", b"")]
        result = self.transaction(client, holds, [kv.get_prefix("a"), kv.get("c")], wrong)
        assert result == (holds, [{"a": b"1", "aa": b"2"}, None])
        assert client.kv.missing("wrong")

    def test_empty_branch(self, client, holds):
        client.kv["a"] = b"1"
        result = self.transaction(client, holds, [], [kv.put("wrong", b"")])
        assert result == (holds, [])
        assert client.kv.list_keys() == ["a"]

    def test_operations_see_those_before_them(self, client, holds):
        client.kv.update({"a": b"1", "aa": b"2"})
        operations = [
            kv.get_prefix("a"),
            kv.discard_prefix("a", return_keys=True),
            kv.put("a", b"3"),
            kv.swap("a", b"4"),
            kv.count(),
            kv.pop("a"),
            kv.exists("a"),
        ]
        assert self.transaction(client, holds, operations).results == [
            {"a": b"1", "aa": b"2"},
            ["a", "aa"],
            None,
            b"3",
            1,
            b"4",
            False,
        ]

    @pytest.mark.parametrize(
        ("operation", "message"),
        [
            (kv.put("new", owner="box_1"), "ignore_value=True & key isn't already set"),
            (kv.put("a", b"3", owner="other_0"), "Unknown service 'other'"),
            (kv.put("a", b"3", owner="box_99"), "Service 'box' has no container instance 99"),
            (kv.put("a", b"3", owner="box_0"), "Container 'box_0' has already completed"),
        ],
    )
    def test_refused_as_a_whole(self, client, holds, operation, message):
        client.kv["a"] = b"1"
        operations = [kv.put("b", b"2"), kv.discard("a"), operation]
        with pytest.raises(ValueError) as refused:
            self.transaction(client, holds, operations)
        assert str(refused.value) == message
        assert client.kv.get_range() == {"a": b"1"}


def test_owner_only_put_of_a_key_that_the_transaction_deletes(client, box):
    client.kv["a"] = b"1"
    with pytest.raises(ValueError, match="isn't already set"):
        client.kv.transaction(on_success=[kv.discard("a"), kv.put("a", owner=box)])
    assert client.kv.get_range() == {"a": b"1"}


def test_nothing_asked(client):
    assert client.kv.transaction() == (True, [])
