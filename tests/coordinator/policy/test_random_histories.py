"""Invariants of every history: of random ones, and of those that hypothesis invents."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections import Counter

import hypothesis
import pytest
from hypothesis import strategies
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.contract_values import make_failure_policy, make_limits
from tests.coordinator.world import World, job
from tfapp.contract.exit import Exit
from tfapp.contract.job import (
    FAIL_APPLICATION,
    IGNORE,
    NODES_LIMIT,
    RESTART_INSTANCE,
    FailurePolicy,
    FailureRule,
    Job,
    Limits,
)
from tfapp.contract.messages import Order
from tfapp.contract.names import (
    FAILED,
    FORMING,
    KILLED,
    NODES,
    QUEUE,
    QUOTA,
    RUNNING,
    STOPPING,
    SUCCEEDED,
)
from tfapp.contract.status import GIVEN_BACK
from tfapp.coordinator.policy import actions, ending, ends, events, flexing
from tfapp.coordinator.policy.failure_policy import MAX_BACK_OFF
from tfapp.coordinator.policy.forming import PAUSE
from tfapp.coordinator.policy.state import (
    FINISHED,
    MAX_DOUBLINGS,
    Instance,
    Intent,
    Recovery,
    Stage,
    State,
    held_until,
    holding,
    success_instances,
)
from tfapp.coordinator.policy.step import CATCH_UP, PAUSED, next_deadline
from tfapp.frozen import replace
from tfapp.runner.tensorflow_env import task_index

LAYOUTS = (
    "worker=1",
    "worker=3",
    "chief=1",
    "chief=1 worker=2",
    "chief=1 worker=2 ps=1 evaluator=1 tensorboard=1",
    "ps=2 worker=2>ps",
    "chief=1>ps ps=1 worker=2>chief,ps tensorboard=1>chief",
    "evaluator=1 chief=1",
    "other=2",
    "tensorboard=1",
    "worker=4:2",
    "chief=1 worker=3:1 ps=1 evaluator=1",
)
ELASTIC_LAYOUTS = LAYOUTS[-2:]
ELASTIC = {"elastic_wait": 2.0, "elastic_interval": 4.0}
SAVE_GRACE = 3.0
LIMITS = (
    make_limits(gang=20, evaluator=8, stop_grace=3, heartbeat=1, heartbeat_lost=4, settle=0.5),
    make_limits(
        gang=9, lifetime=40, evaluator=30, stop_grace=9, heartbeat=2, heartbeat_lost=6, settle=6
    ),
    make_limits(
        gang=15, queue=50, evaluator=8, stop_grace=3, heartbeat=1, heartbeat_lost=4, settle=0.5
    ),
    make_limits(gang=20, evaluator=5, stop_grace=0, heartbeat=1, heartbeat_lost=0, settle=0),
)
EXITS = (
    Exit(0, None, "exit", "exit code 0"),
    Exit(1, None, "exit", "exit code 1"),
    Exit(None, 9, "signal", "killed by SIGKILL (9)"),
    Exit(None, 9, "memory", "killed for its memory"),
    Exit(None, None, "start", "no such program"),
    Exit(None, None, "lost", "it could not reach the master"),
)


POLICIES = (
    make_failure_policy(max_restarts=0, max_losses=0),
    make_failure_policy(),
    make_failure_policy(max_restarts=2, max_losses=1, startup=0),
    make_failure_policy(startup=0, rules=(FailureRule(RESTART_INSTANCE, ("worker", "ps")),)),
    make_failure_policy(
        max_restarts=50,
        startup=2,
        rules=(
            FailureRule(IGNORE, ("worker",), exit_codes=(1, 137)),
            FailureRule(FAIL_APPLICATION, reasons=("memory", "script")),
            FailureRule(RESTART_INSTANCE, reasons=("signal", "lost")),
        ),
    ),
)


KINDS = (QUEUE, QUOTA, NODES)
SLOW = pytest.mark.slow
INFRASTRUCTURE = ("silent", "preempted", "node-lost", "requeued")
OUTSIDE = ("lost", "signal", "memory", "hang")
WORDS = ("generation 4", "restart ", "another container", "kill ", "stop ")


class Referee:
    """Watches every step of a world."""

    def __init__(self, world: World):
        self.world = world
        self.failed: set[tuple[str, int]] = set()  # instance, generation; before the decision
        self.succeeded: set[tuple[str, int]] = set()
        self.stopped = False
        self.ended: set[str] = set()  # containers
        self.doubtful: set[str] = set()  # those of silent runners among them
        self.killed: set[str] = set()  # or told to exit
        self.requested: dict[str, str] = {}  # instance -> the last container
        self.replaced = 0
        self.flexed = 0
        self.requeued = 0  # generations that a queue has ended
        self.joined = 0  # generations that began because late ones had come
        self.formed = 0.0  # when the newest generation did
        self.came: dict[str, float] = {}  # answers in the present generation
        self.charged: set[int] = set()  # generations
        self.planned = 0  # stops after which programs had been asked to save
        self.starved: tuple[float, float] | None = None  # since when, and since when by nodes only
        self.fed = 0.0  # the last time at which something was held back
        self.partly = 0.0  # since when some containers are there and others held back
        self.told = 0.0  # the last announcement
        self.repeated = 0  # announcements
        world.checks.append(self.check)

    def check(self, world: World, before: State, event: events.Event, wanted: tuple) -> None:
        after = world.state
        assert not (before.phase == FINISHED and wanted), "nothing is done after the end"
        assert before.verdict is None or after.verdict is before.verdict, "a verdict is final"
        for instance in after.instances.values():
            assert set(instance.metrics) <= {"age", instance.id}, "metrics are the instance's own"
        if isinstance(event, events.Tick):
            # The next one follows at once where a failure that is ignored held something up.
            closed = before.failure is not None and after.failure is None
            later = next_deadline(after) > event.time
            assert later or wanted or closed, "a tick deals with what is due"
        asked = [one.instance for one in wanted if isinstance(one, actions.RequestContainer)]
        assert len({*asked}) == len(asked), "nobody gets two containers"
        self.observe(before, event)
        self.check_actions(before, after, wanted)
        self.check_waits(before, after, wanted)
        self.check_scheduler(before, after, event, wanted)
        self.check_elastic(before, after, event, wanted)
        if gave_back(before, after):
            self.check_given_back(before, after, wanted)
        self.check_saving(before, after, event)
        self.check_charge(before, after)
        self.check_budgets(after)
        if before.verdict is None and after.verdict is not None:
            self.check_verdict(before, after)

    def observe(self, before: State, event: events.Event) -> None:
        if isinstance(event, events.ContainerEnded):
            self.ended.add(event.container)
            told = before.instances.get(event.instance)
            if told is not None and ends.cut_off(before, told, event.time):
                self.doubtful.add(event.container)
        if isinstance(event, events.Started):
            self.requested = {i.id: i.container for i in before.instances.values()}
        if isinstance(event, events.Requested):
            self.requested[event.instance] = event.container
        if isinstance(event, events.StopRequested):
            self.stopped = True
        if isinstance(event, events.FlexRequested):
            self.flexed += 1
        if isinstance(event, events.Exited) and event.report.exit.code == 0:
            self.succeeded.add((event.report.instance, event.report.generation))
        if isinstance(event, (events.Refused, events.ContainerEnded)):
            self.failed |= {(event.instance, generation) for generation in may_fail(before)}
        if isinstance(event, events.Exited) and event.report.exit.code != 0:
            self.failed.add((event.report.instance, event.report.generation))

    def check_actions(self, before: State, after: State, wanted: tuple) -> None:
        orders: dict[str, Order] = {}
        for action in wanted:
            if isinstance(action, actions.SendOrders):
                orders.update(action.orders)
                exits = [name for name, order in action.orders.items() if order.action == "exit"]
                self.killed |= {after.instances[name].container for name in exits}
            if isinstance(action, actions.RequestContainer):
                self.replaced += action.instance in self.requested
                last = self.requested.get(action.instance, "")
                known = after.instances[action.instance].container
                assert not known, "who has a container gets no other"
                gone = {"", *self.ended, *self.killed, *after.leaving}
                assert last in gone, "one container for each instance"
            if isinstance(action, actions.KillContainer):
                self.killed.add(action.container)
            if isinstance(action, actions.KillContainer) and not gave_back(before, after):
                self.failed |= {(n, g) for n in after.instances for g in may_fail(before)}
        containers = {after.instances[name].container for name in orders}
        assert not (self.ended - self.doubtful) & containers, "orders go to the living"

    def check_waits(self, before: State, after: State, wanted: tuple) -> None:
        if after.phase in (FORMING, STOPPING) and not after.listing:
            assert next_deadline(after) < math.inf, "every wait has a deadline"
        if before.decided:
            begun = (actions.RequestContainer, actions.PublishCluster, actions.PublishReleased)
            assert not [a for a in wanted if isinstance(a, begun)], "nothing begins after it"

    def check_scheduler(self, before: State, after: State, event: events.Event, wanted) -> None:
        """Every wait has a deadline or a queue that is named. Neither deadline passes before its
        time."""
        looked = isinstance(event, events.Tick) and event.time >= after.resumed + CATCH_UP
        if looked:
            self.look(before, self.world.now)
        limits, now = self.world.job.limits, after.ticked
        if any(isinstance(action, actions.Announce) for action in wanted):
            self.told = self.world.now
            self.repeated += (
                isinstance(event, events.Tick) and after.generation == before.generation
            )
        paused = min(before.ask_at, after.ask_at) < math.inf  # there is nobody to tell
        if looked and after.phase == FORMING and after.hold is not None and not paused:
            for first in holding(after)[: held_until(after) == math.inf]:
                assert first.held in (QUEUE, QUOTA) and first.preparing, "a queue is named"
                assert limits.queue == 0
            assert self.world.now <= self.told + max(limits.gang, PAUSED), "runners hear of it"
        joins = after.phase == RUNNING and came_by_flex(after)
        if looked and joins and flexing.due(after) == math.inf:
            first = holding(after)[0]
            assert first.held in (QUEUE, QUOTA) and first.preparing, "a queue is named"
            assert limits.queue == 0
        if before.verdict is None and after.verdict is not None:
            summary = after.verdict.summary
            if "site.global.gang.timeout" in summary:
                assert now >= self.fed + limits.gang, "time in a queue is not the gang's"
            if "site.global.queue.timeout" in summary:
                assert self.starved is not None
                since = self.starved[0] + limits.queue
                assert now >= (since if limits.queue else self.starved[1] + NODES_LIMIT)

    def check_elastic(self, before: State, after: State, event: events.Event, wanted) -> None:
        """A generation forms with enough instances, not too early, and others join together."""
        assert all(c.instances >= c.elastic_min for c in after.job.components), "flex leaves enough"
        if after.generation > before.generation:
            self.came = {}
        if isinstance(event, events.Answered):
            self.came.setdefault(event.answer.instance, self.world.now)
        late = {i.id: i for i in after.instances.values() if i.intent is Intent.LATE}
        new = [i for name, i in late.items() if before.instances[name].intent is not Intent.LATE]
        limits = self.world.job.limits
        if new and not after.decided and after.generation == before.generation:
            assert before.phase == FORMING
            assert not gave_back(before, after), "what is enough is not given back"
            for one in new:
                component = after.job.component(one.component)
                assert component.elastic_min and one.role not in ("chief", "ps", "evaluator")
                assert one.answer is None, "who is ready takes part"
            # The last that it needs came as long ago as the others have time. One that came first
            # may have ended since.
            enough = sorted(self.came.values())[self.least(after) - 1]
            assert self.world.now >= enough + limits.elastic_wait
        for action in wanted:
            if not isinstance(action, actions.PublishCluster) or before.formed:
                continue
            if action.cluster.generation < after.generation:
                continue  # those that flex has added joined at once
            members = [m.instance for m in action.cluster.members]
            assert not set(members) & set(late), "who is late is no member"
            self.formed = self.world.now
            for one in after.job.components:
                mine = [m for m in action.cluster.members if m.component == one.name]
                able = [i for i in after.instances.values() if i.component == one.name]
                # Of those that were to join: a verdict of the same moment stops them.
                able = [i for i in able if before.instances[i.id].intent is not Intent.JOIN]
                ended = [i for i in able if i.ended and not (i.joins and i.due < math.inf)]
                assert len(mine) >= min(one.elastic_min or len(able), len(able) - len(ended))
                numbers = [task_index(m.instance, action.cluster.members) for m in mine]
                assert numbers == [*range(len(mine))], "numbers are dense"
        first = any(isinstance(action, actions.ListContainers) for action in wanted)
        busy = first or after.decided or after.failure is not None
        if isinstance(event, events.Tick) and event.time >= after.resumed + CATCH_UP:
            for one in () if busy else late.values():
                starts = one.granted is not None and not (one.answer or one.ended)
                since = max(one.granted, after.began) if starts else math.inf
                assert event.time < since + limits.gang, "who has its place is ready in time"
        begins = after.generation > before.generation and before.phase == RUNNING
        joined = begins and any(m.text.endswith(" joined") for m in after.timeline[-2:])
        if joined and not came_by_flex(before):
            self.joined += 1
            assert self.world.now >= self.formed + limits.elastic_interval, "not too often"
            if before.failure is None:  # one that was ignored may be closed at the same time
                assert after.charges == before.charges, "free of charge"

    def check_saving(self, before: State, after: State, event: events.Event) -> None:
        """No program that saves is stopped as planned before it has, or before its time is over."""
        stops = after.generation > before.generation or (
            after.decided and after.verdict.state == KILLED and not before.decided
        )
        free = after.charges == before.charges and before.failure is after.failure is None
        if not stops or not free or before.phase != RUNNING:
            return
        by = before.saving
        self.planned += by is not None
        if by is not None and event.time >= by.until:
            return
        for one in before.instances.values():
            runner = self.world.runners.get(one.id)
            if runner is None or runner.container != one.container or one.ended or one.joins:
                continue
            told = None if by is None else by.told.get(one.id)
            late = by is not None and one.id not in by.expected  # it has not said so in time
            late = late or (told is not None and not told.takes_part)
            late = late and not by.over  # else it is asked now
            if one.stage is not Stage.RUNNING or not one.saves or late:
                continue
            if runner.program and not runner.cut:
                assert runner.saved, "who saves before a planned stop has saved"

    def least(self, state: State) -> int:
        """The members without which no generation forms."""
        members = Counter(i.component for i in state.instances.values() if is_member(i))
        components = state.job.components
        return sum(min(members[c.name], c.elastic_min or c.instances) for c in components)

    def check_given_back(self, before: State, after: State, wanted: tuple) -> None:
        """All, after the gang's time and longer each time; it costs nothing, and comes again."""
        least = self.world.job.limits.gang * 2 ** min(before.given_back, MAX_DOUBLINGS)
        assert self.world.now >= self.partly + least - 0.001, "who waits for others has its time"
        assert after.ask_at >= self.world.now + PAUSE * least, "others get the room"
        if before.failure is None:  # one that is open is charged when it is closed, as ever
            assert (after.charges, after.failure) == (before.charges, None), "free of charge"
        assert (after.generation, after.verdict) == (before.generation, None)
        mine = {i.container for i in before.instances.values() if i.container and not i.ended}
        killed = {a.container for a in wanted if isinstance(a, actions.KillContainer)}
        assert mine <= killed, "nothing is kept"
        programs = [r for r in self.world.everybody if r.program and r.container in mine]
        assert not programs, "no program lives in what is given back"

    def look(self, before: State, now: float) -> None:
        """Whether something that the generation has asked for is held back."""
        awaited = [
            self.world.runners[i.id]
            for i in before.instances.values()
            if not i.joins and not i.ended and i.container
        ]
        held = [r.held for r in awaited if r.held]
        if not held or len(held) == len(awaited):
            self.partly = now
        if before.phase == FORMING and before.ask_at < math.inf:
            self.fed = now
            return
        if before.phase != FORMING or not held:
            self.starved = None
            return
        began, nodes = self.starved or (now, now)
        self.fed, self.starved = now, (began, nodes if {*held} == {NODES} else now)

    def check_charge(self, before: State, after: State) -> None:
        """A failure for which a generation forms is charged once, to its cause."""
        failure, left = before.failure, after.failure
        if failure is None or (left is not None and left.begun == failure.begun):
            return
        if failure.recovery is not Recovery.GENERATION or after.verdict is not None:
            return
        assert failure.generation not in self.charged, "one charge a generation"
        self.charged.add(failure.generation)
        cause = min(
            (end for end in failure.ends if not is_ignored(before, end)), key=lambda end: order(end)
        )
        assert cause.exit is not None
        grown = (
            after.charges.restarts - before.charges.restarts,
            after.charges.losses - before.charges.losses,
        )
        requeued = cause.exit.reason == "requeued"  # nothing is charged
        self.requeued += requeued
        bucket = cause.exit.reason in INFRASTRUCTURE
        assert requeued or grown[bucket] >= 1, "the charge is to its cause"
        failed = (i for i in before.instances.values() if i.ended and not i.succeeded)
        waiting = [i for i in failed if i.intent is Intent.RUN]  # for their own judgement
        if left is None and not waiting:
            assert sum(grown) == (not requeued), "one charge a generation"

    def check_budgets(self, state: State) -> None:
        policy = state.job.failure
        assert state.charges.restarts <= policy.max_restarts
        assert state.charges.losses <= policy.max_losses
        uncharged = state.failure is not None or state.verdict is not None
        charged = state.charges.restarts + state.charges.losses + uncharged
        charged += self.requeued
        assert state.generation <= 1 + charged + 2 * self.flexed + self.joined
        for component in state.job.components:
            window, threshold = component.failure_window, component.failure_threshold
            charged = state.charges.components.get(component.name, ())
            recent = [at for at in charged if at > state.ticked - window]
            assert threshold <= 0 or len(recent) <= threshold

    def check_verdict(self, before: State, state: State) -> None:
        verdict = state.verdict
        assert verdict is not None
        if verdict.state == SUCCEEDED:
            assert state.failure is None
            # An end turns newcomers, on which nothing depends, into instances that are stopped.
            needed = [state.instances[i.id] for i in success_instances(before)]
            done = {i.id for i in needed if (i.id, state.generation) in self.succeeded}
            assert done and done | {i.id for i in needed if i.intent is Intent.IGNORE} == {
                i.id for i in needed
            }
            assert all(i.exit and i.exit.code == 0 for i in needed if i.id in done)
        if verdict.state == KILLED:
            assert self.stopped
        if verdict.state == FAILED:
            cause = verdict.cause
            assert cause is not None
            timed_out = verdict.exit_code == 67
            assert timed_out or (cause.instance, cause.generation) in self.failed


