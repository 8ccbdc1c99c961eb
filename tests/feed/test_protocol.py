"""A hostile peer sends every line in every state, to the driver as a program, as a task that sends
and as one that asks, and to a program as its driver and as a task. Each line that is not possible
is answered with an error that names both sides, and changes nothing that was right."""

import contextlib
import itertools
import json
import socket
import threading
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from tests.feed.world import Data, Later, Program, World, ids, wait_for
from tfapp.errors import FeedError, ProgramError
from tfapp.feed import wire
from tfapp.feed.columns import serialized
from tfapp.feed.driver.state import View
from tfapp.feed.wire import MAX_LINE, Line, connect

pytestmark = pytest.mark.usefixtures("without_spark")

PIECE = {"part": [0, 0], "attempt": 1, "first": 0, "rows": 1, "digest": 1}
# Lines that nobody sends, as bytes.
GARBAGE = {
    "garbage": b"garbage\n",
    "a list": b"[1]\n",
    "nothing known": b'{"what": 1}\n',
    "deep": b"[" * 100_000 + b"\n",
    "too long": b'{"error": "' + MAX_LINE * b"x",
}
DRIVER_SAYS = (
    {"entered": 99, "ok": True},
    {"entered": "one", "ok": True},
    {"batches": 5, "rest": 0},
    {"batches": -1, "rest": 0, "over": False},
    {"batches": 5, "rest": 2, "over": False},
    {"features": "id"},
)
PROGRAM_SAYS = (
    {"ready": {"batch": 10, "columns": None, "window": 1, "state": None, "objects": False}},
    {"ready": {"batch": 0, "columns": None, "window": 1, "state": None, "objects": False}},
    {"ready": {"batch": 10, "columns": 7, "window": 1, "state": None, "objects": False}},
    {"ready": {"batch": 10, "columns": None, "window": 1, "state": [1], "objects": False}},
    {"ready": {"batch": 10, "columns": None, "window": 1, "state": None}},
    {"ready": True},
    {"took": 10},
    {"took": 1_000_000},
    {"took": -1},
    {"consumed": 10},
    {"holds": 0},
    {"commit": 1, **PIECE, "part": "x"},
    {"commit": 1, **PIECE, "digest": None},
    {"commit": 1, **PIECE, "rows": 2.5},
    {"answers": True},
)
OPEN = {"open": 0, "data": 1, "attempt": 1_000_000}
FEATURES = {"features": [{"name": "id", "dtype": "int64", "shape": []}]}
GRANT = {"grant": 0, "rows": 1, "size": 8}
TASK_SAYS = (
    OPEN,
    {**OPEN, "open": 77},
    {**OPEN, "attempt": None},
    FEATURES,
    {"features": [1]},
    GRANT,
    {**GRANT, "rows": 0},
    {**GRANT, "size": -1},
    {**GRANT, "grant": "x"},
    {"finish": "x"},
    {"refused": True},
    {"lost": True},
    {"fail": 3},
)
ASKER_SAYS = ({"route": "x"}, {"wrong": "it is", "stage": 1}, {"wrong": 1, "stage": 1}, {"lost": 1})


def hostile(world: World, address: str, *lines: Mapping[str, Any]) -> Line:
    """A connection of one who has the credentials, after these lines."""
    first, *others = lines
    line = connect(address, world.credentials.tls(server=False), dict(first))
    line._socket.settimeout(60)
    for each in others:
        line.ask(dict(each))
    return line


def send(line: Line, what: bytes) -> None:
    with contextlib.suppress(OSError):  # it has been refused already
        line._socket.sendall(what)


