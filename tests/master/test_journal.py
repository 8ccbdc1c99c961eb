"""What a master has written down is what it was, wherever its life ends."""

import contextlib
import dataclasses
import random
import time

import pytest

from tfapp.contract.names import KEY_BACK, KEY_LEAVES
from tfapp.contract.status import ApplicationStatus
from tfapp.engines.credentials import new_credentials
from tfapp.master import journal as journals
from tfapp.master.journal import DamagedJournalError, Journal, Kept, Memory, replay
from tfapp.master.lifecycle import FAILED, SUCCEEDED
from tfapp.master.server import Endpoint, Master, ServedApplication
from tfapp.master.service import Page
from tfapp.master.store import Delete, Get, KeyRange, Owner, RequestError, StorePut
from tfapp.protocol.definition import messages

ENDPOINT = Endpoint("127.0.0.1", "127.0.0.1", *new_credentials(time.time()))
ACCEPTED = ApplicationStatus("a", "ACCEPTED", 1, 0.0, 0.0, ())
HISTORIES, STEPS = 40, 30


class Loop:
    """In place of an event loop, for what is only asked for later."""

    def create_future(self):
        return Future()


class Future:
    result = None

    def done(self):
        return self.result is not None

    def set_result(self, result):
        self.result = result


class Launcher:
    def __init__(self):
        self.gone = set()

    def knows(self, id):
        return id not in self.gone

    def noted(self, id):
        self.gone.add(id)

    async def kill(self, id):
        pass


@pytest.fixture
def master(monkeypatch):
    """Makes masters whose containers do nothing by themselves."""
    monkeypatch.setattr("asyncio.get_running_loop", Loop)
    monkeypatch.setattr("asyncio.events.get_event_loop", Loop)  # of asyncio.Event in Python 3.9
    monkeypatch.setattr("tfapp.master.server.Master._background", lambda _, work: work.close())

    def make(path, kept=None):
        resources = messages.Resources(memory=1, vcores=1)
        u = messages.Service(instances=2, resources=resources, script="x", max_restarts=3)
        w = messages.Service(resources=resources, script="x", depends=["u"], allow_failures=True)
        spec = messages.ApplicationSpec(
            services={"u": u, "w": w}, master=messages.Master(script="x", resources=resources)
        )
        served = ServedApplication("application_1_0001", "me", spec.SerializeToString(), ACCEPTED)
        launcher = Launcher()
        if path in journals_of:
            journals_of[path].close()  # its master is dead
        journals_of[path] = Journal(path, kept.table if kept else {})
        memory = Memory(journals_of[path], kept, launcher)
        return Master(served, ENDPOINT, launcher, None, time.time, memory)

    journals_of = {}
    yield make
    for journal in journals_of.values():
        journal.close()


def portrait(master):
    """All that the next master has to know."""
    lifecycle = master._lifecycle
    return {
        "store": [e for e in master._store.apply(Get(KeyRange())) if e.key != KEY_BACK],
        "owned": {str(owner): keys for owner, keys in master._store._owned.items() if keys},
        "containers": [dataclasses.asdict(c) for c in lifecycle.all()],
        "counted": lifecycle.counted(),
        "pages": master._pages.all(),
        "next": 1 + max(int(c.engine_id[-6:]) for c in lifecycle.all() if c.engine_id),
        "end": master._ended.result,
        "started": master._started,
    }


def step(master, dice):
    """What a client, a launcher or a coordinator may do to a master."""
    lifecycle, store = master._lifecycle, master._store
    container = dice.choice(lifecycle.all())
    key = dice.choice("abcdefg") + dice.choice(["", "\u00e9", "\U0001f600"])
    actions = (
        lambda: store.apply(StorePut(key, dice.randbytes(dice.randrange(40)))),
        lambda: store.apply(StorePut(key, b"own", Owner(container.service, container.instance))),
        lambda: store.apply(StorePut(key, keep_value=True)),
        lambda: store.apply(Delete(KeyRange(key, dice.choice(["", key + "\0", "e"])))),
        lambda: lifecycle.add(dice.choice("uw"), {"N": "1"}),
        lambda: lifecycle.scale(dice.choice("uw"), 0, dice.choice([-1, 2])),
        lambda: lifecycle.kill(Owner(container.service, container.instance)),
        lambda: lifecycle.granted(container, "here"),
        lambda: lifecycle.granted(container, "here"),
        lambda: lifecycle.finished(container, dice.choice([FAILED, SUCCEEDED]), "so"),
        lambda: master._pages.add(Page(key, "http://here/")),
        lambda: master._pages.remove(key),
        lambda: master.end("KILLED", "enough") if dice.random() < 0.05 else None,
    )
    with contextlib.suppress(RequestError):
        dice.choice(actions)()
    master._commit()


def test_a_death_after_any_record(master, tmp_path, monkeypatch):
    monkeypatch.setattr(journals, "COMPACT", 4000)
    for seed in range(HISTORIES):
        dice = random.Random(seed)
        live = master(tmp_path / "journal")
        live._lifecycle.start()
        live._started = True
        live._put("master", "started", True)
        live._commit()
        for _ in range(STEPS):
            step(live, dice)
            data = (tmp_path / "journal").read_bytes()
            torn = data + data[-dice.randrange(1, 40) : -1].rpartition(b"\n")[2]
            after = master(tmp_path / "other", Kept.of(replay(torn)))
            assert portrait(after) == portrait(live), (seed, torn)
            again = master(tmp_path / "other", Kept.of(replay((tmp_path / "other").read_bytes())))
            assert portrait(again) == portrait(live)
            if dice.random() < 0.1:  # it is the one that lives on
                (tmp_path / "journal").write_bytes(torn)
                live = master(tmp_path / "journal", Kept.of(replay(torn)))


def test_the_next_one_does_not_leave(master, tmp_path):
    """Else its coordinator would decide nothing, if it had not heard of it before."""
    path, said = tmp_path / "journal", Get(KeyRange(KEY_LEAVES, KEY_LEAVES + "\0"))
    first = master(path)
    first.leaves()
    assert first._store.apply(said)
    for _ in range(2):
        assert not master(path, Kept.of(replay(path.read_bytes())))._store.apply(said)


def test_a_batch_holds_as_a_whole_or_not_at_all(tmp_path):
    journal = Journal(tmp_path / "journal", {})
    journal.put("store", "a", 1)
    journal.put("store", "b", 2)
    assert replay((tmp_path / "journal").read_bytes()) == {}
    journal.commit()
    data = (tmp_path / "journal").read_bytes()
    assert replay(data) == {("store", "a"): 1, ("store", "b"): 2}
    assert replay(data[:-1]) == {}
    assert (tmp_path / "journal").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("data", [b"", b"words\n", b"00000000 []\n", b'35b8a6a7 [["a"]]\n'])
def test_what_is_no_journal(data):
    with pytest.raises(DamagedJournalError):
        Kept.of(replay(data))


def test_one_that_cannot_be_written_any_more_is_none(tmp_path, monkeypatch, caplog):
    path = tmp_path / "journal"
    journal = Journal(path, {("master", "attempt"): 1})
    monkeypatch.setattr("os.write", lambda file, data: len(data) - 1)
    for value in (1, 2):
        journal.put("store", "a", value)
        journal.commit()
    assert not path.exists()
    assert "another master starts anew: it has no room" in caplog.text
