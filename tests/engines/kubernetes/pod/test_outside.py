"""What outlives a master's pod, with an API server in memory, which is away now and then, and
masters that end, or hang and come back, at any moment."""

import asyncio
import contextlib
import itertools
import random
from types import SimpleNamespace

import pytest

from tests.engines.kubernetes.api_server import Answer, ApiServer
from tfapp.contract.job import Limits
from tfapp.contract.names import BEAT_PREFIX
from tfapp.engines.kubernetes.pod import outside as module
from tfapp.engines.kubernetes.pod.api import Api
from tfapp.engines.kubernetes.pod.failures import AwayError
from tfapp.engines.kubernetes.pod.outside import Outside, table_of
from tfapp.errors import TfappError
from tfapp.master.launcher import SupersededError
from tfapp.runner.witness import Witness

OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "tfapp-a", "uid": "u"}
LIMITS = Limits(600.0, 0.0, 0.0, 30.0)
JOURNAL, WITNESS = "ConfigMap/tfapp-a.journal", "ConfigMap/tfapp-a.witness"


@pytest.fixture
def server():
    return ApiServer()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(module, "AWAY_LIMIT", 0.02)
    monkeypatch.setattr(module, "LAZY", 0.01)
    monkeypatch.setattr(module, "pauses", lambda: itertools.repeat(0.002))


def made(server, run=1):
    """One that needs no event loop later: asyncio of Python 3.9 makes an Event for the present one
    alone."""

    async def make():
        return Master(server, run)

    return asyncio.run(make())


class Master:
    """Of one epoch. `kept`: the values of which somebody was told. `whole`: whether all that it
    tells is outside."""

    def __init__(self, server, run=1):
        api = Api(server, server.namespace)
        api.patience = 0.0
        self.outside = Outside(api, "a", run, OWNER)
        self.outside.told = self.told
        self.table, self.kept, self.whole = {}, {}, True
        self.tasks = []

    def claims(self):
        """What another one has left."""
        left = self.outside.claim(1)
        self.table = table_of(left) if left else {}
        return self

    def begins(self):
        self.tasks = [asyncio.ensure_future(self.outside.keep())]
        return self

    def told(self, complete):
        self.whole = complete

    async def puts(self, name, value):
        """Returns once it may be told."""
        self.table["store", name] = value
        done = self.outside.changed(dict(self.table), {("store", name): value})
        if done is not None:
            await asyncio.shield(done)
        self.kept["store", name] = value

    async def acts(self, name, value):
        """As before a pod is made, or ended."""
        await self.puts(name, value)
        await asyncio.to_thread(self.outside.check)

    async def dies(self):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


def test_nothing_that_was_told_is_lost_and_no_two_masters_act(server):
    """In random histories. The next master knows all that one has told, but for what it has told
    after it had told runners that they must not follow; and one that has lost its place is never
    told that it may act, also if it waits for no write because there was no API server."""
    chance = random.Random(7)
    acted, refusals = [], set()

    async def history(number):
        known, hung = {}, []
        for epoch in range(1, 5):
            master = Master(server, run=number).claims()
            assert master.outside.epoch == epoch
            assert known.items() <= master.table.items()
            master.begins()
            for step in range(chance.randrange(6)):
                if chance.random() < 0.2:
                    server.go(away=not server.away)
                puts = [master.puts(f"k{chance.randrange(3)}", f"{epoch} {step}")]
                if hung and chance.random() < 0.5:
                    puts.append(hung[-1].acts("k0", "stale"))
                found = await asyncio.wait_for(asyncio.gather(*puts, return_exceptions=True), 60)
                assert found[0] is None
                acted.append(server.away)
                for refused in found[1:]:
                    assert isinstance(refused, (SupersededError, AwayError))
                    refusals.add((type(refused), hung[-1].whole))
            server.go(away=False)
            # What was told while it could not be kept is told to nobody who lives.
            known = dict(master.kept) if master.whole else {}
            if chance.random() < 0.5:
                hung.append(master)
            else:
                await master.dies()
        last = Master(server, run=number).claims().table
        for master in hung:
            await asyncio.gather(master.puts("k1", "stale"), return_exceptions=True)
            await master.dies()
        assert "stale" not in last.values()
        assert Master(server, run=number).claims().table == last

    for number in range(1, 41):
        asyncio.run(history(number))
    assert set(acted) == {True, False}
    assert {(SupersededError, True), (SupersededError, False), (AwayError, False)} <= refusals