def order(end: Instance) -> int:
    """The rank of a cause."""
    assert end.exit is not None
    if end.exit.reason in INFRASTRUCTURE or not end.container:
        return 0
    return 1 if end.exit.reason in OUTSIDE or end.report is None else 2


def is_ignored(state: State, end: Instance) -> bool:
    """Whether a rule, or what is usual for a TensorBoard, says so."""
    assert end.exit is not None
    for found in state.job.failure.rules:
        codes = {end.exit.code, 128 + end.exit.signal if end.exit.signal else None}
        named = not found.components or end.component in found.components
        matches = end.exit.reason in found.reasons or codes & set(found.exit_codes)
        if named and (matches or not (found.reasons or found.exit_codes)):
            return found.action == IGNORE
    return end.role == "tensorboard" and end.component not in state.job.success


def is_member(instance: Instance) -> bool:
    return instance.answer is not None and not instance.joins and not instance.ended


def came_by_flex(state: State) -> bool:
    return any(i.intent is Intent.JOIN for i in state.instances.values())


def gave_back(before: State, after: State) -> bool:
    return after.given_back > before.given_back


def may_fail(state: State) -> set[int]:
    """The generations for which a loss known now can count: it may be older than this one."""
    failed = state.failure.generation if state.failure else state.generation
    return {state.generation, state.generation - 1, failed}


