"""A runner's decisions, as a pure function: a state and an event in, a state and actions out.

No clock and no I/O: every event comes with its time. `tfapp.runner.loop` turns what happens into
events, and carries out the actions. A generation goes

    PREPARING -> WAITING -> STARTING -> RUNNING -> (STOPPING | REPLACED) -> REPORTED -> DONE

and a newer generation leads back to WAITING from wherever the runner is, through REPLACED when a
program has to be killed first: an answer says that no program of an older generation lives. An
order to restart leads from REPORTED back to STARTING, with the same ports and the same cluster.

A program that hangs leads from RUNNING to HANGING: it is killed when the coordinator has the stacks
of all programs, or after HANG_LIMIT.

A container that is asked to end leads to LEAVING from wherever a program lives, else to DONE: the
program has its whole grace, whatever the coordinator wants, and its end is not reported, as the
loss of the container is. A program that saves when it is asked leads from RUNNING to NOTICED first:
the coordinator, which hears of that, asks all programs to save. Where it does not do so, nobody is
waited for.
"""

from __future__ import annotations

import dataclasses

from tfapp.contract.exit import Exit
from tfapp.contract.messages import Cluster, Order
from tfapp.frozen import frozen
from tfapp.runner import events
from tfapp.script import Program

PREPARING, WAITING, STARTING, RUNNING = "PREPARING", "WAITING", "STARTING", "RUNNING"
HANGING = "HANGING"
STOPPING, REPLACED, REPORTED, DONE = "STOPPING", "REPLACED", "REPORTED", "DONE"
NOTICED, LEAVING = "NOTICED", "LEAVING"

# The state that a heartbeat tells, by phase.
BEAT_STATES = {
    PREPARING: "waiting",
    WAITING: "waiting",
    STARTING: "waiting",
    RUNNING: "running",
    HANGING: "hanging",
    STOPPING: "stopping",
    REPLACED: "stopping",
    REPORTED: "stopping",
    NOTICED: "leaving",
    LEAVING: "stopping",
    DONE: "stopping",
}

NOTICE_LIMIT = 5.0  # seconds until the coordinator has asked all programs to save
BACK_LIMIT = 15.0  # seconds until that of a master has done so that was away
HANG_LIMIT = 5.0  # seconds that a program that hangs is spared for stacks
GANG_MARGIN = 60.0  # seconds after which a runner no longer expects the coordinator's own deadline


Decision = tuple["RunnerState", tuple[events.Action, ...]]

NEVER_RAN = Exit(None, None, "stopped", "stopped before its program started")


@frozen
class RunnerState:
    """The state of a runner. Times are in seconds of the caller's clock."""

    component: str
    gang: float  # seconds that a cluster may take to form
    requested: int  # the generation for which this container was requested
    instance: str = ""
    container: str = ""
    phase: str = PREPARING
    prepared: events.Prepared | None = None
    wanted: int = 0  # the newest generation seen; 0: none yet
    generation: int = 0  # the one answered last
    attempt: int = 0  # how often the program was restarted in it
    cluster: Cluster | None = None
    released: tuple[str, ...] = ()
    stop: Order | None = None
    verdict: Exit | None = None  # takes the place of how the program will end
    hang: Exit | None = None  # its verdict, once it is killed because it hangs
    deadline: float | None = None  # when a Tick will change something
    terminated: bool = False  # whether the container was asked to end
    saved_by: float = 0.0  # the end of the time to save after that

    @property
    def current(self) -> events.Attempt:
        """The start of the program that is being prepared, or goes on, or is over."""
        return events.Attempt(self.generation, self.attempt)


def step(state: RunnerState, event: events.Event, now: float) -> Decision:
    """The state after `event`, and what to do, in this order."""
    if state.phase == DONE:
        return state, ()
    if state.phase in (NOTICED, LEAVING):
        return _leaving(state, event, now)
    if isinstance(event, (events.SaveAsked, events.Reached)):
        return state, ()
    if isinstance(event, events.Terminated):
        return _terminated(state, event, now)
    if isinstance(event, events.GenerationSeen):
        return _generation(state, event.number, now)
    if isinstance(event, events.OrderGiven):
        return _order(state, event.order, now)
    if isinstance(event, (events.ClusterFormed, events.ComponentsReleased)):
        return _maybe_start(_learn(state, event))
    if isinstance(event, events.Prepared):
        return _prepared(state, event, now)
    if isinstance(event, events.Chosen):
        return _chosen(state, event.program, now)
    if isinstance(event, events.Ended):
        return _ended(state, event, now)
    if isinstance(event, events.Failed):
        return _over(state, event.exit, now)
    if isinstance(event, (events.Unwell, events.Hangs, events.StacksOver)):
        return _unwell(state, event, now)
    return _tick(state, now)


