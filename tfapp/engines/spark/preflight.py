"""Finds requests that the SparkContext of an application cannot fulfil, before submission."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tfapp.engines.spark import session
from tfapp.engines.spark.executor_python import unfit
from tfapp.problems import ERROR, WARNING, Position, Problem, has_errors

if TYPE_CHECKING:
    from pyspark import SparkContext

    from tfapp.compiler.compile import Compiled
    from tfapp.contract.job import ComponentJob
    from tfapp.package.model import ComponentResources

RULE = "spark"
_MORE_SLOTS = (
    "give Spark more with spark.cores.max, or spark.executor.instances and spark.executor.cores, "
    "or ask for fewer instances"
)


def check(context: SparkContext, compiled: Compiled, fed: bool = False) -> Iterator[Problem]:
    """Requests that the SparkContext cannot fulfil, or may not, with their positions. `fed`:
    whether the same context feeds the programs."""
    on_executors = []
    for component in compiled.job.components:
        if not component.instances:
            continue
        if component.settings.flag("spark.on.driver"):
            if component.container.gpus:
                yield Problem(
                    _at(compiled, component, "yarn.gpus"),
                    RULE,
                    "site.global.spark.on.driver: GPUs are given out on executors alone",
                    hint="leave yarn.gpus out; programs on the driver's machine see no GPU",
                )
        else:
            on_executors.append(component)
            yield from _placement(compiled, component)
    yield from _memory(context, compiled, on_executors)
    yield from _python_memory(context, compiled, on_executors)
    yield from _protection(context, on_executors)
    slots = tuple(_slots(context, compiled, on_executors, fed))
    yield from slots
    if on_executors and not has_errors(slots):
        yield from _python(context, compiled, on_executors)


def _python(
    context: SparkContext, compiled: Compiled, components: Sequence[ComponentJob]
) -> Iterator[Problem]:
    """Checks the interpreter that runs tfapp's part of a container, unless the application ships
    one."""
    there = next((c.python for c in components if c.name not in compiled.environments), None)
    if there is not None and (words := unfit(context, there)):
        yield Problem(
            Position("SparkSession"),
            RULE,
            f"Python {words}",
            hint="executors need a Python of the driver's version with grpcio and protobuf, which "
            "TensorFlow brings: PYSPARK_PYTHON, or site.global.python.runner",
        )


def _slots(
    context: SparkContext, compiled: Compiled, components: Sequence[ComponentJob], fed: bool
) -> Iterator[Problem]:
    """Compares the containers with the slots of the executors. A container occupies its slot, so
    feeding needs another one."""
    if not components:
        return
    per_task = session.cores_of_task(context)
    # What joins later would take the slot that feeding needs.
    counts = [component.instances if fed else component.needed for component in components]
    cores = sum(c.container.vcores * count for c, count in zip(components, counts))
    containers = sum(counts)
    usual = cores == containers * per_task
    wanted = f"{containers} containers on executors{'' if usual else f' with {cores} cores'}"
    place = _at(compiled, components[-1], "yarn.component.instances")
    most = session.most_cores(context)
    if most is None:
        yield from _slots_now(context, place, wanted, cores + fed * per_task, fed)
        return
    have = f"Spark runs at most {most // per_task} tasks at a time"
    have += "" if usual else f", on {most} cores"
    if cores > most:
        yield Problem(
            place,
            RULE,
            f"{wanted}, and {have}",
            hint=f"each container holds a slot: {_MORE_SLOTS}",
        )
    elif fed and cores + per_task > most:
        yield Problem(
            place,
            RULE,
            f"{wanted} leave no slot from which they could be fed: {have}",
            hint=f"each container holds a slot, and feeding needs one more: {_MORE_SLOTS}",
        )


def _slots_now(
    context: SparkContext, place: Position, wanted: str, cores: int, fed: bool
) -> Iterator[Problem]:
    """A warning about the present slots, where Spark may start more executors."""
    slots, _ = session.slots(context)
    if not slots or session.allocates(context):
        return
    if cores > slots * session.cores_of_task(context):
        yield Problem(
            place,
            RULE,
            f"{wanted}{' and a slot from which they are fed' if fed else ''}, and Spark's "
            f"executors have {slots} slots now",
            WARNING,
            hint="the application waits for more until site.global.queue.timeout is over",
        )


def _python_memory(
    context: SparkContext, compiled: Compiled, components: Sequence[ComponentJob]
) -> Iterator[Problem]:
    """Checks spark.executor.pyspark.memory. Spark limits the address space of a task's Python by
    it, and child processes inherit the limit; TensorFlow maps several times the memory that it
    uses."""
    most = session.python_memory(context)
    if most is None or not components:
        return
    largest = max(components, key=lambda component: component.container.memory)
    memory = largest.container.memory
    yield Problem(
        _at(compiled, largest, "yarn.memory"),
        RULE,
        f"{session.PYTHON_MEMORY} limits each program's address space to {most} MiB"
        + (f", and this one asks for {memory} MiB" if memory > most else ""),
        ERROR if memory > most else WARNING,
        hint=f"before the session begins, leave {session.PYTHON_MEMORY} out and set "
        f"{session.OVERHEAD}: TensorFlow maps more than it uses",
    )


def _memory(
    context: SparkContext, compiled: Compiled, components: Sequence[ComponentJob]
) -> Iterator[Problem]:
    """Compares the memory of the programs with the overhead memory of executors. Programs run
    beside the executor's JVM, and the cluster manager ends an executor that exceeds heap plus
    overhead."""
    room = session.overhead_memory(context)
    if room is None:
        return
    alone = True
    for component in components:
        memory = component.container.memory
        if memory > room:
            alone = False
            yield Problem(
                _at(compiled, component, "yarn.memory"),
                RULE,
                f"{memory} MiB, and an executor has {room} MiB beside its heap",
                hint=_more(memory),
            )
    cores = session.executor_cores(context)
    most = _most_memory(components, cores)
    if alone and most > room:
        largest = max(components, key=lambda component: component.container.memory)
        yield Problem(
            _at(compiled, largest, "yarn.memory"),
            RULE,
            f"an executor has {cores} cores, so containers of {most} MiB together can be on it, "
            f"and {room} MiB beside its heap",
            WARNING,
            f"{_more(most)}; or fewer cores with spark.executor.cores",
        )


def _more(memory: int) -> str:
    return f"before the session begins, set {session.OVERHEAD}={memory}m or more"


def _most_memory(components: Sequence[ComponentJob], cores: int) -> int:
    """The largest sum of memory, in MiB, of containers that fit on `cores` cores together."""
    most = [0] * (cores + 1)  # by the cores that they have at most
    for component in components:
        size = component.container
        for _ in range(min(component.instances, cores // size.vcores)):
            for used in range(cores, size.vcores - 1, -1):
                most[used] = max(most[used], most[used - size.vcores] + size.memory)
    return most[cores]


def _protection(context: SparkContext, components: Sequence[ComponentJob]) -> Iterator[Problem]:
    """A warning if Spark's connections are not protected: tasks carry the credentials of the
    application."""
    if components and (said := session.unprotected(context.getConf())):
        text, hint = said
        yield Problem(Position("SparkSession"), RULE, text, WARNING, hint)


def _placement(compiled: Compiled, component: ComponentJob) -> Iterator[Problem]:
    """Warnings for keys that have no effect on Spark."""
    asked = _asked(compiled, component)
    for key in ("yarn.label.expression", "yarn.nodes", "yarn.racks"):
        if asked is not None and key in asked.positions:
            yield Problem(
                asked.positions[key],
                RULE,
                f"{key}: Spark places tasks by itself",
                hint="remove it; site.global.spark.on.driver: true is the driver's machine",
            )


def _at(compiled: Compiled, component: ComponentJob, key: str) -> Position:
    asked = _asked(compiled, component)
    return asked.place(key) if asked is not None else Position(component.name, 1, 1)


def _asked(compiled: Compiled, component: ComponentJob) -> ComponentResources | None:
    return compiled.plan.components[component.name].asked if compiled.plan else None