def final_checks(world: World, referee: Referee) -> None:
    limits = world.job.limits
    while world.state.phase == FORMING:
        generation, requests = world.state.generation, referee.replaced
        world.advance(world.now + CATCH_UP + 1)  # a tick knows of holds
        if world.state.ask_at < math.inf:
            world.advance(world.state.ask_at + CATCH_UP + 1)
            again = world.state.ask_at == math.inf
            assert again or world.state.decided, "what was given back is asked for again"
        if world.state.hold is not None:
            queued = held_until(world.state) == math.inf
            world.advance(world.now + 5 * limits.gang if queued else held_until(world.state) + 2)
            world.full = ""  # the queue has room at last
            for runner in world.runners.values():
                if runner.held and not runner.ended:
                    world.grant(runner)  # what was granted something still ends
        world.advance(world.now + limits.gang + MAX_BACK_OFF + 1)
        progress = (world.state.generation, referee.replaced) != (generation, requests)
        assert world.state.phase != FORMING or progress, "no generation forms for ever"
    if not world.state.decided:
        world.feed(events.StopRequested(world.now, "the history ends"))
    patience = limits.settle + limits.evaluator + limits.stop_grace + ending.STOP_MARGIN
    patience += limits.save_grace
    world.advance(world.now + patience + 1)
    assert world.state.phase == FINISHED, "a history ends by its deadline"
    assert sum(isinstance(a, actions.Shutdown) for a in world.actions) == 1
    assert isinstance(world.actions[-1], actions.Shutdown)
    count = len(world.state.instances)
    rounds = world.state.generation + world.state.charges.restarts
    rounds += referee.replaced + referee.flexed
    most = rounds * (2 * count + len(world.job.components) + 3) + referee.repeated
    assert world.store_calls <= most
    unfinished = [i for i in world.state.instances.values() if i.exit is None]
    assert unfinished == []
    hearing = [r for r in world.everybody if not (r.ended or r.deaf or r.silent or r.cut)]
    assert not [r.instance for r in hearing if r.program], "nothing lives after the verdict"