def _generation(state: RunnerState, number: int, now: float) -> Decision:
    if number == state.generation == state.wanted and state.phase == WAITING:
        # It is announced again while a scheduler holds others back.
        return dataclasses.replace(state, deadline=_patience(state, now)), ()
    if number <= state.wanted:
        return state, ()
    state = dataclasses.replace(state, wanted=number)
    if state.phase in (WAITING, REPORTED):
        return _answer(state, now)
    if state.phase in (RUNNING, HANGING, STOPPING):
        return dataclasses.replace(state, phase=REPLACED, deadline=None), (events.Kill(),)
    # PREPARING, STARTING and REPLACED come to it as soon as they are over.
    return state, ()


def _answer(state: RunnerState, now: float) -> Decision:
    """Begins the newest generation, as far as that can be done now."""
    if state.stop is not None and state.stop.generation >= state.wanted:
        return _report(dataclasses.replace(state, generation=state.wanted), NEVER_RAN, now)
    state = dataclasses.replace(
        state,
        phase=WAITING,
        generation=state.wanted,
        attempt=0,
        cluster=None,
        released=(),
        stop=None,
        verdict=None,
        deadline=_patience(state, now),
    )
    if state.prepared is None:
        return dataclasses.replace(state, phase=PREPARING, deadline=None), ()
    if state.prepared.refusal is not None:
        return _report(state, state.prepared.refusal, now)
    return state, (events.Register(state.generation),)


def _prepared(state: RunnerState, event: events.Prepared, now: float) -> Decision:
    state = dataclasses.replace(state, prepared=event)
    if state.phase != PREPARING:
        return state, ()
    if event.refusal is not None:
        state = dataclasses.replace(state, generation=max(state.wanted, state.requested))
        return _report(state, event.refusal, now)
    if state.wanted:
        return _answer(state, now)
    # The coordinator starts at the same time as the first containers.
    return dataclasses.replace(state, phase=WAITING, deadline=_patience(state, now)), ()


def _learn(
    state: RunnerState, event: events.ClusterFormed | events.ComponentsReleased
) -> RunnerState:
    if state.phase != WAITING:
        return state  # without a registration, or once it is over, nothing starts in this cluster
    if isinstance(event, events.ComponentsReleased):
        if event.generation == state.generation:
            return dataclasses.replace(state, released=event.components)
    elif event.cluster.generation == state.generation and _is_mine(state, event.cluster):
        return dataclasses.replace(state, cluster=event.cluster)
    return state


def _is_mine(state: RunnerState, cluster: Cluster) -> bool:
    """Whether this runner, and not a replacement, is a member of the cluster."""
    containers = [m.container for m in cluster.members if m.instance == state.instance]
    if not containers:
        return not cluster.members
    return containers[0] in ("", state.container)


def _maybe_start(state: RunnerState) -> Decision:
    if state.phase != WAITING or state.cluster is None:
        return state, ()
    if state.component in state.cluster.held and state.component not in state.released:
        # Others start first, and how long they take is the coordinator's business.
        return dataclasses.replace(state, deadline=None), ()
    return dataclasses.replace(state, phase=STARTING, deadline=None), (
        events.Choose(state.cluster),
    )


def _chosen(state: RunnerState, program: Program, now: float) -> Decision:
    if state.phase != STARTING:
        return state, ()
    if state.wanted > state.generation:
        return _answer(state, now)
    if state.stop is not None:
        return _report(state, NEVER_RAN, now)
    return dataclasses.replace(state, phase=RUNNING), (events.Launch(program),)


def _order(state: RunnerState, order: Order, now: float) -> Decision:
    if order.generation < max(state.generation, state.requested):
        return state, ()  # for an earlier program, or an earlier container of this instance
    if order.action == "restart":
        return _restart(state, order)
    if order.action == "exit":
        if state.phase == REPORTED:
            return dataclasses.replace(state, phase=DONE, deadline=None), (events.Leave(),)
        return state, ()
    if order.action != "stop" or state.phase in (STOPPING, REPORTED):
        return state, ()
    if state.phase in (RUNNING, HANGING):
        return _stop(state, order, now)
    if state.phase in (STARTING, REPLACED):
        return dataclasses.replace(state, stop=order), ()
    state = dataclasses.replace(state, generation=max(state.generation, order.generation))
    return _report(dataclasses.replace(state, stop=order), NEVER_RAN, now)


def _restart(state: RunnerState, order: Order) -> Decision:
    cluster, over = state.cluster, state.phase == REPORTED
    again = order.generation == state.generation and order.attempt > state.attempt
    if not (over and again) or cluster is None:
        return state, ()
    state = dataclasses.replace(
        state, phase=STARTING, attempt=order.attempt, stop=None, verdict=None, deadline=None
    )
    return state, (events.Restart(), events.Choose(cluster))


def _stop(state: RunnerState, order: Order, now: float) -> Decision:
    state = dataclasses.replace(state, phase=STOPPING, stop=order, deadline=now + order.grace)
    return state, (events.Stop(),) if order.grace > 0 else (events.Kill(),)


