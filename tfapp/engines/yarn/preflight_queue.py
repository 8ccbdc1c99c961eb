"""Checks whether a queue accepts applications, before submission. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence

from tfapp.engines.yarn.cluster import Queue
from tfapp.engines.yarn.scheduler import QueueRules
from tfapp.problems import Position, Problem

_SHOWN = 20  # names in one message


def check_queue(
    name: str, queues: Sequence[Queue], rules: QueueRules | None = None
) -> Iterator[Problem]:
    """An error if the queue does not exist or accepts no applications."""
    at = Position(f"--queue {name}")
    found = queue_facts(name, queues, rules)
    missing = not found and not _may_be_made(name, queues) if rules is None else rules.missing
    if rules is not None and rules.children:
        message = f"queue {name!r} takes no applications: it consists of other queues"
        yield Problem(at, "queue", message, hint=f"Name one of {', '.join(rules.children)}.")
    elif missing:
        names = sorted(queue.name for queue in queues)
        message = f"there is no queue {name!r} on the cluster"
        yield Problem(at, "queue", message, hint=offer(name, names, "Queues"))
    elif found and not any(queue.running for queue in found):
        message = f"queue {name!r} is stopped: it takes no applications"
        names = sorted(queue.name for queue in queues if queue.running)
        yield Problem(at, "queue", message, hint=f"Queues that do: {', '.join(names)}.")


def queue_refused(name: str, user: str) -> Problem:
    """The error if the ResourceManager refuses an application because of the permissions of its
    queue."""
    message = f"queue {name!r} takes no applications of {user}"
    hint = "Name another queue, or ask for the right to submit to this one."
    return Problem(Position(f"--queue {name}"), "queue", message, hint=hint)


def queue_facts(name: str, queues: Sequence[Queue], rules: QueueRules | None) -> tuple[Queue, ...]:
    """The queues that `name` may denote. With the data of Skein's driver there can be several: of a
    path it knows only the last name with the capacity scheduler, but the whole path with the fair
    scheduler."""
    if rules is not None:
        return () if rules.queue is None else (rules.queue,)
    known = (name, f"root.{name}", name.rpartition(".")[2])
    return tuple(queue for queue in queues if queue.name in known)


def _may_be_made(name: str, queues: Sequence[Queue]) -> bool:
    """Whether YARN may create the queue `name`, as far as Skein's driver tells: below an existing
    queue, or by the placement rules of the fair scheduler, whose queues are paths."""
    return "." in name or all("." in queue.name for queue in queues)


def offer(name: str, known: Iterable[str], what: str) -> str:
    """A hint with the close match to `name` and all of `known`."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    more = ", ..." if len(names) > _SHOWN else ""
    listed = f"{what}: {', '.join(names[:_SHOWN])}{more}."
    return f"Did you mean {close[0]!r}? {listed}" if close else listed