def happen(world: World, what: str, name: str, number: int) -> None:
    runner = world.runners.get(name)
    if what == "advance":
        world.advance(world.now + number / 4)
    elif what == "pause":
        world.pause(float(number))
    elif what == "stop":
        world.feed(events.StopRequested(world.now, "enough"))
    elif what == "answer all":
        world.happen("all", "answer")
    elif runner is None or world.state.phase == FINISHED:
        return
    elif what == "answer":
        world.answer(name)
    elif what == "exit":
        world.report(name, EXITS[max(number % 9 - 3, 0)])
    elif what == "exit late":
        world.report_late(name, EXITS[number % len(EXITS)])
    elif what == "lose":
        world.end_container(runner)
    elif what == "take for dead":
        # The master is believed where runners have no fence, were heard of a moment ago, or may
        # have fenced themselves.
        limits = world.job.limits
        quiet = world.now - runner.beat + limits.heartbeat
        if 2 * limits.heartbeat < quiet < limits.heartbeat_lost - limits.heartbeat:
            world.happen(name, "is", "taken", "for", "dead")
    elif what == "save" and runner.program and not (runner.cut or runner.saves):
        world.happen(name, "saves", *((), ("alone",), ("after", "2"), ("never",))[number % 4])
    elif what == "leave" and runner.program and not (runner.cut or runner.silent):
        world.happen(name, "is", "asked", "to", "leave")
    elif what == "silence":
        runner.silent = True
    elif what == "deafen":
        runner.deaf = True
    elif what == "cut":
        world.cut(runner)
    elif what == "preempt":
        world.happen(name, ("preempted", "requeued")[number % 2])
    elif what == "hold" and not runner.ended:
        if not runner.heard:  # else its container has had its place before
            world.hold(runner, KINDS[number % 3])
    elif what == "grant" and runner.held and not runner.ended:
        world.grant(runner)
    elif what == "full":
        world.full = (*KINDS, "", "")[number % 5]
    elif what == "flex":
        component = name.partition("/")[0]
        world.happen("flex", component, ("+1", "-1", str(number % 5))[number % 3])


