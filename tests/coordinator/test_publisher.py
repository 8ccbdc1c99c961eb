from __future__ import annotations

import pytest

from tests.contract_values import make_limits
from tests.coordinator.world import World, job
from tfapp.contract.messages import Answer, Beat
from tfapp.contract.status import (
    MAX_DIAGNOSTICS_JSON,
    ApplicationStatus,
    FeedStatus,
    Verdict,
    format_diagnostics,
    parse_diagnostics,
)
from tfapp.contract.usage import Usage
from tfapp.coordinator.policy import events
from tfapp.coordinator.policy.state import Instance, Intent, Stage
from tfapp.coordinator.publisher import (
    INTERVAL,
    INTERVAL_EACH,
    METRICS_INTERVAL,
    PREPARING_INTERVAL,
    USAGE_INTERVAL,
    Curves,
    Publisher,
    progress,
    status,
)
from tfapp.course import MAX_CURVES, MAX_POINTS, Course
from tfapp.frozen import replace

SINCE = 1000.0  # the application's start


class Sink:
    def __init__(self):
        self.puts = 0
        self.progress = []

    def put(self, key, value):
        self.puts += 1

    def set_progress(self, share):
        self.progress.append(share)


def publishing(world: World) -> tuple[list[float], Sink, Publisher]:
    """The time, which a test may change, and one that has published what there is."""
    now, sink = [0.0], Sink()
    publisher = Publisher(sink, lambda: now[0], lambda: 5.0)  # type: ignore[arg-type]
    publisher.publish(world.state)
    return now, sink, publisher


def test_changes_are_published_together_and_a_new_phase_at_once():
    world = World(job("worker=2"))
    world.begin()
    now, sink, publisher = publishing(world)
    publisher.publish(world.state)
    assert sink.puts == 1

    world.answer("worker/0")
    publisher.publish(world.state)
    assert (sink.puts, publisher.due()) == (1, INTERVAL)
    now[0] = INTERVAL
    publisher.publish(world.state)
    assert (sink.puts, publisher.due()) == (2, float("inf"))

    world.answer("worker/1")
    publisher.publish(world.state)
    assert sink.puts == 3
    assert sink.progress == [0.0, 0.05, 0.1]


@pytest.mark.parametrize("jump", [-3600.0, 7200.0, -1e8, 2e8])
def test_a_calendar_that_is_set_changes_no_duration(jump):
    world = World(job("worker=1"))
    now, calendar = [100.0], [1700000000.0]
    publisher = Publisher(Sink(), lambda: now[0], lambda: calendar[0])  # type: ignore[arg-type]
    world.begin()
    now[0], calendar[0] = 112.0, 1700000012.0 + jump
    status = publisher.status(world.state)
    assert (status.started, status.updated) == (1700000000.0, 1700000012.0)


def test_the_versions_of_an_answer_are_published():
    world = World(job("worker=1"))
    world.begin()
    assert status(world.state, 0.0, 1.0).instances[0].versions == {}
    answer = Answer(1, "worker/0", "h", "worker_0", {}, versions={"Python": "3.12.4"})
    world.feed(events.Answered(1.0, answer))
    assert status(world.state, 0.0, 1.0).instances[0].versions == {"Python": "3.12.4"}


def test_nothing_new_is_not_published():
    world = World(job("worker=1"))
    now = [0.0]
    sink = Sink()
    publisher = Publisher(sink, lambda: now[0], lambda: 5.0)  # type: ignore[arg-type]
    for time in range(5):
        now[0] = float(time)
        world.state = replace(world.state, ticked=float(time))
        publisher.publish(world.state)
    assert sink.puts == 1


def test_progress_goes_from_forming_to_finished():
    world = World(job("worker=2"))
    world.begin()
    seen = [progress(world.state)]
    for line in ("worker/0 answers", "worker/1 answers", "worker/0 exits 0", "worker/1 exits 0"):
        world.happen(*line.split())
        seen.append(round(progress(world.state), 3))
    assert seen == [0.0, 0.05, 0.1, 0.55, 1.0]


@pytest.mark.parametrize(("kind", "until"), [("queue", None), ("quota", None), ("nodes", 1803.0)])
def test_it_tells_what_holds_it_back(kind, until):
    world = World(job("worker=2")).play(f"3 worker/0 waits {kind}\n5 worker/0 waits {kind}")
    held = status(world.state, SINCE, SINCE).held
    assert held is not None
    assert (held.kind, held.since) == (kind, SINCE + 3)
    assert held.until == (until and SINCE + until)
    for event in ("worker/0 granted", "stop please"):
        other = World(job("worker=2")).play(f"3 worker/0 waits {kind}\n5 {event}")
        assert status(other.state, SINCE, SINCE).held is None


