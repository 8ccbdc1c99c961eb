"""The witness, played, and what a runner makes of its answers."""

import time

import pytest

from tests.engines.kubernetes.api_server import ApiServer
from tests.waiting import wait
from tfapp.errors import UnreachableError
from tfapp.runner.heartbeat import Heartbeat
from tfapp.runner.witness import DOUBT_EVERY, PROOF, ReplacedError, Witness
from tfapp.standalone.bootstrap import ask_witness

ID = "container_1_0001_01_000002"
WITNESS = "ConfigMap/tfapp-a.witness"


@pytest.fixture
def server(tmp_path):
    with ApiServer("test").running(tmp_path) as running:
        data = {"containers": "container_1_0001_01", "address": "old:1", "files": "old:2"}
        running.put(WITNESS, {"metadata": {"name": "tfapp-a.witness"}, "data": data})
        yield running


def renew(server, **changes):
    known = server.objects[WITNESS]
    server.put(WITNESS, {**known, "data": {**known["data"], **changes}})


@pytest.fixture
def clock():
    return [100.0]


@pytest.fixture
def moved():
    return []


@pytest.fixture
def witness(server, clock, moved):
    environ = {**server.environ, "TFAPP_WITNESS": "300 tfapp-a.witness"}

    def ask():
        return ask_witness(ID, environ, folder=str(server.account))

    return Witness(ask, 300.0, "old:1", moved.append, lambda: clock[0])


def test_a_master_that_renews_it_is_not_lost(server, witness, clock):
    """Then the runner is cut off from it."""
    assert witness.speaks() is None
    clock[0] += PROOF - 1
    assert witness.speaks() is None
    renew(server, renewed="2")
    clock[0] += PROOF
    assert witness.speaks() is None
    clock[0] += PROOF
    assert witness.speaks() is True


def test_an_answer_that_was_long_on_its_way(witness, clock):
    """Who lives may have renewed it meanwhile."""
    ask, late = witness._ask, [0.0]

    def slowly():
        said = ask()
        clock[0] += late[0]
        return said

    witness._ask = slowly
    assert witness.speaks() is None
    clock[0], late[0] = clock[0] + PROOF - 1, 2.0
    assert witness.speaks() is None
    assert witness.speaks() is True


def test_the_next_master_is_somewhere_else(server, witness, clock, moved):
    """That it is there is no reason to live on without having reached it."""
    witness.speaks()
    clock[0] += PROOF
    assert witness.speaks() is True
    renew(server, address="new:1")
    assert (witness.speaks(), moved) == (False, ["new:1"])
    assert witness.speaks() is None


def test_the_next_master_begins_anew(server, witness):
    renew(server, containers="container_1_0001_02", address="")
    with pytest.raises(ReplacedError):
        witness.speaks()


@pytest.mark.parametrize("how", ["away", "forbidden", "gone", "damaged", "no token"])
def test_nobody_answers(server, witness, clock, how):
    witness.speaks()
    clock[0] += PROOF
    if how == "away":
        server.go(away=True)
    elif how == "forbidden":
        server.forbidden = 1
    elif how == "gone":
        server.drop(WITNESS)
    elif how == "damaged":
        server.put(WITNESS, {"metadata": {}, "data": {}})
    else:
        (server.account / "token").unlink()
    assert witness.speaks() is False


def test_a_master_that_knew_more_than_the_next_one_will(witness, clock):
    witness.speaks()
    clock[0] += PROOF
    witness.counts = False
    assert witness.speaks() is False


@pytest.mark.parametrize("now", [{"address": "new:1"}, {"containers": "container_1_0001_02"}])
def test_a_master_that_answers_although_another_one_has_its_place(server, witness, clock, now):
    """The API server does not hear it any more. That one tells its runners."""
    ends = []
    heartbeat = Heartbeat(lambda state: None, ends.append, 0.01, 60.0, witness=witness)
    heartbeat.start("runs")
    renew(server, **now)
    clock[0] += DOUBT_EVERY
    witness.counts = False
    wait(lambda: ends, "no end", 60, every=0.01)
    heartbeat.close(10)
    assert ends == ["another master has the place of this one, which does not know it"]


def test_whom_nobody_has_replaced_is_believed(server, witness, clock):
    """Also while nobody can be asked. It is asked now and then only."""
    before = len(server.requests)
    witness.check()
    assert len(server.requests) == before, "the copy of what it knows is complete"
    witness.counts = False
    witness.check()
    witness.check()
    assert len(server.requests) == before + 1
    clock[0] += DOUBT_EVERY
    renew(server, address="")  # of the next one, which does not serve yet
    witness.check()
    clock[0] += DOUBT_EVERY
    server.go(away=True)
    witness.check()


class Played:
    """Answers in this order, the last one for ever."""

    def __init__(self, *answers, limit=60.0):
        self.answers, self.limit = list(answers), limit

    def speaks(self):
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:
            raise ReplacedError("another one has begun anew")
        return answer


@pytest.mark.parametrize(
    ("witness", "said"),
    [
        (Played(False), "the master has not answered for 0.3 s. no connection"),
        (Played(None), "another one has begun anew"),
        (Played(True, True, False), "the master has not answered for 0.3 s. no connection"),
        (Played(True, limit=0.5), "the master has not answered for 0.3 s. no connection"),
    ],
)
def test_how_long_a_runner_lives_without_its_master(witness, said):
    ends = []

    def beat(state):
        time.sleep(0.05)
        raise UnreachableError("no connection")

    heartbeat = Heartbeat(beat, ends.append, 0.1, 0.3, witness=witness)
    heartbeat.start("runs")
    wait(lambda: ends, "no end", 60, every=0.01)
    heartbeat.close(10)
    assert ends == [said]
    assert not witness.answers[1:]