HAPPENINGS = (
    *("advance",) * 5,
    *("answer",) * 4,
    *("answer all",) * 4,
    *("exit",) * 3,
    "exit late",
    "flex",
    "full",
    "hold",
    "grant",
    "lose",
    "cut",
    "take for dead",
    "preempt",
    "silence",
    "deafen",
    "pause",
    "stop",
)


def drawn(layout: str, limits: Limits, policy: FailurePolicy) -> Job:
    """A job whose components fail twice within 30 s at most."""
    limits = replace(limits, **ELASTIC, save_grace=SAVE_GRACE)
    made = job(layout, limits=limits, failure=policy)
    components = tuple(
        replace(component, failure_threshold=2, failure_window=30.0)
        for component in made.components
    )
    return replace(made, components=components)


BLOCKS = (pytest.param(0, id="some"), *(pytest.param(n, marks=SLOW) for n in range(1, 3)))


@pytest.mark.parametrize("block", BLOCKS)
def test_random_histories(block):
    ends, seen = set(), set()
    for seed in range(1000):
        chance = random.Random(block * 1000 + seed)
        world = World(drawn(chance.choice(LAYOUTS), chance.choice(LIMITS), chance.choice(POLICIES)))
        world.seed = seed
        names = tuple(world.state.instances)
        if chance.random() < 0.1:
            world.refused = {chance.choice(names): "too big"}
        referee = Referee(world)
        world.begin()
        for _ in range(chance.randrange(60)):
            names = tuple(world.state.instances) or names
            happen(world, chance.choice(HAPPENINGS), chance.choice(names), chance.randrange(24))
        final_checks(world, referee)
        assert world.state.verdict is not None
        ends.add(world.state.verdict.exit_code)
        seen |= {word for word in WORDS if any(word in line for line in world.log)}
        back = any(moment.kind == GIVEN_BACK for moment in world.state.timeline)
        seen |= {"given back"} if back else set()
        seen |= {"loss"} if world.state.charges.losses else set()
        seen |= {"success after a restart"} if restarted_well(world.state) else set()
    assert ends == {0, 65, 66, 67}, "the histories reach every kind of end"
    assert seen == {*WORDS, "given back", "loss", "success after a restart"}