def _terminated(state: RunnerState, event: events.Terminated, now: float) -> Decision:
    if state.phase == RUNNING and event.saves > 0:
        return dataclasses.replace(
            state,
            phase=NOTICED,
            terminated=True,
            saved_by=now + event.saves,
            deadline=now + min(event.saves, NOTICE_LIMIT),
        ), ()
    unasked = state.phase in (RUNNING, HANGING)  # else it was asked before, or killed
    ask = (events.Stop(),) if unasked else ()
    lives = state.phase in (RUNNING, HANGING, STOPPING, REPLACED)
    phase, actions = (LEAVING, ask) if lives else (DONE, (events.Leave(),))
    return dataclasses.replace(state, phase=phase, terminated=True, deadline=None), actions


def _noticed(state: RunnerState, event: events.Event, now: float) -> Decision:
    """The program is asked to end when all have saved, or a newer generation or an order says that
    nobody waits for that."""
    if isinstance(event, events.SaveAsked) and not event.over:
        return dataclasses.replace(state, deadline=state.saved_by), ()
    if isinstance(event, events.Reached):  # nobody could ask until then
        later = max(state.deadline or 0.0, now + BACK_LIMIT)
        return dataclasses.replace(state, deadline=min(state.saved_by, later)), ()
    newer = isinstance(event, events.GenerationSeen) and event.number > state.wanted
    late = isinstance(event, events.Tick) and state.deadline is not None and now >= state.deadline
    if newer or late or isinstance(event, (events.SaveAsked, events.OrderGiven)):
        return dataclasses.replace(state, phase=LEAVING, deadline=None), (events.Stop(),)
    return state, ()


def _leaving(state: RunnerState, event: events.Event, now: float) -> Decision:
    if isinstance(event, events.Ended):
        return dataclasses.replace(state, phase=DONE), (events.Leave(),)
    return _noticed(state, event, now) if state.phase == NOTICED else (state, ())


def _unwell(
    state: RunnerState, event: events.Unwell | events.Hangs | events.StacksOver, now: float
) -> Decision:
    if isinstance(event, events.StacksOver):
        return _kill_hanging(state)
    if isinstance(event, events.Hangs):
        return _hangs(state, event, now)
    if state.phase not in (RUNNING, HANGING) or event.attempt != state.current:
        return state, ()
    state = dataclasses.replace(state, phase=RUNNING, verdict=event.exit, deadline=None)
    return state, (events.Kill(),)


def _hangs(state: RunnerState, event: events.Hangs, now: float) -> Decision:
    if state.phase != RUNNING or state.verdict is not None or event.attempt != state.current:
        return state, ()
    return dataclasses.replace(state, phase=HANGING, hang=event.exit, deadline=now + HANG_LIMIT), ()


def _kill_hanging(state: RunnerState) -> Decision:
    """The end of a program that hangs, unless it has ended by itself meanwhile."""
    if state.phase != HANGING:
        return state, ()
    state = dataclasses.replace(state, phase=RUNNING, verdict=state.hang, deadline=None)
    return state, (events.Kill(),)


def _ended(state: RunnerState, event: events.Ended, now: float) -> Decision:
    """Reports a program that ended before it could be killed for the next generation: its end may
    be the reason for that generation."""
    by_itself = state.verdict is not None or not (event.killed or state.stop)
    exit = state.verdict or event.exit
    exit = dataclasses.replace(exit, text=exit.text + event.remains)
    after, actions = _over(state, exit, now)
    if state.phase == REPLACED and by_itself:
        actions = (events.Report(state.generation, exit, False, state.attempt), *actions)
    return after, actions


def _over(state: RunnerState, exit: Exit, now: float) -> Decision:
    if state.phase == PREPARING or state.phase == REPORTED:
        return state, ()
    if state.wanted > state.generation:
        return _answer(state, now)
    return _report(state, exit, now)


def _report(state: RunnerState, exit: Exit, now: float) -> Decision:
    report = events.Report(state.generation, exit, state.stop is not None, state.attempt)
    return dataclasses.replace(
        state,
        phase=REPORTED,
        # An order may have come before the generation that it is for.
        wanted=max(state.wanted, state.generation),
        deadline=None,  # what comes next is the coordinator's business
    ), (report,)


def _tick(state: RunnerState, now: float) -> Decision:
    if state.deadline is None or now < state.deadline:
        return state, ()
    if state.phase == HANGING:
        return _kill_hanging(state)
    if state.phase == STOPPING:
        return dataclasses.replace(state, deadline=None), (events.Kill(),)
    waited = f"{state.gang + GANG_MARGIN:g} s"
    if state.generation:
        text = f"no cluster was formed within {waited} of its answer"
    else:
        text = f"no coordinator was heard of for {waited}"
        state = dataclasses.replace(state, generation=state.requested)
    return _report(state, Exit(None, None, "deadline", text), now)


def _patience(state: RunnerState, now: float) -> float:
    """The time at which a runner that waits for the coordinator gives up."""
    return now + state.gang + GANG_MARGIN