def test_one_that_was_stopped_looks_before_it_acts(server, monkeypatch):
    """Its last write is old. In the first seconds nobody asks for each pod."""
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])

    async def story():
        first = Master(server).claims()
        before = len(server.requests)
        await asyncio.to_thread(first.outside.check)
        assert len(server.requests) == before
        now[0] += 2 * module.RENEW
        await asyncio.to_thread(first.outside.check)
        assert len(server.requests) == before + 1
        Master(server).claims()
        now[0] += 2 * module.RENEW
        left = []
        first.outside.superseded = lambda: left.append(1)
        with pytest.raises(SupersededError):
            await asyncio.to_thread(first.outside.check)
        await asyncio.sleep(0)
        return left

    assert asyncio.run(story()) == [1]


def test_one_that_still_renews_the_witness_of_another_looks_before_it_acts(server, monkeypatch):
    """Who claims the run has the witness later than the copy."""
    now = [0.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))

    async def story():
        first = Master(server).claims()
        Master(server).claims()
        now[0] += 2 * module.RENEW
        first.outside.testify("container_1_0001_01", "old:1", "old:2")
        with pytest.raises(SupersededError):
            await asyncio.to_thread(first.outside.check)

    asyncio.run(story())


class CutOff:
    """A runner that cannot reach its master, from `now` on, and asks the witness of it, whose
    answers take a while. Times are those of a clock that `tick` shows it."""

    def __init__(self, server, chance, now):
        self.server, self.chance = server, chance
        self.now, self.heard = now, now
        self.asked = self.answered = now
        self.seen = [(now, self.look())]
        self.ended = False
        self.witness = Witness(self.answer, LIMITS.master, "m:1", None, lambda: self.asked)

    def look(self):
        return self.server.objects[WITNESS]["metadata"]["resourceVersion"]

    def answer(self):
        """As it was at a moment on the way."""
        moment = self.chance.uniform(self.asked, self.answered)
        version = [version for time, version in self.seen if time <= moment][-1]
        self.asked = self.answered
        return {"may_live": True, "address": "m:1", "version": version}

    def tick(self, now):
        self.now = now
        if self.look() != self.seen[-1][1]:
            self.seen.append((now, self.look()))
        if now >= self.answered and not self.ended:
            asked = self.asked
            if asked < LIMITS.master and self.witness.speaks():
                self.heard = asked
            self.asked, self.answered = now, now + self.chance.choice([0.5, 2.0, 4.5])
        self.ended = self.ended or now >= self.heard + LIMITS.heartbeat_lost