def test_it_tells_what_holds_back_instances_that_flex_adds_while_it_runs():
    """One that is late is held back too, and nothing waits for it."""
    world = World(job("worker=1")).play("1 all answer\n3 flex worker +1\n4 worker/1 waits queue\n9")
    shown = status(world.state, SINCE, SINCE)
    assert shown.state == "RUNNING"
    assert shown.held is not None
    assert (shown.held.kind, shown.held.until) == ("queue", None)
    late = World(job("worker=2:1", limits=make_limits(elastic_wait=5)))
    late.play("1 worker/0 answers\n1 worker/1 waits queue\n9")
    shown = status(late.state, SINCE, SINCE)
    assert (shown.state, shown.size, shown.held) == ("RUNNING", "1 of 2", None)


def test_it_runs_once_one_of_its_programs_does():
    world = World(job("worker=2"))
    world.play("1 all answer")
    running = tuple(world.state.instances.values())
    first, second = (replace(one, stage=Stage.WAITING) for one in running)
    shown = [
        status(world.state.with_instances(instances), 0.0, 0.0).state
        for instances in ((first, second), (first, running[1]), running)
    ]
    assert shown == ["FORMING", "RUNNING", "RUNNING"]


def test_how_far_the_preparations_are_is_published_now_and_then():
    world = World(job("worker=2"))
    world.begin()
    now, sink, publisher = publishing(world)
    published: list[str] = []
    for second in range(1, 13):
        now[0] = float(second)
        beat = Beat(0, second, "waiting", "", "worker_0", "h", f"pulling, {second} of 100 MiB")
        world.feed(events.Beaten(now[0], "worker/0", beat))
        puts = sink.puts
        publisher.publish(world.state)
        if sink.puts > puts:
            published.append(publisher.status(world.state).instances[0].preparing)
            assert publisher.due() == float("inf")
        else:
            assert now[0] < publisher.due() <= now[0] + PREPARING_INTERVAL
    # With the host, which is new, at once.
    assert published == [f"pulling, {second} of 100 MiB" for second in (1, 6, 11)]
    world.answer("worker/0")
    publisher.publish(world.state)
    assert sink.puts == 5
    assert publisher.status(world.state).instances[0].preparing == ""


def metrics(n: int) -> dict:
    return {"metrics": {"loss": 1.0 / n}, "step": n}


def usage(n: int) -> dict:
    return {"usage": Usage(n, 1.0, 1.0, 1, n, n, n, n, n)}


@pytest.mark.parametrize(
    ("workers", "told", "least"),
    [(2, metrics, METRICS_INTERVAL), (100, metrics, METRICS_INTERVAL), (2, usage, USAGE_INTERVAL)],
    ids=("metrics", "metrics of many", "usage"),
)
def test_numbers_are_published_now_and_then_and_more_rarely_where_they_are_many(
    workers, told, least
):
    world = World(job(f"worker={workers}"))
    world.measured = lambda runner: {}  # type: ignore[method-assign]
    world.play("1 all answer")
    now, sink, publisher = publishing(world)
    interval = least + workers * INTERVAL_EACH
    published = [0.0]
    for tenth in range(1, 201):
        now[0] = tenth / 10
        beat = Beat(1, tenth, "running", **told(tenth))
        world.feed(events.Beaten(now[0], f"worker/{tenth % workers}", beat))
        puts = sink.puts
        publisher.publish(world.state)
        if sink.puts > puts:
            published.append(now[0])
    assert len(published) > 3
    pauses = [later - earlier for earlier, later in zip(published, published[1:])]
    assert min(pauses) > interval - 1e-9
    assert max(pauses) < interval + 0.11
    # What else is new takes them along.
    world.happen("worker/0", "exits", "0")
    now[0] += INTERVAL
    puts = sink.puts
    publisher.publish(world.state)
    assert sink.puts == puts + 1


def test_counters_of_a_feed_are_published_as_metrics_are_and_are_there_in_the_end():
    world = World(job("worker=2"))
    world.play("1 all answer")
    now, sink, publisher = publishing(world)
    now[0] = INTERVAL
    world.feed(events.Fed(now[0], FeedStatus(rows=10)))
    publisher.publish(world.state)
    assert (sink.puts, publisher.due()) == (1, METRICS_INTERVAL + 2 * INTERVAL_EACH)
    now[0] = publisher.due()
    publisher.publish(world.state)
    assert sink.puts == 2
    world.feed(events.Fed(world.now, FeedStatus(rows=20, over=True)))
    for name in ("worker/0", "worker/1"):
        world.happen(name, "exits", "0")
    publisher.publish(world.state)
    assert sink.puts == 3, "the verdict takes them along"
    assert publisher.newest is not None and publisher.newest.feed == FeedStatus(20, over=True)


