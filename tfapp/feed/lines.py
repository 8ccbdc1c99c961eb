"""The lines of the feed: all messages that the driver, the programs and Spark's tasks send each
other, each with the values that are possible. `Line` carries them as JSON. This module is shipped
to executors and to programs, so it uses the standard library only.

Each table has the lines of one sender to one receiver. The first key of a line here is its kind: a
line that has this key is of the kind. Arrows show the answers, which tasks do not check: they trust
the driver and the programs.

The side that gets an impossible line, or one that is not possible now, answers with an error that
names both sides. Nothing changes, but for a connection between the driver and a program: the feed
ends there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tfapp.feed.wire import ImpossibleError, shown

# A possible value: a whole number from this one on, of this type, a list of such values, a list
# with these values one by one, or an object with these keys and maybe others.
Shape = Any
COUNT, POSITIVE, TEXT, FLAG = 0, 1, str, bool


class Maybe(NamedTuple):
    """A value of this shape, or null."""

    shape: Shape


PART = (COUNT, COUNT)  # a partition: the numbers of the pass and of the partition
FEATURE = {"name": TEXT, "dtype": TEXT, "shape": [COUNT]}  # see tfapp.feed.columns
# Rows of a partition from number `first` on, with their digest.
PIECE = {
    "part": PART,
    "rows": POSITIVE,
    "attempt": COUNT,
    "first": COUNT,
    "digest": Maybe(COUNT),  # null for pickles
}

# ---- The first line of a connection: {"role": ROLE, ...} ---------------------------------------
ROLES_AT_PROGRAM = {
    # From the driver. Other lines of both sides follow.
    "ledger": {
        "instance": TEXT,
        **dict.fromkeys(("feed", "generation", "worker", "seed"), COUNT),
    },
    "rows": {},  # from a task that sends rows
    "questions": {},  # from a task that asks
}
ROLES_AT_DRIVER: Mapping[str, Shape] = {"sender": {}, "asker": {}}  # tasks that send, or ask

# ---- Between the driver and a program ----------------------------------------------------------
FROM_PROGRAM = (
    {
        "ready": {  # the program takes batches from now on
            "batch": POSITIVE,  # rows
            "columns": Maybe([TEXT]),  # null for all
            "window": POSITIVE,  # rows that are shuffled together
            "state": Maybe((COUNT, COUNT, COUNT)),  # that was restored
            "objects": FLAG,  # whether rows may be pickles
        }
    },
    {"commit": COUNT, **PIECE},  # a task has sent these rows
    {"took": COUNT},  # rows that the program has taken in total
    {"consumed": COUNT},  # as many, when the program asks for more and none can be taken
    {"stop": FLAG},  # the program wants no more
    {"holds": COUNT},  # batches that were taken; no more are taken for now
    {"answers": FLAG},  # the program answers questions
    {"failed": TEXT},  # why the program cannot go on
)
FROM_DRIVER = (
    {"features": [FEATURE]},  # the columns
    {"entered": COUNT, "ok": FLAG},  # answers to commits, in their order
    {"batches": COUNT, "rest": COUNT, "over": FLAG},  # batches that may be taken in total
    {"hold": FLAG},  # no batch may be taken until the next line with "batches"
    {"unasked": FLAG},  # no more questions follow
    {"error": TEXT},
)

# ---- From a task to the driver, each with an answer --------------------------------------------
# Several partitions may follow one another. An answer can be {"error": "..."} too; or, but for that
# to "fail", {"finished": true} or {"superseded": true}, if another attempt has sent the partition.
# The latter comes only when the partition is finished: the task must not fail, and must not end
# well before that.
#
# If Spark cannot read a partition to its end, or the executor dies, the task sees the end of its
# input, and Spark fails the task only afterwards. So a finished partition counts only after Spark
# reports that the task has ended well. Until then another attempt may send the rows that follow.
FROM_SENDER = (
    # -> {"done": [[0, 64, 12], ...], "sent": [[64, 80, 7], ...], "pass": E, "objects": false}, see
    # `ledger.Opened`
    {"open": COUNT, "data": COUNT, "attempt": COUNT},
    {"features": [FEATURE]},  # -> {"features": [...]}, those of the first partition
    {"grant": COUNT, "rows": POSITIVE, "size": COUNT},  # -> {"pieces": [["host:port", 256], ...]}
    {"finish": COUNT},  # rows -> {"short": "..."} if they are too few
    {"refused": FLAG},  # a program has answered {"ok": false}
    {"lost": FLAG},  # a program is gone; the driver ends the job or the connection
    {"fail": TEXT},  # why this data cannot be fed, by any attempt -> {"failed": true}
)
FROM_ASKER = (
    {"route": COUNT},  # a partition -> {"address": "host:port", "objects": false}
    {"wrong": TEXT, "stage": COUNT},  # an error that every attempt would get
    {"lost": FLAG},  # a program is gone -> {"error": "..."} if the application has ended
)

# ---- From a task to a program ------------------------------------------------------------------
# Rows come with their line: see tfapp.feed.memory.
SHARES = ({"memory": {"process": COUNT, "file": COUNT, "name": TEXT}},)  # -> {"shared": true}
ROWS_FOLLOW = {"size": COUNT, "slot": Maybe(COUNT)}  # more keys of the following lines
ROWS = (PIECE,)  # -> {"ok": true}, once the ledger has committed the rows
# -> {"answer": K, "size": BYTES} and a batch, or {"answer": K, "error": "..."}. Answers may come in
# another order than the questions.
QUESTIONS = ({"question": COUNT, "rows": POSITIVE},)


def kind_of(said: Mapping[str, Any], lines: Sequence[Mapping[str, Shape]]) -> str:
    """The kind of a line, of those in `lines`. ImpossibleError if it is of no kind, or lacks a key,
    or has a value that is not possible."""
    for line in lines:
        kind = next(iter(line))
        if kind in said:
            check(said, line, kind)
            return kind
    raise ImpossibleError(f"{shown(json.dumps(said).encode())}, which is unknown here")


def role_of(hello: Mapping[str, Any], roles: Mapping[str, Shape]) -> str:
    """The role in the first line of a connection, of those in `roles`. ImpossibleError."""
    role = str(hello.get("role"))
    if role not in roles:
        raise ImpossibleError(f"the role {role!r}")
    check(hello, roles[role], "role")
    return role


def check(said: Mapping[str, Any], line: Mapping[str, Shape], kind: str) -> None:
    """ImpossibleError if a line of this kind lacks a key of `line`, or has another value there."""
    for key, shape in line.items():
        if not _is(said, {key: shape}):
            raise ImpossibleError(f"{kind!r} with {key!r}: {ascii(said.get(key))[:80]}")


def _is(value: Any, shape: Shape) -> bool:
    if isinstance(shape, Maybe):
        return value is None or _is(value, shape.shape)
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(
            key in value and _is(value[key], each) for key, each in shape.items()
        )
    if isinstance(shape, list):
        return isinstance(value, list) and all(_is(each, shape[0]) for each in value)
    if isinstance(shape, tuple):
        return isinstance(value, list) and len(value) == len(shape) and all(map(_is, value, shape))
    if isinstance(shape, int):
        return type(value) is int and value >= shape
    return isinstance(value, shape)