class TestTasks:
    """To the driver's port for tasks. The feed goes on, and every row comes once."""

    @pytest.mark.parametrize("role", ["sender", "asker"])
    def test_every_line(self, world, connected, role):
        """In every state: nothing asked, a partition open, its columns known, rows granted."""
        go_on = threading.Event()

        class Held(Data):
            attempts = itertools.count(1_000_000)  # after those of the test

            def run(self, *args: Any) -> None:
                go_on.wait(120)
                super().run(*args)

        taking = [Later(lambda p=p: ids(p)) for p in world.begin()]
        feeding = Later(lambda: world.feeder.feed(Held([40, 40], connected)))
        state = world.feeder._state
        wait_for(lambda: state.live and state.data == 1)
        address = f"127.0.0.1:{world.feeder._tasks.port}"
        numbers = itertools.count()
        if role == "asker":
            states: list[list[Mapping[str, Any]]] = [[]]
            lines: tuple[Any, ...] = (*ASKER_SAYS, OPEN)
        else:
            states = [[], [OPEN], [OPEN, FEATURES], [OPEN, FEATURES, GRANT]]
            lines = (*TASK_SAYS, *ASKER_SAYS)
        possible = [
            {json.dumps(OPEN)},
            {json.dumps(FEATURES)},
            {json.dumps(GRANT)},
            {json.dumps({"refused": True}), json.dumps({"lost": True}), json.dumps({"lost": 1})},
        ]
        answers = []
        for before, allowed in zip(states, possible):
            for each in [*map(json.dumps, lines), *(() if before else GARBAGE)]:
                if role == "sender" and each in allowed:
                    continue
                attempt = next(numbers)
                before = [{**b, "attempt": attempt} if "open" in b else b for b in before]
                line = hostile(world, address, {"role": role}, *before)
                send(line, GARBAGE.get(each, each.encode() + b"\n"))
                answer = line.hear()
                assert "the driver of the feed has got from a task" in answer["error"], (
                    before,
                    each,
                )
                answers.append(answer["error"])
                line.close()
        line = hostile(world, address, {"role": "king"})
        assert "the role 'king'" in line.hear()["error"]
        line.close()
        if role == "sender":
            assert any("'grant' after 'open' of partition 0" in each for each in answers), answers
        go_on.set()
        assert feeding.result[:4] == (80, 4, 0, 0)
        assert sorted(taking[0].result + taking[1].result) == list(range(80))

    def test_rows_that_were_asked_for_or_done(self, world, connected):
        """A grant is for rows that are not granted, and the end comes after the last answer."""
        taking = [Later(lambda p=p: ids(p)) for p in world.begin()]
        feeding = Later(lambda: world.feeder.feed(Data([40], connected), final=False))
        assert feeding.result.dropped == 0
        with world.feeder._state.changed:
            world.feeder._state.data, world.feeder._state.pass_number = 7, 3
            world.feeder._state.partitions = 1
        address = f"127.0.0.1:{world.feeder._tasks.port}"
        begin = {"role": "sender"}, {**OPEN, "data": 7}, FEATURES, {**GRANT, "rows": 4, "size": 32}
        for what in (GRANT, {**GRANT, "grant": 1}, {"finish": 0}):
            line = hostile(world, address, *begin)
            answer = line.ask(dict(what))
            assert next(iter(what)) in answer["error"], answer
            line.close()
        world.feeder._state.ledger.give_up(3)
        assert world.feeder.end().rows == 40
        assert sorted(taking[0].result + taking[1].result) == list(range(40))


def fake_program(world: World) -> tuple[socket.socket, str]:
    """The port of a program that the test plays."""
    listener = socket.create_server(("127.0.0.1", 0))
    return listener, f"127.0.0.1:{listener.getsockname()[1]}"


def accepted(world: World, listener: socket.socket) -> Line:
    listener.settimeout(60)
    plain, _ = listener.accept()
    line = Line(world.credentials.tls(server=True).wrap_socket(plain, server_side=True))
    line._socket.settimeout(60)
    return line


READY = {"ready": {"batch": 10, "columns": None, "window": 1, "state": None, "objects": False}}
HOLDS = {"hold": True}


@pytest.mark.slow
@pytest.mark.parametrize("state", ["new", "ready", "held"])
def test_every_line_of_a_program(world, connected, state):
    """To the driver: the feed ends at once, for all, with the program's name."""
    possible = {
        "new": {json.dumps(READY), json.dumps({"answers": True})},
        "ready": {json.dumps({"answers": True})},
        "held": {json.dumps(READY), json.dumps({"answers": True}), json.dumps({"holds": 0})},
    }[state]
    for each in [*map(json.dumps, PROGRAM_SAYS), *(GARBAGE if state == "new" else ())]:
        if each in possible:
            continue
        listener, address = fake_program(world)  # to the last one, its driver may come again
        again = World(world._folder)
        again.view = View(1, {"worker/0": address})
        try:
            feeding = Later(lambda w=again: w.feeder.feed(Data([40], connected)))
            line = accepted(again, listener)
            assert line.hear()["instance"] == "worker/0"
            if state == "ready":
                line.say(READY)
            elif state == "held":
                line.say({"stop": True})
                assert line.hear() == HOLDS
            send(line, GARBAGE.get(each, each.encode() + b"\n"))
            with pytest.raises(FeedError, match="the driver has got from worker/0 "):
                assert feeding.result, each
            told = line.hear()
            while "error" not in told:
                told = line.hear()
            assert "the driver has got from worker/0" in told["error"]
            line.close()
            assert again.feeder._state.live is False
        finally:
            again.close()
            listener.close()


