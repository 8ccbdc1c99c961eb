"""The programs of the benchmarks of the feed. They import nothing but the standard library:
containers have a part of tfapp only."""

from __future__ import annotations

import os
import time
from typing import Any

BATCH = 256  # rows


def read(ctx: Any, first_rows: int) -> dict[str, float]:
    """Takes batches and drops them. What its memory grows by after `first_rows`, in MiB, and
    the CPU time of its process for a row, in microseconds."""
    import resource

    def now() -> Any:
        return resource.getrusage(resource.RUSAGE_SELF)

    rows, first, early = 0, None, 0
    for found in ctx.feed.batches(BATCH):
        first = first or now()
        rows += len(next(iter(found.values())))
        if rows < first_rows:
            early = now().ru_maxrss
    last = now()
    first = first or last
    spent = last.ru_utime + last.ru_stime - first.ru_utime - first.ru_stime
    return {"grown": (last.ru_maxrss - early) / 1024, "cpu": 1e6 * spent / max(1, rows)}


def answer(ctx: Any) -> None:
    """Answers with a number for each row."""
    ctx.feed.serve(lambda rows: {"y": next(iter(rows.values()))[:, 0]})


def fail(ctx: Any, how: str) -> None:
    """Says when, and fails in the middle."""
    import signal

    for number, _ in enumerate(ctx.feed.batches(BATCH)):
        if number == 10 and ctx.index == 1:
            print(f"failed at {time.time():.3f}", flush=True)
            if how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError(how)


def count(ctx: Any) -> int:
    """Takes batches and drops them. The number of their rows."""
    return sum(len(next(iter(found.values()))) for found in ctx.feed.batches(BATCH))
