"""A world for the coordinator's policy: a clock, a master and runners, all pretended.

A history is text, one happening a line: `TIME WHO WHAT...`, in seconds, for example

    1 worker/0 answers          5 worker/0 exits 3        6 worker/1 lost
    1 all answer                5 worker/1 killed 9       7 stop enough of it
    2 worker/1 falls silent     8 paused 30               9 worker/1 refused too big
    6 worker/1 preempted        9 flex worker +1          9 worker/1 hangs
    9 worker/1 starts too late  1 worker/1 beats            9 worker/1 had died 9
    6 worker/1 is taken for dead
    6 worker/1 is cut off        7 worker/0 exits 3 stuck a last line
    1 worker/1 waits queue      2 worker/1 granted        5 full quota      9 full -
    7 worker/0 exits 3 mute      7 worker/0 reports 100 loss=0.5    7 worker/0 reports - loss=0.5
    1 worker/0 saves             1 worker/0 saves alone             1 worker/0 saves after 2
    1 worker/0 saves never       3 worker/0 is asked to leave      1 worker/0 on node-1

The first container of an instance is there when the history begins; `refused` is every later one.
While a scheduler is `full`, it holds each later one back. Nobody is heard of who `waits` for it.

Runners beat every `limits.heartbeat` seconds, say at once that their program runs, and end it
half a second after an order to stop, and at once for a new generation. Programs have got on when
they end, but for those that are `stuck`, or `mute`, which have written nothing either. `deaf`
runners do not obey, `silent` ones do not beat. Those `cut` off hear nothing, are not heard, and end
their program when the fence says so, even if the master takes their container for dead. A job
survives no failure unless `failure` says otherwise.

Programs that `save` before a planned stop make four steps a second together, so that none finishes
a step that another has not begun. They save a moment after they are asked, and `alone` at their own
step.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator
from typing import Any

from tests.contract_values import make_component, make_failure_policy, make_job, make_limits
from tfapp.contract.exit import Exit, container_message, read_container_message
from tfapp.contract.job import ComponentJob, FailurePolicy, Job, Limits
from tfapp.contract.messages import Answer, Beat, Cluster, ExitReport, FlexRequest, Order
from tfapp.contract.names import GRANTED, ROLES, initial_container, parse_instance
from tfapp.contract.saving import HOLD, SAVE, InstanceSave, SaveRequest
from tfapp.contract.status import ApplicationStatus
from tfapp.coordinator.policy import actions, events
from tfapp.coordinator.policy.events import ContainerInfo
from tfapp.coordinator.policy.state import FINISHED, new_state
from tfapp.coordinator.policy.step import next_deadline, step
from tfapp.engines.yarn.nodes import reason_of
from tfapp.frozen import replace

TICK = 1.0
OBEYS_AFTER = 0.5
DEFAULTS = make_limits()
NEVER = make_failure_policy(max_restarts=0, max_losses=0)
STORE_ACTIONS = (actions.Announce, actions.PublishCluster, actions.PublishReleased)


def component(
    name: str, instances: int, requires: tuple[str, ...] = (), least: int = 0
) -> ComponentJob:
    return make_component(
        name=name,
        role=name if name in ROLES else "other",
        instances=instances,
        site={"site.global.user.checkpoint.prefix": "/checkpoints"},
        requires=requires,
        elastic_min=least,
    )


def job(
    layout: str,
    success: tuple[str, ...] = (),
    limits: Limits = DEFAULTS,
    failure: FailurePolicy = NEVER,
) -> Job:
    """ "chief=1 ps=2 worker=4:2>ps": instances, after : with how many a generation forms, and after
    > what they require. The default success policy unless one is given."""
    components = []
    for word in layout.split():
        name, _, rest = word.partition("=")
        count, _, requires = rest.partition(">")
        count, _, least = count.partition(":")
        required = tuple(filter(None, requires.split(",")))
        components.append(component(name, int(count), required, int(least or 0)))
    names = {c.name for c in components if c.instances}
    default = ("chief",) if "chief" in names else ("worker",) if "worker" in names else ()
    return make_job(
        *components, name="j", success=success or default, limits=limits, failure=failure
    )


def killed_by(signal: str) -> Exit:
    name = {"6": "SIGABRT", "9": "SIGKILL", "11": "SIGSEGV", "15": "SIGTERM"}[signal]
    return Exit(None, int(signal), "signal", f"killed by {name} ({signal})")


def host_of(instance: str) -> str:
    return f"host-{instance.replace('/', '-')}"


@dataclasses.dataclass
class Runner:
    instance: str
    container: str
    requested: float
    generation: int  # the one that it has heard of
    answered: bool = False
    program: bool = False
    ran: float = 0.0  # how long the program of the last generation did, unless it was reported
    attempt: int = 0
    began: float = 0.0
    reported: bool = False
    ended: bool = False  # the container
    silent: bool = False
    cut: bool = False
    killed: float = math.inf  # when it is taken for ended, of one that is cut off
    fence: float = math.inf  # who is cut off ends its program then
    deaf: bool = False
    obeys: float = math.inf
    held: str = ""  # by whom its container is
    granted: float = -math.inf  # since when no scheduler holds it back any more
    heard: bool = False  # by its answer or its heartbeat, which go on from then
    beat: float = math.inf  # when it is due
    sequence: int = 0
    reports: tuple[str, ...] = ()  # a step ("-" for none) and metrics, in place of made-up ones
    saves: bool = False  # as its program has said
    alone: bool = False
    hears: float = 0.1  # seconds until it does what it is asked
    asked: SaveRequest | None = None
    does: float = math.inf  # when it does that
    saved: bool = False
    leaves: bool = False


class World:
    def __init__(self, job: Job, refused: tuple[str, ...] = (), seed: int = 0):
        self.job = job
        self.seed = seed
        self.state = new_state(job)
        self.now = 0.0
        self.runners: dict[str, Runner] = {}  # of each instance the newest
        self.everybody: list[Runner] = []
        self.new: dict[str, Runner] = {}  # of which the master has told nothing yet
        self.generation = 0
        self.messages: dict[str, str] = {}  # container -> what the master says of its end
        self.logs: dict[str, str] = {}  # instance -> what its containers' logs say
        self.replies: list[str] = []
        self.reports: tuple[str, ...] = ()  # of runners without some of their own
        self.refused = dict.fromkeys(refused, "too big")
        self.actions: list[actions.Action] = []
        self.log: list[str] = []  # what was ordered and published, readable
        self.store_calls = 0
        self.cluster: Cluster | None = None
        self.held: set[str] = set()
        self.holds = math.inf  # the step that some have begun, and after which they wait
        self.nodes: dict[str, str] = {}  # instance -> machine of its next container
        self.full = ""  # the kind of scheduler that holds every new container back
        self.checks: list = []  # called with (world, state before, event, actions) at each step

    # -- the master --
    def feed(self, *happened: events.Event) -> None:
        for event in happened:
            before = self.state
            self.state, wanted = step(self.state, event)
            for check in self.checks:
                check(self, before, event, wanted)
            self.actions.extend(wanted)
            self.store_calls += any(isinstance(a, actions.SendOrders) for a in wanted)
            self.store_calls += sum(isinstance(a, STORE_ACTIONS) for a in wanted)
            self.carry_out(wanted)

    def carry_out(self, wanted: Iterable[actions.Action]) -> None:
        """What the master tells of new containers arrives when all is done (`Loop._handle`)."""
        for action in wanted:
            self.do(action)
        for action in wanted:
            if isinstance(action, actions.RequestContainer) and action.instance in self.new:
                runner = self.new.pop(action.instance)
                if runner.held:
                    self.hold(runner, runner.held)
                else:
                    self.grant(runner)

    def do(self, action: actions.Action) -> None:
        if isinstance(action, actions.RequestContainer):
            self.request(action)
        elif isinstance(action, actions.PublishCluster):
            self.cluster = action.cluster
            self.held = set(action.cluster.held)
            self.note(f"cluster {' '.join(m.instance for m in action.cluster.members)}")
            self.start_programs()
        elif isinstance(action, actions.PublishReleased):
            self.held -= set(action.components)
            self.note(f"released {' '.join(action.components)}")
            self.start_programs()
        elif isinstance(action, actions.SendOrders):
            for name, order in action.orders.items():
                self.order(name, order)
        elif isinstance(action, actions.Announce):
            self.announce(action)
        elif isinstance(action, actions.ReplyFlex):
            self.replies.append(action.reply.text)
        elif isinstance(action, actions.KillContainer):
            runner = next(r for r in self.everybody if r.container == action.container)
            self.note(f"kill {runner.instance}")
            if runner.cut and runner.program:
                runner.killed = max(self.now, runner.beat + 2 * self.job.limits.heartbeat)
            else:
                self.end_container(runner)
        elif isinstance(action, actions.ListContainers):
            self.feed(events.Listed(self.now, self.containers(action.log_of)))
        elif isinstance(action, actions.PublishSave):
            self.ask_to_save(action.request)
        elif isinstance(action, actions.LetSuspend):
            self.note("suspend")
        elif isinstance(action, actions.Shutdown):
            self.note("shutdown")

    def request(self, action: actions.RequestContainer) -> None:
        name = action.instance
        if name in self.refused:
            self.feed(events.Refused(self.now, name, self.refused[name]))
            return
        before = sum(r.instance == name for r in self.everybody)
        if before:
            off = f", not on {' and '.join(action.avoid)}" if action.avoid else ""
            self.note(f"another container for {name}{off}")
        runner = self.start_runner(name, f"-{before}" if before else "", action.generation)
        runner.held, self.new[name] = self.full, runner
        self.feed(events.Requested(self.now, name, runner.container))

    def hold(self, runner: Runner, kind: str) -> None:
        runner.held, text = kind, f"waiting for the {kind}"
        self.feed(events.Waits(self.now, runner.instance, runner.container, text, kind))

    def grant(self, runner: Runner) -> None:
        runner.held, runner.granted = "", self.now
        self.feed(events.Waits(self.now, runner.instance, runner.container, "", GRANTED))

    def ask_to_save(self, request: SaveRequest) -> None:
        at = "" if request.step is None else f" at {request.step}"
        self.note(f"{request.action}{at}")
        if request.action == HOLD:
            self.holds = math.inf
        for runner in self.living():
            if request.generation == runner.generation:
                runner.asked, runner.does = request, self.now + runner.hears

    def save(self, runner: Runner) -> None:
        """Does what is asked, as `tfapp.program.saving` does."""
        request, runner.does = runner.asked, math.inf
        assert request is not None
        if request.action not in (HOLD, SAVE):
            runner.leaves = False  # its program is asked to end
            return
        part, step = runner.saves and runner.program, None
        if part and not runner.alone and request.action == HOLD:
            step = min(int(4 * self.now), self.holds)
            self.holds = min(self.holds, step + 1)
        elif part and not runner.alone and request.step is not None:
            assert self.holds <= request.step, "nobody is further than the step that is named"
            step = request.step
        runner.saved = part and request.action == SAVE
        told = InstanceSave(request.id, runner.instance, runner.container, part, step, runner.saved)
        self.feed(events.SaveTold(self.now, told))

    def start_runner(self, name: str, suffix: str = "", generation: int = 1) -> Runner:
        runner = Runner(name, initial_container(name) + suffix, self.now, generation)
        self.runners[name] = runner
        self.everybody.append(runner)
        return runner

    def announce(self, action: actions.Announce) -> None:
        if action.generation > self.generation > 0:
            self.note(f"generation {action.generation}")
        self.generation = action.generation
        for runner in self.everybody:
            if runner.ended or runner.cut or runner.generation >= self.generation:
                continue
            runner.ran = self.now - runner.began if runner.program else 0.0
            runner.generation, runner.attempt, runner.obeys = self.generation, 0, math.inf
            runner.saves, runner.does, runner.saved = False, math.inf, False
            runner.answered = runner.program = runner.reported = False
            runner.beat = self.now + self.job.limits.heartbeat

    def containers(self, log_of: str = "") -> dict[str, ContainerInfo]:
        return {runner.container: self.info(runner, log_of) for runner in self.everybody}

    def info(self, runner: Runner, log_of: str) -> ContainerInfo:
        name = runner.container
        if not runner.ended:
            return ContainerInfo("REQUESTED") if runner.held else ContainerInfo("RUNNING", "h")
        log = self.logs.get(runner.instance, "") if name == log_of else ""
        message, reason = read_container_message(self.messages.get(name, "out of luck"))
        return ContainerInfo("FAILED", "", message, log, reason or reason_of(message))

    def end_container(self, runner: Runner, program: bool = False) -> None:
        if not runner.ended:
            runner.ended, runner.obeys = True, math.inf
            runner.program = program
            self.feed(events.ContainerEnded(self.now, runner.instance, runner.container))

    # -- the runners --
    def answer(self, name: str) -> None:
        """Whoever has or had this number, the oldest first: one that leaves answers too."""
        for runner in [r for r in self.everybody if r.instance == name]:
            if runner.answered or runner.ended or runner.reported or runner.cut or runner.held:
                continue
            runner.answered = runner.heard = True
            runner.granted = self.now if runner.granted < 0 else runner.granted
            runner.beat = self.now + self.job.limits.heartbeat
            node = self.nodes.get(name, "")
            answer = Answer(runner.generation, name, host_of(name), runner.container, {}, node=node)
            self.feed(events.Answered(self.now, answer))

    def start_programs(self) -> None:
        assert self.cluster is not None
        members = {(m.instance, m.container) for m in self.cluster.members}
        for name, runner in tuple(self.runners.items()):
            held = parse_instance(name)[0] in self.held
            member = (name, runner.container) in members
            if runner.generation != self.cluster.generation or not member or runner.cut:
                continue
            if runner.answered and not (held or runner.program or runner.ended or runner.reported):
                self.start_program(runner)

    def start_program(self, runner: Runner) -> None:
        same = (r for r in self.everybody if r.instance == runner.instance)
        # Without a fence nobody can know of those that are cut off.
        living = [r.container for r in same if r.program and (r.fence < math.inf or not r.cut)]
        assert not living, f"{runner.instance}: {living} still have a program"
        runner.program, runner.began = True, self.now
        runner.saves = runner.saved = False
        if not runner.silent:
            self.beat(runner.instance)

    def beat(self, name: str) -> None:
        runner = self.runners[name]
        runner.heard = True
        runner.granted = self.now if runner.granted < 0 else runner.granted
        runner.beat = self.now + self.job.limits.heartbeat
        runner.sequence += 1
        state = "running" if runner.program else "waiting"
        state = "leaving" if runner.leaves and runner.program else state
        self.feed(events.Beaten(self.now, name, self.said(runner, state)))

    def said(self, runner: Runner, state: str) -> Beat:
        host = host_of(runner.instance)
        beat = Beat(
            runner.generation,
            runner.sequence,
            state,
            container=runner.container,
            host=host,
            saves=runner.saves,
        )
        return replace(beat, **self.measured(runner)) if runner.program else beat

    def measured(self, runner: Runner) -> dict[str, Any]:
        """A runner's heartbeat with its program's metrics. One names the instance."""
        if reports := runner.reports or self.reports:
            step, *pairs = reports
            values = {name: float(value) for name, _, value in (p.partition("=") for p in pairs)}
            return {"metrics": values, "step": None if step == "-" else int(step)}
        metrics = {"age": self.now - runner.began, runner.instance: 1.0}
        return {"metrics": metrics, "step": runner.sequence, "steps_per_second": 1.0}

    def report(
        self,
        name: str,
        exit: Exit,
        stopped: bool = False,
        last: str = "the end",
        progressed: bool = True,
    ) -> None:
        runner = self.runners[name]
        if runner.reported or runner.ended or runner.cut or runner.held:
            return
        seconds = self.now - runner.began if runner.program else 0.0
        measured = self.measured(runner) if runner.program else {}
        runner.reported = runner.heard = True
        runner.program, runner.obeys = False, math.inf
        self.feed(
            events.Exited(
                self.now,
                ExitReport(
                    runner.generation,
                    name,
                    runner.container,
                    host_of(name),
                    exit,
                    stopped,
                    last,
                    seconds,
                    runner.attempt,
                    progressed,
                    **measured,
                ),
            )
        )

    def report_late(self, name: str, exit: Exit) -> None:
        """Its program had ended by itself when the last generation was announced."""
        runner = self.runners[name]
        if runner.answered or runner.ended or runner.cut or not runner.ran:
            return
        host, seconds, runner.ran = host_of(name), runner.ran, 0.0
        report = ExitReport(
            runner.generation - 1, name, runner.container, host, exit, False, "the end", seconds
        )
        self.feed(events.Exited(self.now, report))

    def order(self, name: str, order: Order) -> None:
        runner = self.runners[name]
        if order.action == "exit":
            if runner.reported:
                self.end_container(runner)
            return
        if order.action == "restart":
            self.note(f"restart {name}")
            if not runner.ended and not runner.cut:
                assert runner.reported
                runner.reported, runner.attempt = False, order.attempt
                self.start_program(runner)
            return
        self.note(f"stop {name} {order.grace:g}")
        if not runner.deaf:
            runner.obeys = self.now + OBEYS_AFTER

    def cut(self, runner: Runner) -> None:
        """Its fence counts from its last beat, if there is a fence."""
        limits = self.job.limits
        if not runner.cut:
            runner.cut = True
            last = runner.beat - limits.heartbeat if runner.heard else self.now
            runner.fence = last + limits.heartbeat_lost if limits.heartbeat_lost else math.inf

    def note(self, text: str) -> None:
        self.log.append(f"{self.now:g} {text}")

    # -- time --
    def begin(self) -> None:
        for name in self.state.instances:
            self.start_runner(name)
        self.feed(events.Started(self.now, seed=self.seed))
        self.feed(events.Tick(self.now))

    def lose_master(self, earlier: ApplicationStatus, before: float) -> None:
        """The master ends, and all containers with it. Another one goes on from the record
        `earlier`, `before` seconds after the application's start."""
        self.everybody, self.runners, self.cluster, self.held = [], {}, None, set()
        self.state, self.generation = new_state(self.job), 0
        for name in self.state.instances:
            self.start_runner(name)
        self.feed(events.Started(self.now, earlier, before, lost=True))
        self.feed(events.Tick(self.now))

    def advance(self, until: float) -> None:
        """Lets time pass; the coordinator wakes for deadlines and every TICK."""
        while self.now < until and self.state.phase != FINISHED:
            due = [self.wakes(), self.now + TICK, until]
            due += [min(r.obeys, r.beat, r.does) for r in self.living()]
            due += [min(r.fence, r.killed) for r in self.everybody if r.program]
            self.now = max(self.now, min(due))
            self.run_runners()
            self.feed(events.Tick(self.now))
        self.now = max(self.now, until)

    def wakes(self) -> float:
        """When the coordinator has something to do, if it hears of nothing."""
        return next_deadline(self.state)

    def pause(self, seconds: float) -> None:
        """The coordinator stands still; what happens meanwhile is queued."""
        self.now += seconds
        self.run_runners()
        self.feed(events.Tick(self.now))

    def living(self) -> list[Runner]:
        return [r for r in self.runners.values() if r.heard and not (r.ended or r.silent or r.cut)]

    def run_runners(self) -> None:
        for runner in self.everybody:
            if runner.fence <= self.now:
                runner.program = False
            if runner.killed <= self.now:  # an engine has noticed that its machine is silent
                runner.killed = math.inf
                self.end_container(runner, program=runner.program)
        for name, runner in tuple(self.runners.items()):
            if runner.ended or runner.silent or runner.cut or not runner.heard:
                continue
            if runner.obeys <= self.now:
                text = "killed by SIGTERM (15)"
                self.report(name, Exit(None, 15, "signal", text), stopped=True)
                continue
            if runner.beat <= self.now:
                self.beat(name)
            if runner.does <= self.now and runner is self.runners.get(name):
                self.save(runner)

    # -- histories as text --
    def play(self, history: str) -> World:
        for _ in self.played(history):
            pass
        return self

    def played(self, history: str) -> Iterator[str]:
        """Each line, when it has happened."""
        lines = [line.split() for line in history.strip().splitlines()]
        for who, what, *rest in (words[1:] for words in lines if words[2:3] == ["refused"]):
            assert what == "refused"
            self.refused[who] = " ".join(rest)
        self.begin()
        for when, *words in lines:
            self.advance(float(when))
            if words and words[1:2] != ["refused"]:
                self.happen(*words)
                self.feed(events.Tick(self.now))
            yield " ".join((when, *words))

    def happen(self, who: str, *what: str) -> None:
        text = " ".join(what)
        if who == "all":
            for name in tuple(self.runners):
                self.answer(name)
        elif who == "stop":
            self.feed(events.StopRequested(self.now, text))
        elif text == "leaves":
            self.feed(events.MasterLeaves(self.now))
        elif who == "suspend":
            self.feed(events.MasterLeaves(self.now, saves=True))
        elif who == "flex":
            self.feed(events.FlexRequested(self.now, FlexRequest("f", what[0], what[1])))
        elif what[0] == "on":
            self.nodes[who] = what[1]
        elif who == "full":
            self.full = text.strip("-")
        elif what[0] == "waits":
            self.hold(self.runners[who], what[1])
        elif what[0] == "granted":
            self.grant(self.runners[who])
        elif who == "paused":
            self.pause(float(text))
        elif what[0] == "answers":
            self.answer(who)
        elif what[0] == "beats":
            self.beat(who)
        elif what[0] == "reports":
            self.runners[who].reports = what[1:]
            self.beat(who)
        elif what[0] == "saves":
            runner = self.runners[who]
            runner.saves, runner.alone = True, what[1:] == ("alone",)
            if what[1:2] == ("after",):
                runner.hears = float(what[2])
            elif what[1:] == ("never",):
                runner.hears = math.inf
            self.beat(who)
        elif text == "is asked to leave":
            self.runners[who].leaves = True
            self.beat(who)
        elif what[0] == "exits":
            exit = Exit(int(what[1]), None, "exit", f"exit code {what[1]}")
            last = "" if what[2:] == ("mute",) else " ".join(what[3:]) or "the end"
            self.report(who, exit, last=last, progressed=not what[2:])
        elif what[0] == "killed":
            self.report(who, killed_by(what[1]))
        elif what[:2] == ("had", "died"):
            self.report_late(who, killed_by(what[2]))
        elif what[0] == "cannot-start":
            self.report(who, Exit(None, None, "start", " ".join(what[1:])))
        elif what[0] == "script":
            self.report(who, Exit(None, None, "script", " ".join(what[1:])))
        elif text == "starts too late":
            late = "start() did not return within 60 s"
            self.report(who, Exit(None, None, "timeout", late))
        elif what[0] == "lost":
            self.end_container(self.runners[who])
        elif what[0] == "preempted":
            runner = self.runners[who]
            self.messages[runner.container] = "Container preempted by scheduler"
            self.end_container(runner)
        elif what[0] == "requeued":
            runner = self.runners[who]
            told = container_message("its pod was evicted by Kueue", "requeued")
            self.messages[runner.container] = told
            self.end_container(runner)
        elif what[0] == "hangs":
            self.report(who, Exit(None, 9, "hang", "its process was stopped"))
        elif text == "falls silent":
            self.runners[who].silent = True
        elif text == "is cut off":
            self.cut(self.runners[who])
        elif text == "is taken for dead":
            runner = self.runners[who]
            self.messages[runner.container] = "Container released on a *lost* node"
            self.end_container(runner, program=runner.program and runner.cut)
        elif text == "is deaf":
            self.runners[who].deaf = True
        else:
            raise ValueError(f"{who} {text}")