def allowed(state: str, line: Mapping[str, Any]) -> bool:
    """Whether a program gets this line from its driver in this state."""
    return "unasked" in line and state != "unasked"


DRIVER_STATES: dict[str, list[Mapping[str, Any]]] = {
    "new": [],
    "told": [FEATURES],
    "held": [FEATURES, HOLDS],
    "over": [FEATURES, {"batches": 0, "rest": 0, "over": True}],
    "unasked": [{"unasked": True}],
}
NEXT = {
    "told": (FEATURES,),
    "held": (HOLDS,),
    "over": ({"batches": 1, "rest": 0, "over": False}, {"batches": 0, "rest": 0, "over": False}),
    "unasked": ({"unasked": True},),
}


@pytest.mark.parametrize("state", DRIVER_STATES)
def test_every_line_of_a_driver(world, tmp_path, state):
    """To a program: its iterator ends with an error, and the driver hears why."""
    more = GARBAGE if state == "new" else ()
    lines = [*map(json.dumps, (*DRIVER_SAYS, *NEXT.get(state, ()))), *more]
    for each in lines:
        program = Program(world.credentials, tmp_path)
        reading = Later(lambda p=program: list(p.feed.batches(10)))
        line = hostile(world, program.address, HELLO)
        assert line.hear() == READY
        for before in DRIVER_STATES[state]:
            line.say(dict(before))
        if state == "held":
            assert line.hear() == {"holds": 0}
        send(line, GARBAGE.get(each, each.encode() + b"\n"))
        heard = line.hear()
        while "failed" not in heard:
            heard = line.hear()
        assert "worker/0 has got from the driver of the feed" in heard["failed"], each
        if state == "over":
            assert reading.result == []
        else:
            with pytest.raises(FeedError, match="worker/0 has got from the driver of the feed"):
                assert reading.result
        line.close()
        program.end()


HELLO = {
    "role": "ledger",
    "feed": 1,
    "generation": 1,
    "worker": 0,
    "seed": 2,
    "instance": "worker/0",
}


def rows(count: int, name: str = "id") -> list[pa.Buffer]:
    return list(serialized(pa.record_batch([pa.array(range(count))], names=[name])))


def test_every_line_of_a_task_to_a_program(world, connected):
    """Before and after a driver has come. What it takes then are the rows of the driver alone."""
    one, other = programs = world.begin()
    addresses = [each.address for each in programs]
    bad = [*PIECE]
    taking = [Later(lambda p=p: ids(p)) for p in programs]
    state = world.feeder._state
    feeding = Later(lambda: world.feeder.feed(Data([40, 40], connected), final=False))
    assert feeding.result.stopped is False
    for role in ("rows", "questions"):
        for key in (*bad, "size"):
            line = hostile(world, addresses[0], {"role": role})
            head = {**PIECE, "size": 0, key: "x"}
            line.say(head)
            assert line.hear()["error"].startswith("worker/0 has got "), (role, key)
            line.close()
        for name, line_bytes in GARBAGE.items():
            line = hostile(world, addresses[0], {"role": role})
            send(line, line_bytes)
            assert line.hear()["error"].startswith("worker/0 has got "), (role, name)
            line.close()
        for what, stream in (
            ({**PIECE, "rows": 2}, rows(1)),
            (PIECE, rows(1, "label")),
            (PIECE, [b"no rows"]),
            ({**PIECE, "part": [0, 99]}, rows(1)),
        ):
            line = hostile(world, addresses[0], {"role": role})
            line.send(what, stream)
            answer = line.hear()
            refused = answer.get("ok") is False or answer["error"].startswith("worker/0 has got ")
            assert refused, (role, what, answer)
            line.close()
    for hello in ({"role": "king"}, {"role": "ledger"}, {**HELLO, "seed": "x"}):
        line = hostile(world, addresses[1], hello)
        assert line.hear()["error"].startswith("worker/1 has got ")
        line.close()
    line = hostile(world, addresses[1], HELLO)
    assert line.hear() == {"failed": "worker/1 has a driver already"}
    line.close()
    assert state.live
    assert world.feeder.end().rows == 80
    assert sorted(taking[0].result + taking[1].result) == list(range(80))


