"""Failures that are survived, or not. A new history is a paragraph of judging.txt."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.contract_values import make_failure_policy
from tests.coordinator.histories import LIMITS, Histories
from tests.coordinator.world import World, job
from tfapp.contract.job import RESTART_INSTANCE, FailurePolicy, FailureRule
from tfapp.contract.status import GIVEN_BACK
from tfapp.coordinator.policy import events
from tfapp.coordinator.policy.state import Charges
from tfapp.coordinator.publisher import status
from tfapp.frozen import replace

DEFAULT = make_failure_policy()
HISTORIES = Histories(Path(__file__).with_name("judging.txt"))


@pytest.mark.parametrize("title", HISTORIES.by_title)
def test_history(title, request):
    HISTORIES.check(title, request.config.getoption("--update-golden"))


def told(world: World) -> list[tuple[float, str]]:
    return [(moment.time, moment.text) for moment in world.state.timeline]


def test_the_timeline_tells_it_all():
    world = World(job("chief=1 worker=2", limits=LIMITS, failure=DEFAULT))
    world.play("1 all answer\n30 worker/1 lost\n31 all answer\n40 flex worker +1\n50 stop")
    assert told(world) == [
        (1.0, "generation 1 starts, 3 instances"),
        (
            30.0,
            "worker/1 on host-worker-1 was lost in generation 1: its container ended without a "
            "report: out of luck",
        ),
        (30.0, "generation 2 begins"),
        (31.0, "generation 2 starts, 3 instances"),
        (40.0, "worker goes from 2 to 3 instances"),
        (50.0, "Killed: it was asked to stop. It was restarted once before."),
    ]
    assert [(m.kind, m.instance, m.generation) for m in world.state.timeline] == [
        ("starts", "", 1),
        ("failure", "worker/1", 1),
        ("begins", "", 2),
        ("starts", "", 2),
        ("resized", "", 2),
        ("ends", "", 2),
    ]


def test_why_an_instance_that_moves_takes_the_others_with_it():
    policy = make_failure_policy(startup=0, rules=(FailureRule(RESTART_INSTANCE),))
    world = World(job("chief=1 worker=2", limits=LIMITS, failure=policy))
    world.play("1 all answer\n20 worker/0 killed 9\n30 worker/0 lost\n31 all answer")
    texts = [moment.text for moment in world.state.timeline]
    assert [text for text in texts if " lost " not in text] == [
        "generation 1 starts, 3 instances",
        "worker/0 on host-worker-0 was killed by SIGKILL (9) in generation 1, 19 s after its start",
        "worker/0 starts again at its old address",
        "worker/0 gets another address with its new container, and TensorFlow reads those of the "
        "cluster once: all start again",
        "generation 2 begins",
        "generation 2 starts, 3 instances",
    ]


def test_a_loss_that_is_noticed_late_takes_over_the_charge():
    world = World(job("worker=2", limits=LIMITS, failure=DEFAULT))
    world.play("1 all answer\n20 worker/1 is cut off\n22 worker/0 killed 6\n30")
    assert shown(world) == (1, 0)
    world.advance(34)
    assert shown(world) == (0, 1)
    assert world.state.charges == Charges()
    assert told(world)[-2:] == [
        (
            33.0,
            "the cause: worker/1 on host-worker-1 was lost in generation 1: nothing was heard of "
            "it for 14 s",
        ),
        (33.0, "worker/1 gets another container"),
    ]
    world.happen("all", "answer")
    world.feed(events.Tick(world.now))
    assert world.state.charges == Charges(losses=1, recent=(22.0,))


def test_containers_that_their_queue_takes_back_are_not_charged():
    """However often."""
    failure = make_failure_policy(max_restarts=0, max_losses=1)
    world = World(job("worker=5", limits=LIMITS, failure=failure))
    world.play("1 all answer")
    for n in range(5):
        world.play(f"{2 + 2 * n} worker/{n} requeued\n{3 + 2 * n} all answer")
    assert (world.state.verdict, world.state.generation) == (None, 6)
    assert world.state.charges == Charges()
    lost = (
        "worker/4 on host-worker-4 was lost in generation 5: its container ended without a report"
    )
    assert (10.0, f"{lost}: its pod was evicted by Kueue") in told(world)


def shown(world: World) -> tuple[int | None, int | None]:
    """Restarts and losses, as everybody is told."""
    told = status(world.state, 0.0, 0.0)
    return told.restarts, told.losses


BROKEN = (
    "It failed like generation {} did, with the same last line. In between nothing new was seen in "
    "a checkpoint folder or TFAPP_PROGRESS_FILE, and no instance reported {}: the program is taken "
    "for broken and is not restarted (failurePolicy.endOnRepeatedFailure)."
)
NO_STEP = "a step or another metric"


@dataclasses.dataclass(frozen=True)
class Repetition:
    """The ends of worker/0 at 20 s and at 40 s. `ends`: whether its program counts as broken."""

    first: str
    second: str
    ends: bool
    policy: FailurePolicy = DEFAULT


REPETITIONS = {
    "the same": Repetition("exits 3 stuck", "exits 3 stuck", True),
    "but for numbers and addresses": Repetition(
        "exits 1 stuck 12:31:07 <Foo at 0x7f3a> job 7 at 10.0.0.3:4242",
        "exits 1 stuck 12:31:19 <Foo at 0xbeef> job 12 at 10.0.0.17:999",
        True,
    ),
    "another code": Repetition("exits 3 stuck", "exits 4 stuck", False),
    "another line": Repetition("exits 3 stuck no data", "exits 3 stuck no room", False),
    "no line": Repetition("exits 3 mute", "exits 3 mute", False),
    "with progress": Repetition("exits 3 stuck", "exits 3", False),
    "progress before the first": Repetition("exits 3", "exits 3 stuck the end", True),
    "a signal": Repetition("killed 9", "killed 9", False),
    "a shell's word for a signal": Repetition("exits 137 stuck", "exits 137 stuck", False),
    "a loss first": Repetition("preempted", "exits 3 stuck", False),
    "a loss": Repetition("exits 3 stuck", "preempted", False),
    "turned off": Repetition(
        "exits 3 stuck", "exits 3 stuck", False, make_failure_policy(repeats_end=False)
    ),
}


@pytest.mark.parametrize("row", REPETITIONS.values(), ids=REPETITIONS)
def test_a_failure_that_repeats(row):
    world = World(job("worker=2", limits=LIMITS, failure=row.policy))
    world.reports = ("-",)
    world.play(
        f"1 all answer\n20 worker/0 {row.first}\n21 all answer\n40 worker/0 {row.second}\n"
        "42 all answer\n50 stop"
    )
    assert world.state.verdict is not None
    summary = world.state.verdict.summary
    assert summary.endswith(BROKEN.format(1, NO_STEP)) == row.ends
    assert world.state.verdict.exit_code == (65 if row.ends else 66)


def test_a_failure_that_repeats_after_another_generation_is_none():
    world = World(job("worker=2", limits=LIMITS, failure=DEFAULT))
    world.reports = ("-",)
    world.play(
        "1 all answer\n20 worker/0 exits 3 stuck\n21 all answer\n30 worker/1 preempted\n"
        "32 all answer\n40 worker/0 exits 3 stuck\n45 all answer\n"
        "60 worker/1 exits 3 stuck\n70"
    )
    assert world.state.verdict is not None
    assert world.state.verdict.summary == (
        "Failed: worker/1 on host-worker-1 ended with exit code 3 in generation 4, 15 s after its "
        f"start: the end. {BROKEN.format(3, NO_STEP)}"
    )


# What comes before the failure of generation 1, and of generation 2: what nobody may have reported
# to be taken for broken, "" for a program that has got on.
PROGRESS = {
    "nothing": ("", "", NO_STEP),
    "a further step": ("19 worker/0 reports 100", "39 worker/0 reports 2400", ""),
    "a further step of another": ("19 worker/1 reports 100", "39 worker/1 reports 101", ""),
    "the first step": ("", "39 worker/0 reports 1", ""),
    "the same step": ("19 worker/0 reports 100", "39 worker/0 reports 100", "a step beyond 100"),
    "fewer steps": ("19 worker/0 reports 100", "39 worker/0 reports 7", "a step beyond 100"),
    "steps of before alone": ("19 worker/0 reports 100", "", "a step beyond 100"),
    "the same step, another loss": (
        "19 worker/0 reports 100 loss=0.5",
        "39 worker/0 reports 100 loss=0.4",
        "a step beyond 100",
    ),
    "another metric, no steps": (
        "19 worker/0 reports - loss=0.5",
        "39 worker/0 reports - loss=0.4",
        "",
    ),
    "the same metric, no steps": (
        "19 worker/0 reports - loss=0.5",
        "39 worker/0 reports - loss=0.5",
        NO_STEP,
    ),
    "another has saved": ("", "40.1 worker/1 exits 1", ""),
    "another has not saved": ("", "40.1 worker/1 exits 4 stuck", NO_STEP),
    "another is done": ("", "39 worker/1 exits 0", ""),
}


@pytest.mark.parametrize(("before", "between", "lacks"), PROGRESS.values(), ids=PROGRESS)
def test_progress_of_any_instance_is_progress(before, between, lacks):
    world = World(job("worker=2", limits=LIMITS, failure=DEFAULT))
    world.reports = ("-",)
    history = (
        *("1 all answer", before, "20 worker/0 exits 3 stuck", "21 all answer", between),
        *("40 worker/0 exits 3 stuck", "42 all answer", "50 stop"),
    )
    world.play("\n".join(sorted(filter(None, history), key=lambda line: float(line.split()[0]))))
    verdict = world.state.verdict
    assert verdict is not None
    assert verdict.exit_code == (65 if lacks else 66)
    if lacks:
        assert verdict.summary.endswith(BROKEN.format(1, lacks))


def test_the_history_says_why_a_failure_that_was_survived_happened():
    world = World(job("worker=2", limits=LIMITS, failure=DEFAULT))
    why = "RuntimeError: NaN in the gradients of layer conv2d_3"
    world.play(f"1 all answer\n20 worker/1 exits 1 stuck {why}\n21 all answer\n30 stop")
    where = "ended with exit code 1 in generation 1, 19 s after its start"
    assert (20.0, f"worker/1 on host-worker-1 {where}: {why}") in told(world)


def test_a_loss_that_follows_a_repetition_is_the_cause():
    world = World(job("worker=2", limits=LIMITS, failure=DEFAULT))
    world.reports = ("-",)
    world.play(
        "1 all answer\n20 worker/0 exits 3 stuck\n21 all answer\n40 worker/0 exits 3 stuck\n"
        "40.3 worker/1 preempted\n42 all answer\n50 worker/0 exits 0\n50 worker/1 exits 0"
    )
    assert world.state.verdict is not None
    assert world.state.verdict.exit_code == 0
    assert shown(world) == (1, 1)


FLEXES = [
    ("worker 3", "worker goes from 2 to 3 instances"),
    ("worker 2", "worker has 2 instances already"),
    ("worker +9", "worker would have 11 instances, 4 is the most"),
    ("worker -2", "worker would have 0 instances, and needs 1"),
    ("worker two", "'two' is no number of instances: write 3, +1 or -1"),
    ("chief 2", "chief would have 2 instances, 1 is the most"),
    ("chief 0", "chief would have 0 instances, and needs 1"),
    ("boss 1", "there is no component 'boss'; its components: chief, worker"),
]


@pytest.mark.parametrize(("asked", "reply"), FLEXES)
def test_flex_is_answered(asked, reply):
    chosen = job("chief=1 worker=2", limits=LIMITS)
    chief, worker = chosen.components
    worker = replace(worker, min_instances=1, max_instances=4)
    world = World(replace(chosen, components=(chief, worker)))
    world.play(f"1 all answer\n2 flex {asked}")
    assert world.replies == [reply]


def test_flex_leaves_as_many_instances_as_a_generation_needs():
    world = World(job("worker=4:2", limits=LIMITS))
    world.play("1 all answer\n2 flex worker 1\n3 flex worker -3\n4 flex worker 2")
    needs = (
        "worker would have 1 instances, and trains with 2 at least (yarn.component.instances.min)"
    )
    needs += ": ask for so many, or create the application anew with a lower one"
    assert world.replies == [needs, needs, "worker goes from 4 to 2 instances"]


def test_flex_keeps_an_instance_that_decides():
    world = World(job("worker=3", success=("worker/1",), limits=LIMITS))
    world.play("1 all answer\n2 flex worker 1\n3 flex worker 2")
    assert world.replies == [
        "worker would have 1 instances, and needs 2",
        "worker goes from 3 to 2 instances",
    ]


def test_flex_is_too_late_at_the_end():
    world = World(job("chief=1 evaluator=1"))
    world.play("1 all answer\n2 chief/0 exits 0\n3 flex evaluator 2")
    assert world.replies == ["the application is about to end"]


def test_a_new_instance_that_waits_for_nobody_is_refused_while_its_last_container_may_run():
    world = World(job("worker=1 tensorboard=1", limits=LIMITS))
    world.play(
        """
        0 all answer
        5 tensorboard/0 is cut off
        6 flex tensorboard -1
        9 flex tensorboard +1
        30 flex tensorboard +1
        """
    )
    assert world.replies == [
        "tensorboard goes from 1 to 0 instances",
        "tensorboard/0 of before has not ended yet: try again later",
        "tensorboard goes from 0 to 1 instances",
    ]


@pytest.mark.parametrize(
    ("layout", "lost", "kept"),
    [
        ("chief=1 ps=1", "ps/0", True),  # the chief's only checkpoints are in its container
        ("chief=1 ps=2", "chief/0", False),  # they are gone already
        ("worker=2", "worker/1", False),  # all begin anew after each failure
    ],
)
def test_the_only_checkpoints_are_not_given_back(layout, lost, kept):
    made = job(layout, limits=LIMITS, failure=DEFAULT)
    bare = tuple(replace(c, site={}) for c in made.components)
    world = World(replace(made, components=bare))
    world.play(f"1 all answer\n20 full queue\n20 {lost} preempted\n21 all answer\n300")
    assert any(m.kind == GIVEN_BACK for m in world.state.timeline) is not kept


class Refusing(World):
    """It refuses all containers of worker/1. Before the first, it takes that of worker/0 away."""

    asked = 0

    def request(self, action):
        if action.instance == "worker/1":
            self.asked += 1
            assert self.asked <= 2, "it is asked for once more at most"
            if self.asked == 1:
                self.happen("worker/0", "preempted")
        super().request(action)


def test_a_refusal_beside_a_loss_is_judged_after_it():
    """At one moment, of containers that were given back. The loss is taken for the cause."""
    made = job("worker=3", limits=LIMITS, failure=DEFAULT)
    world = Refusing(made, refused=("worker/1",))
    world.play("0 worker/2 waits queue\n1 worker/0 answers\n1 worker/1 answers\n120")
    assert world.state.given_back == 1
    assert world.state.verdict is not None
    assert "its container was refused: too big" in world.state.verdict.summary