def test_it_tells_since_when_an_instance_takes_part():
    world = World(job("worker=2"))
    world.play("1 all answer\n40 flex worker +1\n41 worker/2 answers\n42 all answer")
    assert status(world.state, 0.0, 42.0).joined == {"worker/2": 2}


def instance(name: str, **points: tuple) -> Instance:
    component, _, index = name.partition("/")
    return Instance(name, component, int(index), component, points=points)


def course(count: int, begins: float = 0.0) -> tuple:
    course: Course[float] = Course()
    for step in range(count):
        course.add(SINCE + begins + step, step, step / 7)
    return course.points()


def test_each_component_s_first_instance_is_followed():
    curves = Curves()
    for count in range(1, 4):
        both = instance("worker/0", loss=course(count)), instance("worker/1", loss=course(9))
        curves.observe((*both, instance("evaluator/0")), SINCE)
    (curve,) = curves.known()
    assert (curve.instance, curve.metric) == ("worker/0", "loss")
    assert curve.points == ((0.0, 0, 0.0), (1.0, 1, 1 / 7), (2.0, 2, 2 / 7))


def test_a_program_that_starts_again_goes_on_after_the_one_before():
    curves = Curves()
    for begins in (0.0, 10.0, 20.0):
        for count in (2, 3, 3):
            curves.observe((instance("worker/0", loss=course(count, begins)),), SINCE)
    told = [(time, step) for time, step, _ in curves.known()[0].points]
    assert told == [(begins + n, n) for begins in (0.0, 10.0, 20.0) for n in range(3)]
    resumed = Curves(curves.known())
    resumed.observe((instance("worker/0", loss=course(1, 30.0)),), SINCE)
    assert resumed.known()[0].points == (*curves.known()[0].points, (30.0, 0, 0.0))


def test_a_program_that_fails_for_ever_takes_no_more_room():
    curves = Curves()
    for number in range(300):
        curves.observe((instance("worker/0", loss=course(100, 100.0 * number)),), SINCE)
        assert len(curves.known()[0].points) <= MAX_POINTS + 1
    assert curves.known()[0].points[0] == (0.0, 0, 0.0)


def test_a_clock_that_is_behind_makes_no_time_before_the_start():
    curves = Curves()
    curves.observe((instance("worker/0", loss=course(2, -0.5)),), SINCE)
    assert [time for time, _, _ in curves.known()[0].points] == [0.0, 0.5]


def test_there_are_few_curves():
    curves = Curves()
    told = {f"m{n}": course(1) for n in range(32)}
    curves.observe((instance("worker/0", **told),), SINCE)
    assert len(curves.known()) == MAX_CURVES


def test_the_verdict_s_line_keeps_as_many_points_as_fit():
    curves = Curves()
    told = {f"metric {n}": course(5000) for n in range(MAX_CURVES)}
    curves.observe((instance("worker/0", **told),), SINCE)
    verdict = Verdict("SUCCEEDED", 0, "Done.")
    status = ApplicationStatus("a", "SUCCEEDED", 1, 1.0, 2.0, (), verdict)
    status = replace(status, curves=curves.known())
    text = format_diagnostics(status)
    found = parse_diagnostics(text)
    assert found is not None
    assert len(text.rpartition("\n")[2].encode()) <= MAX_DIAGNOSTICS_JSON
    assert len(found.curves) == MAX_CURVES
    for before, after in zip(status.curves, found.curves):
        assert after.points[0] == before.points[0]
        assert after.points[-1] == before.points[-1]
        assert len(after.points) > 8


def test_it_tells_who_is_late_and_the_numbers_of_the_others_in_their_cluster():
    world = World(job("ps=1 worker=4:2", limits=make_limits(elastic_wait=5)))
    history = "0 worker/0 waits queue\n0 worker/2 waits queue\n1 all answer"
    world.play(f"{history}\n9 worker/3 reports 7 loss=0.5")
    found = status(world.state, 0.0, 10.0)
    assert (found.state, found.size) == ("RUNNING", "3 of 5")
    assert [i.instance for i in found.absent] == ["worker/0", "worker/2"]
    assert {i.instance: i.task for i in found.instances if i.task is not None} == {
        "worker/1": 0,
        "worker/3": 1,
    }
    curves = Curves()
    late, there = instance("worker/0"), instance("worker/1", loss=course(3))
    curves.observe((replace(late, intent=Intent.LATE), there), SINCE)
    assert [curve.instance for curve in curves.known()] == ["worker/1"], "the first that is there"
