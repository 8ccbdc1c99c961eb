"""What an application asks for that its SparkContext can never give, or may not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tfapp.engines.spark import session
from tfapp.problems import WARNING, Position, Problem

if TYPE_CHECKING:
    from pyspark import SparkContext

    from tfapp.compiler.compile import Compiled
    from tfapp.contract.job import ComponentJob

RULE = "spark"


def check(context: SparkContext, compiled: Compiled) -> Iterator[Problem]:
    """Each with its place."""
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
    yield from _protection(context, on_executors)
    most = session.most_slots(context)
    wanted = sum(component.instances for component in on_executors)
    if most is not None and wanted > most and on_executors:
        yield Problem(
            _at(compiled, on_executors[-1], "yarn.component.instances"),
            RULE,
            f"{wanted} containers on executors, and Spark runs at most {most} tasks at a time",
            hint="each container holds a slot: give Spark more with spark.cores.max, or "
            "spark.executor.instances and spark.executor.cores, or ask for fewer instances",
        )


def _memory(
    context: SparkContext, compiled: Compiled, components: Sequence[ComponentJob]
) -> Iterator[Problem]:
    """Programs are processes beside an executor's JVM, and a cluster manager ends an executor that
    has more than its heap and its overhead memory."""
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
    """MiB of the containers that fit on `cores` cores at a time, chosen to be the most."""
    most = [0] * (cores + 1)  # by the cores that they have at most
    for component in components:
        size = component.container
        for _ in range(min(component.instances, cores // size.vcores)):
            for used in range(cores, size.vcores - 1, -1):
                most[used] = max(most[used], most[used - size.vcores] + size.memory)
    return most[cores]


def _protection(context: SparkContext, components: Sequence[ComponentJob]) -> Iterator[Problem]:
    """Their tasks carry the application's credentials."""
    if components and (said := session.unprotected(context.getConf())):
        text, hint = said
        yield Problem(Position("SparkSession"), RULE, text, WARNING, hint)


def _placement(compiled: Compiled, component: ComponentJob) -> Iterator[Problem]:
    """Keys that would be ignored."""
    asked = compiled.package.resources.get(component.name) if compiled.package else None
    for key in ("yarn.label.expression", "yarn.nodes", "yarn.racks"):
        if asked is not None and key in asked.positions:
            yield Problem(
                asked.positions[key],
                RULE,
                f"{key}: Spark places tasks by itself",
                hint="remove it; site.global.spark.on.driver: true is the driver's machine",
            )


def _at(compiled: Compiled, component: ComponentJob, key: str) -> Position:
    asked = compiled.package.resources.get(component.name) if compiled.package else None
    return asked.place(key) if asked is not None else Position(component.name, 1, 1)
