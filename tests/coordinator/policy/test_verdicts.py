import pytest

from tests.contract_values import make_docker
from tests.coordinator.world import World, job
from tfapp.contract.exit import Exit
from tfapp.contract.messages import Beat, ExitReport
from tfapp.contract.names import MAX_LAST_LINES
from tfapp.contract.status import MAX_DIAGNOSTICS_JSON, format_diagnostics, parse_diagnostics
from tfapp.coordinator.policy import events, verdicts
from tfapp.coordinator.publisher import status
from tfapp.frozen import replace

DURATIONS = {
    0.0: "0 s",
    0.04: "0 s",
    1.25: "1.2 s",
    9.0: "9 s",
    9.99: "10 s",
    12.3: "12 s",
    59.6: "1 min",
    60.0: "1 min",
    200.0: "3 min 20 s",
    3600.0: "1 h",
    7320.0: "2 h 2 min",
}


@pytest.mark.parametrize("seconds", DURATIONS)
def test_duration(seconds):
    assert verdicts.duration(seconds) == DURATIONS[seconds]


@pytest.mark.parametrize("character", ["x", "\x1b", "é", '"'])
def test_diagnostics_hold_the_verdict_whatever_a_program_wrote(character):
    world = World(job("worker=200")).play("1 all answer")
    exit = Exit(1, None, "exit", "exit code 1")
    lines = character * (MAX_LAST_LINES // len(character.encode())) + "\nthe last line"
    report = ExitReport(1, "worker/7", "worker_7", "h", exit, False, lines, 1.0)
    world.feed(events.Exited(1.0, report))
    world.advance(100)
    text = format_diagnostics(status(world.state, 0.0, 0.0))
    assert len(text.rpartition("\n")[2].encode()) <= MAX_DIAGNOSTICS_JSON
    found = parse_diagnostics(text)
    assert found is not None
    assert found.verdict is not None
    assert found.verdict.cause is not None
    assert found.verdict.cause.last_lines.endswith(f"{character}\nthe last line")


EXITS = {
    "was killed by SIGSEGV (11) in g": Exit(None, 11, "signal", "killed by SIGSEGV (11)"),
    "was killed for its memory in g": Exit(None, 9, "memory", "killed for its memory."),
    "ended with exit code 7 in g": Exit(7, None, "exit", "exit code 7"),
    "could not be started in g: no x": Exit(None, None, "start", "no x."),
    "failed in the package's script in g: y": Exit(None, None, "script", "y"),
    "was not started in g: too slow": Exit(None, None, "timeout", "too slow"),
    "was lost in g: gone": Exit(None, None, "lost", "gone"),
    "ended in g: z": Exit(None, None, "deadline", "z"),
}


@pytest.mark.parametrize("sentence", EXITS)
def test_every_kind_of_exit_has_its_sentence(sentence):
    assert verdicts._ending(EXITS[sentence], " in g") == sentence


def test_many_missing_instances_are_counted():
    limits = replace(job("worker=1").limits, gang=5.0)
    world = World(job("worker=13", limits=limits)).play("9")
    assert world.state.verdict is not None
    assert world.state.verdict.summary.endswith(
        "worker/9 (its container worker_9 runs on h, but its runner has not answered) and 3 more. "
        "The limit is site.global.gang.timeout."
    )


def test_who_is_still_pulling_an_image_is_named_with_the_limit_of_that():
    limits = replace(job("worker=1").limits, gang=600.0)
    plain = job("worker=2 ps=1", limits=limits)
    components = tuple(
        replace(c, docker=make_docker("mine:1", pull_timeout=1800.0)) for c in plain.components
    )
    world = World(replace(plain, components=components))
    world.begin()
    world.answer("ps/0")
    pulling = "pulling image mine:1: 1 of 2 layers, 30 of 120 MiB"
    beat = Beat(0, 1, "waiting", host="h1", preparing=pulling)
    world.feed(events.Beaten(599.0, "worker/1", beat))
    world.advance(700.0)
    assert world.state.verdict is not None
    assert world.state.verdict.summary == (
        "Timed out: not all instances were ready 10 min after generation 1 began. Missing: "
        "worker/0 (its container worker_0 runs on h, but its runner has not answered), worker/1 "
        f"(its container worker_1 on h1 is still {pulling}). The limit is "
        "site.global.gang.timeout. It includes the pull of an image, which has a limit of its "
        "own, site.global.docker.pull.timeout (30 min)."
    )


def test_why_a_container_has_not_begun_is_told_in_its_engines_words():
    limits = replace(job("worker=1").limits, gang=600.0)
    docker = make_docker("mine:1", pull_timeout=1800.0)  # no sentence on it: nothing is pulled
    plain = job("worker=3", limits=limits)
    components = tuple(replace(c, docker=docker) for c in plain.components)
    world = World(replace(plain, components=components))
    world.begin()
    world.answer("worker/0")
    waits = "waiting for a node: 0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
    world.feed(
        events.Waits(1.0, "worker/0", "worker_0", "not any more"),
        events.Waits(1.0, "worker/1", "worker_1", "waiting for its turn"),
        events.Waits(1.0, "worker/1", "worker_1", waits),
        events.Waits(1.0, "worker/1", "worker_7", "of another container"),
        events.Waits(1.0, "worker/2", "worker_2", waits),
        events.Waits(1.0, "worker/2", "worker_2", ""),
        events.Waits(1.0, "worker/9", "worker_9", "of nobody"),
    )
    assert [i.preparing for i in status(world.state, 0.0, 0.0).instances] == ["", waits, ""]
    world.advance(700.0)
    assert world.state.verdict is not None
    assert world.state.verdict.summary == (
        "Timed out: not all instances were ready 10 min after generation 1 began. Missing: "
        f"worker/1 (its container worker_1 on h is still {waits}), worker/2 (its container "
        "worker_2 runs on h, but its runner has not answered). The limit is "
        "site.global.gang.timeout."
    )


WHEREABOUTS = {
    "no container": ("", None),
    "container worker_0": ("worker_0", None),
    "its container worker_0 was requested and not granted": (
        "worker_0",
        events.ContainerInfo("REQUESTED"),
    ),
    "its container worker_0 runs on h, but its runner has not answered": (
        "worker_0",
        events.ContainerInfo("RUNNING", "h"),
    ),
    "its container worker_0 has ended: FAILED": (
        "worker_0",
        events.ContainerInfo("FAILED", "h", "x"),
    ),
}


@pytest.mark.parametrize("sentence", WHEREABOUTS)
def test_where_a_missing_instance_is(sentence):
    container, info = WHEREABOUTS[sentence]
    state = World(job("worker=1")).state
    instance = replace(state.instances["worker/0"], container=container)
    if info is not None:
        state = replace(state, containers={container: info})
    assert verdicts._whereabouts(state, instance) == sentence
