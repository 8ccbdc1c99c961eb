"""Shows the state of an application and of its instances, and after its end the verdict. Works
while the application runs and after its end.

  tfapp status mnist --format json
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator

from tfapp.cli.console import clock_ahead, columns, duration, fact_lines, when
from tfapp.cli.flags import add_shown, engine_of
from tfapp.cli.json_output import application as as_json
from tfapp.cli.shell import Shell
from tfapp.contract.names import exported_pages
from tfapp.contract.status import ApplicationStatus, InstanceStatus, how_long
from tfapp.contract.usage import Usage, amount
from tfapp.engines.base import Application
from tfapp.launch.display import measures, steps
from tfapp.launch.sources import package_of
from tfapp.page.document import (
    advice_in_words,
    feed_in_words,
    outputs_in_words,
    ran_in_words,
    waited_for_in_words,
)

INSIDE = (
    "pages of instances have addresses inside the cluster: `tfapp tensorboard {} --engine {}` "
    "leads to that of TensorBoard, `kubectl port-forward` to others"
)


add_arguments = add_shown


def run(args: argparse.Namespace, shell: Shell) -> None:
    engine = engine_of(args, shell)
    application = engine.find(args.name, args.run)
    package = package_of(shell, engine, application)
    if args.format == "json":
        shell.print(as_json(application, package))
    else:
        shell.print(text(application, package, shell.width))
        if not engine.reaches_pages and any(_pages(application)):
            shell.note(INSIDE.format(application.name, application.engine))


def text(application: Application, package: str, width: int | None) -> str:
    """All that the command shows, as lines of `width` columns."""
    status = application.status
    facts = [
        ("name", application.name),
        ("state", status.state),
        ("id", application.id),
        ("engine", application.engine),
        ("run", str(application.run or "")),
        ("started", f"{when(status.started)}{clock_ahead(status)}"),
        ("duration", duration(application)),
        *(("page", link.address) for link in application.links if not link.instance),
    ]
    size = f"{status.size} instances; the others join when they come"
    alone = bool(status.absent) and status.verdict is None
    places = (
        ("cluster", size if alone else ""),
        ("package", package),
        ("saves to", status.checkpoint_dir),
        ("logs", application.logs),
    )
    facts += [(name, place) for name, place in places if place]
    facts += ran_in_words(status)
    facts += [("waits", application.waits), ("slowest", waited_for_in_words(status))]
    if status.restarts != 0 or status.losses != 0:
        facts.append(("restarts", _restarts(status)))
    facts += [("last failure", moment.text) for moment in status.survived[-1:]]
    if status.feed:
        facts.append(("feed", feed_in_words(status)))
    if status.verdict:
        facts.append(("verdict", status.verdict.summary))
    facts += [("outputs", line) for line in outputs_in_words(status)]
    facts += [("advice", line) for line in advice_in_words(status)]
    lines = [fact_lines([fact for fact in facts if fact[1]], width)]
    if status.instances:
        rows = [_row(instance) for instance in status.instances]
        lines += ["", columns(("INSTANCE", "STATE", "HOST", "CONTAINER", "EXIT"), rows, width)]
    preparing = [(i.instance, i.preparing) for i in status.instances if i.preparing]
    if preparing:
        lines += ["", columns(("INSTANCE", "PREPARING"), preparing, width)]
    still = [(i.instance, when(i.no_step_since)) for i in status.instances if i.no_step_since]
    if still:
        lines += ["", columns(("INSTANCE", "NO STEP SINCE"), still, width)]
    measured = [_measured(i) for i in status.instances if i.metrics or i.step is not None]
    if measured:
        names: tuple[str, ...] = ("INSTANCE", "STEP", "STEPS/S", "LEFT", "METRICS")
        if all(i.left is None for i in status.instances):
            names, measured = names[:3] + names[4:], [row[:3] + row[4:] for row in measured]
        lines += ["", columns(names, measured, width)]
    used = [_used(i.instance, i.usage) for i in status.instances if i.usage is not None]
    if used:
        names = ("INSTANCE", "CPU", "MEMORY", "READ", "WRITTEN", "GPU")
        if not any(row[-1] for row in used):
            names, used = names[:-1], [row[:-1] for row in used]
        lines += ["", columns(names, used, width)]
    links = list(_links(application))
    if links:
        lines += ["", columns(("INSTANCE", "WHAT", "ADDRESS"), links, width)]
    return "\n".join(lines)


def _links(application: Application) -> Iterator[tuple[str, str, str]]:
    """Pages for a browser: those that instances of a running application export, and the engine's
    links to them and to their logs."""
    if not application.live:
        return
    yield from _pages(application)
    for link in application.links:
        if link.instance:
            yield link.instance, link.what, link.address


def _pages(application: Application) -> Iterator[tuple[str, str, str]]:
    if application.live:
        for instance in application.status.instances:
            for address in exported_pages(instance.exports):
                yield instance.instance, "page", address


def _restarts(status: ApplicationStatus) -> str:
    if status.restarts is None or status.losses is None:
        return "unknown"
    total = status.restarts + status.losses
    lost = f", {status.losses} of them after losses" if status.losses else ""
    return f"{total}{lost}; generation {status.generation}"


def _row(instance: InstanceStatus) -> tuple[str, ...]:
    task = "" if instance.task is None else f" (task {instance.task})"
    return (
        f"{instance.instance}{task}",
        instance.state,
        instance.host or "-",
        _container(instance),
        instance.exit.text.partition("\n")[0] if instance.exit else "-",
    )


def _measured(instance: InstanceStatus) -> tuple[str, ...]:
    without_step = dataclasses.replace(instance, step=None, steps_per_second=None, epoch=None)
    speed = instance.steps_per_second
    return (
        instance.instance,
        steps(instance).removeprefix("step ") or "-",
        "-" if speed is None else f"{speed:.3g}",
        "-" if instance.left is None else how_long(instance.left),
        measures(without_step, most=len(instance.metrics)) or "-",
    )


def _used(instance: str, usage: Usage) -> tuple[str, ...]:
    moved = (amount(usage.read), amount(usage.written))
    return (instance, usage.processor, usage.memory_in_words, *moved, usage.gpu_in_words)


def _container(instance: InstanceStatus) -> str:
    if instance.docker:
        return f"{instance.container} (docker {instance.docker[:12]})"
    return instance.container or "-"