IN_QUEUES = (
    *("advance",) * 12,
    *("answer all",) * 10,
    *("grant",) * 4,
    *("hold", "preempt") * 2,
    *("full", "exit", "lose", "silence", "flex", "pause"),
)


@pytest.mark.parametrize("seeds", [range(50), pytest.param(range(1000, 1200), marks=SLOW)])
def test_elastic_histories_in_full_queues(seeds):
    """In what many of them go through: a cluster without some, who join, or fail before that."""
    seen = Counter()
    for seed in seeds:
        chance = random.Random(seed)
        world = World(drawn(chance.choice(ELASTIC_LAYOUTS), chance.choice(LIMITS), POLICIES[4]))
        world.seed, referee = seed, Referee(world)
        world.begin()
        for name in world.state.instances:
            happen(world, "hold" if chance.random() < 0.4 else "advance", name, chance.randrange(3))
        for _ in range(chance.randrange(40, 80)):
            names = tuple(world.state.instances)
            happen(world, chance.choice(IN_QUEUES), chance.choice(names), chance.randrange(24))
        final_checks(world, referee)
        texts = [moment.text for moment in world.state.timeline]
        seen["without"] += any("forms without" in text for text in texts)
        seen["joined"] += referee.joined
        seen["failed before"] += any("does not join" in text for text in texts)
    assert min(seen.values()) >= len(seeds) // 20, seen