class TestCalls:
    """Those of a program, and of the driver's user."""

    def test_a_dataset_that_is_made_twice_and_read_once(self, world, connected):
        """`feed.dataset(64).element_spec`, and then `fit(feed.dataset(64))`."""
        world.feeder._state.ledger._capacity = 800
        one, other = world.begin()

        def take(program: Program) -> list[int]:
            program.feed.batches(10)
            program.feed.batches(10)
            found = ids(program)
            with pytest.raises(ProgramError, match="the feed is being read already"):
                program.feed.batches(10)
            return found

        taking = [Later(lambda p=p: take(p)) for p in (one, other)]
        assert world.feeder.feed(Data([4000, 4000], connected))[:4] == (8000, 400, 0, 0)
        assert sorted(taking[0].result + taking[1].result) == list(range(8000))

    def test_a_dataset_while_another_is_read(self, world, connected):
        one, other = world.begin()
        taking = Later(lambda: ids(other))

        def take() -> list[int]:
            batches = one.feed.batches(10)
            found = next(batches)["id"].tolist()
            for again in (lambda: one.feed.batches(10), lambda: one.feed.batches(20)):
                with pytest.raises(ProgramError, match=r"being read already|asked for \(10"):
                    again()
            with pytest.raises(ProgramError, match="and now for rows one by one"):
                one.feed.next(10)
            with pytest.raises(ProgramError, match="the feed was begun already"):
                one.feed.restore((1, 1, 1))
            return found + [each for batch in batches for each in batch["id"].tolist()]

        mine = Later(take)
        assert world.feeder.feed(Data([400], connected)).rows == 400
        assert sorted(mine.result + taking.result) == list(range(400))

    def test_the_end_while_three_passes_are_fed(self, world, connected):
        """Its data is fed all the same, and no other."""
        taking = [Later(lambda p=p: ids(p)) for p in world.begin()]
        go_on = threading.Event()

        class Held(Data):
            def run(self, *args: Any) -> None:
                go_on.wait(120)
                super().run(*args)

        feeding = Later(lambda: world.feeder.feed(Held([400], connected), 3, final=False))
        wait_for(lambda: world.feeder._state.begun == 0 and world.feeder._state.data == 1)
        world.feeder.end(wait=False)
        ending = Later(world.feeder.end)
        with pytest.raises(FeedError, match=r"the feed was ended: no data .* after end_feed\(\)"):
            world.feeder.feed(Data([400], connected))
        go_on.set()
        assert feeding.result.dropped == 0
        assert ending.result[:4] == (1200, 60, 0, 0)
        assert sorted(taking[0].result + taking[1].result) == sorted([*range(400)] * 3)
        wait_for(lambda: world.feeder.end().consumed == 1200)

    def test_data_after_the_last(self, world, connected):
        taking = [Later(lambda p=p: ids(p)) for p in world.begin()]
        assert world.feeder.feed(Data([40], connected)).rows == 40
        with pytest.raises(FeedError, match="ended with data that was final: give final=False"):
            world.feeder.feed(Data([40], connected))
        assert sorted(taking[0].result + taking[1].result) == list(range(40))

    def test_a_stop_before_all_programs_have_come(self, world, connected):
        one, other = world.begin()
        late = other.receiver._listener
        stopping = Later(one.feed.stop)
        feeding = Later(lambda: world.feeder.feed(Data([40], connected)))
        assert late.fileno() > 0
        assert Later(lambda: ids(other)).result == []
        assert stopping.result is None
        assert feeding.result == (0, 0, 0, 0, True, 0)


def test_a_long_line_travels_in_pieces(world, connected, monkeypatch):
    """The answer to a task's first line lists the rows that a shuffle window lacks."""
    monkeypatch.setattr(wire, "MAX_LINE", 100)
    programs = world.begin()
    taking = [
        Later(lambda p=p: next(p.feed.batches(10, shuffle=100))["id"].tolist()) for p in programs
    ]
    feeding = Later(lambda: world.feeder.feed(Data([400], connected)))
    before = [each.result for each in taking]
    states = [program.feed.state(1) for program in programs]
    for program in programs:
        program.end()
    again = world.begin()
    for program, state in zip(again, states):
        program.feed.restore(state)
    taking = [Later(lambda p=p: ids(p)) for p in again]
    assert (feeding.result.lost, feeding.result.dropped) == (0, 0)
    assert sorted(itertools.chain(*before, *(each.result for each in taking))) == list(range(400))


def test_a_reason_of_any_length_reaches_both_sides(world, connected):
    words = "bad " * MAX_LINE

    class Bad(Data):
        def batches(self, part: int) -> Any:
            yield from super().batches(part)
            raise FeedError(words)

    taking = [Later(lambda p=p: ids(p)) for p in world.begin()]
    with pytest.raises(FeedError, match="^" + words[:4000]):
        world.feeder.feed(Bad([40], connected))
    for each in taking:
        with pytest.raises(FeedError, match="the feed has failed: bad bad"):
            assert each.result
