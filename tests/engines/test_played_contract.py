"""The contract of all engines on clusters in memory, as far as it needs no containers. Their
masters speak the real protocol, and end by themselves where every script of an application would.
"""

import threading

import pytest

from tests.clusters.kubernetes.packaged import PackagingEngine
from tests.engines import test_contract as contract
from tests.engines.applications import compiled, service
from tests.engines.kubernetes.played_kubernetes import PlayedKubernetes
from tests.engines.yarn.file_system import FileSystem
from tests.engines.yarn.played_yarn import PlayedYarn
from tfapp.contract.status import Verdict, format_diagnostics
from tfapp.engines.yarn.engine import YarnEngine
from tfapp.engines.yarn.run import YarnRun

STOPPED = Verdict("KILLED", 66, "Stopped on request.")
GRACEFUL = "a coordinator that ends it when it is asked to"
SHORT = 0.2  # seconds that a program runs which ends by itself

test_preparing_makes_nothing = contract.test_preparing_makes_nothing
test_create_and_find = contract.test_create_and_find
test_follow_ends = contract.test_follow_sees_every_state_and_ends_with_the_verdict
test_stop_with_grace_twice_at_once = contract.test_stop_with_grace_twice_at_once
test_stop_waits = contract.test_stop_waits_no_longer_than_the_application_gives
test_stop_of_one_that_does_not_listen = contract.test_stop_of_one_that_does_not_listen
test_list_is_newest_first = contract.test_list_is_newest_first
test_names_are_taken_until_destroyed = contract.test_names_are_taken_until_destroyed
test_files = contract.test_what_only_a_destroyed_application_was_made_of_is_deleted
test_all_masters_are_asked_at_once = contract.test_all_masters_are_asked_at_the_same_time
test_of_many_that_create_one_wins = contract.test_of_many_that_create_one_wins
test_unknown_name = contract.test_unknown_name


def test_runs_are_numbered_and_kept(engine):
    contract.two_runs(engine, compiled(w=service("exit 0")))


@pytest.fixture(params=["yarn", "kubernetes"])
def engine(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.fixture
def yarn(home, tmp_path, monkeypatch):
    played = PlayedYarn(begun=play)
    monkeypatch.setattr("tfapp.engines.yarn.cluster.open_driver", played.open_driver)
    monkeypatch.setattr(YarnRun, "wait_every", 0.01)
    files = FileSystem(tmp_path)
    (tmp_path / "system").write_text("file:///")
    yield YarnEngine(home, files.environ, user="ann")
    played.close()


@pytest.fixture
def kubernetes(home):
    played = PlayedKubernetes(play)
    engine = PackagingEngine(home, {})
    engine.__dict__["_cluster"] = played
    yield engine
    played.close()


@pytest.fixture
def graceful():
    return compiled(master=GRACEFUL, w=service())


def play(master, spec):
    """What the scripts of an application do."""
    if spec["master"]["script"] == GRACEFUL:
        ended = format_diagnostics(contract.status("KILLED", STOPPED))
        master.on_stop = lambda: master._end("KILLED", ended)
        master.publish(contract.status("RUNNING"))
    scripts = {part["script"] for part in (spec["master"], *spec["services"].values())}
    if scripts <= {"", "exit 0"}:
        threading.Timer(SHORT, master._end, ("SUCCEEDED", "")).start()