PLANNED = (
    *("advance",) * 8,
    *("answer all",) * 6,
    *("save",) * 6,
    *("flex", "leave", "stop") * 2,
    *("exit", "lose", "silence", "pause", "preempt"),
)


@pytest.mark.parametrize("seeds", [range(200), pytest.param(range(200, 1200), marks=SLOW)])
def test_histories_in_which_programs_save_before_planned_stops(seeds):
    """Some answer late or never, end meanwhile, or are in a container that is asked to end."""
    seen = Counter()
    for seed in seeds:
        chance = random.Random(seed)
        layout, policy = chance.choice(LAYOUTS), chance.choice(POLICIES[1:])
        world = World(drawn(layout, chance.choice(LIMITS), policy))
        world.seed, referee = seed, Referee(world)
        world.begin()
        world.happen("all", "answer")
        names = tuple(world.state.instances)
        for _ in range(chance.randrange(10, 50)):
            names = tuple(world.state.instances) or names
            happen(world, chance.choice(PLANNED), chance.choice(names), chance.randrange(24))
        final_checks(world, referee)
        texts = [moment.text for moment in world.state.timeline]
        seen["planned"] += referee.planned
        seen["saved"] += any("saved at step" in text for text in texts)
        seen["late"] += any("not saved within" in text for text in texts)
    assert min(seen["planned"], seen["saved"], seen["late"]) >= len(seeds) // 20, seen


FAILURES = ("exits 1", "exits 7", "killed 9", "killed 6", "hangs", "lost", "preempted")
PROGRAM_ENDS = {
    "exits 1": EXITS[1],
    "exits 7": Exit(7, None, "exit", "exit code 7"),
    "killed 9": EXITS[2],
    "killed 6": Exit(None, 6, "signal", "killed by SIGABRT (6)"),
    "hangs": Exit(None, 9, "hang", "it was stopped"),
}
RANK = {"preempted": 0, "exits 1": 2, "exits 7": 2}  # 1 for all others
ORDER_POLICIES = (
    POLICIES[0],
    POLICIES[1],
    make_failure_policy(max_restarts=1, startup=0),
    make_failure_policy(max_losses=0),
    make_failure_policy(startup=0, rules=(FailureRule(FAIL_APPLICATION, ("chief",)),)),
    make_failure_policy(
        startup=0,
        rules=(
            FailureRule(IGNORE, ("worker",), exit_codes=(7,)),
            FailureRule(FAIL_APPLICATION, reasons=("hang", "preempted")),
        ),
    ),
)


