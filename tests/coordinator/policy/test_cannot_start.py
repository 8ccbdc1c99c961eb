"""Containers in which the runner does not start."""

from tests.contract_values import make_failure_policy
from tests.coordinator.world import World, job

BARE = "there is no Python interpreter /opt/x (site.global.python.executable)"
LOG = f"bash: line 5: something\ntfapp: cannot start: {BARE}\n"


def told(world: World) -> str:
    verdict = world.state.verdict
    return verdict.summary if verdict else ""


def test_a_node_without_the_interpreter_ends_the_application():
    world = World(job("worker=2"))
    world.logs["worker/1"] = LOG
    world.play("1 worker/0 answers\n1 worker/1 lost\n60")
    assert told(world) == f"Failed: worker/1 could not be started in generation 1: {BARE}."
    assert world.log[-1].endswith("shutdown")


def test_later_it_is_a_failure_like_others():
    """Nodes differ: another container may come to lie on one that has the interpreter."""
    world = World(job("worker=2", failure=make_failure_policy()))
    world.logs["worker/1"] = LOG
    world.play(
        "1 all answer\n30 worker/1 lost\n31 worker/1 lost\n40 all answer\n"
        "60 worker/0 exits 0\n60 worker/1 exits 0\n70"
    )
    assert told(world).startswith("Succeeded: ")
    assert any(BARE in moment.text for moment in world.state.timeline)


def test_an_interpreter_that_breaks_off_has_the_last_word():
    world = World(job("worker=1"))
    world.logs["worker/0"] = "python: error while loading shared libraries: libpython3.so\n\n"
    world.play("1 worker/0 lost\n60")
    assert told(world) == (
        "Failed: worker/0 was lost in generation 1: its container ended without a report: python: "
        "error while loading shared libraries: libpython3.so."
    )


def test_a_runner_that_was_heard_of_is_not_asked_for_its_log():
    """It may hold what the program wrote, and that may be a secret."""
    world = World(job("worker=1"))
    world.logs["worker/0"] = "password 1234\n"
    world.play("1 all answer\n30 worker/0 lost\n60")
    assert "password" not in repr(world.state)
