"""Checks, by a job on one executor, that its Python has what a container needs."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tfapp import threads
from tfapp.contract.needs import question
from tfapp.engines.spark.session import first_words, slots

if TYPE_CHECKING:
    from pyspark import SparkContext

LIMIT = 30.0  # seconds for the answer; without one, nothing is said
_NUMBERS = itertools.count()
_FIT: set[tuple[str, str]] = set()  # (Spark's application, interpreter) that need no second look


def unfit(context: SparkContext, python: str) -> str:
    """Why containers cannot run with `python` on executors, as the end of a sentence that begins
    with "Python". "" if they can, and if no executor has a free slot for the check."""
    key = (str(context.applicationId), python)
    if key in _FIT or not slots(context)[1]:
        return ""
    answer = asked(context, python)
    if answer == "":
        _FIT.add(key)
    return answer or ""


def asked(context: SparkContext, python: str) -> str | None:
    """The same from an executor that may still have to come; None without an answer in time."""
    from pyspark import InheritableThread, cloudpickle

    group = f"tfapp-look-{os.getpid()}-{next(_NUMBERS)}"
    answers: list[str] = []

    def job() -> None:
        context.setJobGroup(group, "tfapp: the executors' Python", interruptOnCancel=True)
        try:
            # The executors have no tfapp: the function itself travels.
            cloudpickle.register_pickle_by_value(sys.modules[__name__])
            look = context.parallelize([0], 1).mapPartitions(looking(python))
            answers.extend(look.collect())
        except Exception as error:  # Spark's Java exceptions have no class of their own here
            answers.append(f"cannot run there: {first_words(error)}")

    thread = threads.start_surely("tfapp-look", job, kind=InheritableThread)
    thread.join(LIMIT)
    if thread.is_alive():
        with contextlib.suppress(Exception):  # the context ends at this moment
            context.cancelJobGroup(group)
        return None
    return answers[0]


def looking(python: str) -> Callable[[Iterable[Any]], list[str]]:
    """A function for `mapPartitions` that returns what `python` lacks, "" for nothing. "python3" is
    the executor's own interpreter."""
    code = question() + "print(problem)\n"

    def look(_: Iterable[Any]) -> list[str]:
        import os
        import subprocess
        import sys

        command = [sys.executable if python == "python3" else python, "-c", code]
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        try:
            done = subprocess.run(command, env=kept, capture_output=True, text=True)
        except OSError as error:
            return [f"{command[0]} of an executor cannot be started: {error.strerror}"]
        problem = done.stdout.strip()
        if done.returncode:
            problem = (done.stderr.strip().splitlines() or [f"ends with {done.returncode}"])[-1]
        return [f"{command[0]} of an executor {problem}" if problem else ""]

    return look