def outcome(policy: FailurePolicy, began: float, failures: tuple[tuple[str, str], ...]) -> object:
    """The verdict of an application in which these instances fail, in this order, within the settle
    time: the verdict's cause, or what was charged and to which component."""
    limits = make_limits(gang=60, heartbeat=1, heartbeat_lost=10, settle=2)
    world = World(job("chief=1 worker=3", limits=limits, failure=policy))
    world.play(f"1 all answer\n{1 + began}")
    for name, what in failures:
        world.advance(world.now + 0.25)
        if world.state.generation > 1 and what in PROGRAM_ENDS:
            world.report_late(name, PROGRAM_ENDS[what])
        else:
            world.happen(name, *what.split())
        world.feed(events.Tick(world.now))
    world.advance(world.now + 3)
    world.happen("all", "answer")
    world.feed(events.Tick(world.now))
    verdict, charges = world.state.verdict, world.state.charges
    if verdict is not None:
        assert verdict.cause is not None
        return verdict.state, verdict.cause.instance, verdict.cause.exit.reason
    return charges.restarts, charges.losses, tuple(charges.components)


def orders(chance: random.Random) -> None:
    """Failures of several instances in all orders that keep those of one rank as they are."""
    policy, began = chance.choice(ORDER_POLICIES), chance.choice((4.0, 20.0))
    names = chance.sample(("chief/0", "worker/0", "worker/1", "worker/2"), chance.choice((2, 3)))
    failures = tuple((name, chance.choice(FAILURES)) for name in names)
    found = {}
    for arranged in itertools.permutations(failures):
        ranks = sorted(arranged, key=lambda failure: RANK.get(failure[1], 1))
        if ranks == sorted(failures, key=lambda failure: RANK.get(failure[1], 1)):
            found[arranged] = outcome(policy, began, arranged)
    assert len(set(found.values())) == 1, (policy, began, found)


@pytest.mark.parametrize("seeds", [range(100), pytest.param(range(100, 400), marks=SLOW)])
def test_failures_within_the_settle_time_give_the_same_verdict_in_any_order(seeds):
    for seed in seeds:
        orders(random.Random(seed))


def restarted_well(state: State) -> bool:
    return state.charges.restarts > 0 and state.verdict is not None and state.verdict.exit_code == 0


class History(RuleBasedStateMachine):
    """The same, found and made small by hypothesis."""

    @initialize(
        layout=strategies.sampled_from(LAYOUTS),
        limits=strategies.sampled_from(LIMITS),
        policy=strategies.sampled_from(POLICIES),
        refused=strategies.integers(0, 20),
    )
    def begin(self, layout: str, limits: Limits, policy: FailurePolicy, refused: int) -> None:
        self.world = World(drawn(layout, limits, policy))
        self.names = tuple(self.world.state.instances)
        if refused < len(self.names):
            self.world.refused = {self.names[refused]: "too big"}
        self.referee = Referee(self.world)
        self.world.begin()

    @rule(
        what=strategies.sampled_from(sorted(set(HAPPENINGS))),
        index=strategies.integers(0, 7),
        number=strategies.integers(0, 24),
    )
    def happen(self, what: str, index: int, number: int) -> None:
        happen(self.world, what, self.names[index % len(self.names)], number)

    @precondition(lambda self: self.world.state.formed)
    @rule()
    def tell_the_same_again(self) -> None:
        """What reading the store again may repeat changes nothing but what is acknowledged."""
        before = self.world.state
        for instance in before.instances.values():
            if instance.stage is Stage.ENDED:
                self.world.feed(events.Exited(self.world.now, instance.report))
            elif instance.stage is Stage.GONE:
                self.world.feed(
                    events.ContainerEnded(self.world.now, instance.id, instance.container)
                )
        assert self.world.state.instances == before.instances

    def teardown(self) -> None:
        if hasattr(self, "world"):
            final_checks(self.world, self.referee)


TestHistory = History.TestCase
TestHistory.settings = hypothesis.settings(max_examples=100, stateful_step_count=25)


def test_a_large_application_takes_two_calls_each_and_a_few():
    world = World(job("chief=1 worker=400 ps=20"))
    world.begin()
    world.happen("all", "answer")
    for name in world.state.instances:
        if name != "chief/0":
            world.report(name, EXITS[0])
    world.report("chief/0", EXITS[0])
    world.feed(events.Tick(world.now))
    assert world.state.phase == FINISHED
    assert world.store_calls <= len(world.state.instances) + 3


def test_a_state_is_a_value():
    world = World(job("worker=1"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        world.state.generation = 2  # type: ignore[misc]