def test_no_program_lives_by_the_witness_once_its_instance_may_begin_again(server, monkeypatch):
    """In random histories of a master that lives, and a runner that is cut off from it, while
    writes of the witness are slow, are refused, or are as they should be."""
    now = [0.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    silence = LIMITS.heartbeat_lost + 2 * LIMITS.heartbeat  # see `fenced` of the coordinator's
    longest, waited = [], []

    def history(number):
        chance = random.Random(number)
        now[0] = 0.0
        master = made(server, run=number).claims()
        master.outside.testify("container_1_0001_01", "m:1", "m:2")
        runner = CutOff(server, chance, now[0])
        begins = []  # when the next program of the instance may

        def passes(seconds):
            for _ in range(round(2 * seconds)):
                now[0] += 0.5
                runner.tick(now[0])
                may = now[0] >= max(silence, master.outside.lives_until(LIMITS, silence))
                if may and not begins:
                    begins.append(now[0])
                    assert runner.ended, (number, now[0], runner.heard)

        send = server.send

        def slow(call, silence):
            before, after = delays if call.asked.verb == "patch" else (0.0, 0.0)
            passes(before)
            answer = send(call, silence)
            passes(after)
            return answer

        monkeypatch.setattr(server, "send", slow)
        while not begins:
            way = chance.choice(["good", "good", "slow", "refused"])
            delays = [chance.choice([0.0, 2.0, 6.0, 9.0]) if way == "slow" else 0.0 for _ in "12"]
            for _ in range(chance.randrange(1, 9)):
                if way == "refused":
                    server.forbidden = 1
                with contextlib.suppress(TfappError):
                    master.outside.testify("container_1_0001_01", "m:1", "m:2")
                passes(module.RENEW)
        monkeypatch.setattr(server, "send", send)
        longest.append(runner.heard + LIMITS.heartbeat_lost)
        waited.append(begins[0])

    for number in range(1, 401):
        history(number)
    assert max(longest) > silence, "else there was nothing to wait for"
    assert min(waited) == silence, "with a witness that is renewed nobody waits"
    assert max(waited) <= silence + LIMITS.master + LIMITS.heartbeat_lost


def test_of_two_that_begin_at_once_one_leaves(server):
    first, second = made(server).claims(), made(server).claims()
    assert (first.outside.epoch, second.outside.epoch) == (1, 2)
    second.outside.testify("container_1_0001_02", "new:1", "new:2")
    with pytest.raises(SupersededError):
        first.outside.testify("container_1_0001_01", "old:1", "old:2")
    assert server.objects[WITNESS]["data"]["address"] == "new:1"


def test_the_next_run_begins_with_nothing(server):
    async def story():
        master = Master(server).claims().begins()
        await master.puts("k", "x")
        await master.dies()
        return Master(server, run=2).outside.claim(1)

    assert asyncio.run(story()) == b""
    assert made(server, run=2).outside.claim(1) == b""  # the next one finds nothing either
    with pytest.raises(SupersededError):
        made(server, run=1).outside.claim(1)


def test_heartbeats_wait_for_nothing(server):
    async def story():
        master = Master(server).claims()
        assert await master.puts(f"{BEAT_PREFIX}w/0", "1") is None
        master.begins()
        await master.puts("k", "x")
        await master.dies()

    asyncio.run(story())


def test_a_journal_that_is_too_large(server, monkeypatch):
    """Nobody waits for it, and runners are told."""
    monkeypatch.setattr(module, "MAX_SIZE", 10)

    async def story():
        master = Master(server).claims().begins()
        await master.puts("k", "x")
        await master.dies()
        return master.whole

    assert asyncio.run(story()) is False


def test_it_may_not_be_made(server):
    server.refusals.append(Answer({"reason": "Forbidden", "message": "no"}, 403))
    with pytest.raises(TfappError, match="no"):
        made(server).claims()


def test_a_witness_is_renewed_until_another_master_has_it(server, monkeypatch):
    monkeypatch.setattr(module, "RENEW", 0.001)

    async def story():
        first = Master(server).claims()
        left = []
        first.outside.superseded = lambda: left.append(1)
        first.outside.testify("container_1_0001_01", "old:1", "old:2")
        renewing = asyncio.ensure_future(first.outside.renew())
        seen = set()
        while len(seen) < 3:
            seen.add(server.objects[WITNESS]["metadata"]["resourceVersion"])
            await asyncio.sleep(0.001)
        second = Master(server).claims()
        second.outside.testify("container_1_0001_01", "new:1", "new:2")
        await asyncio.wait_for(renewing, 60)
        return left

    assert asyncio.run(story()) == [1]
    assert server.objects[WITNESS]["data"]["address"] == "new:1"
