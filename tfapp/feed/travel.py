"""How code of the feed reaches Spark's executors, which have no tfapp. In the driver."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any


def travel_by_value() -> None:
    """From now on what tasks call is pickled whole, not by its name."""
    from pyspark import cloudpickle

    import tfapp.errors
    import tfapp.feed
    from tfapp.feed import (
        columns,
        inference,
        intervals,
        pickled,
        pool,
        rows,
        sender,
        source,
        wire,
    )

    travelling = (columns, inference, intervals, pickled, pool, rows, sender, source, wire)
    for module in (tfapp.errors, tfapp.feed, *travelling):
        cloudpickle.register_pickle_by_value(module)


def once_per_worker(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` for tasks. A Python worker unpickles it for its first task and keeps it, with the
    state of its modules, for the next ones: that takes longer than a small partition does."""
    from pyspark import cloudpickle

    travel_by_value()
    packed = cloudpickle.dumps(function)
    key = hashlib.sha256(packed).hexdigest()

    def call(*args: Any) -> Any:
        import pickle
        import sys

        kept = sys.__dict__.setdefault("_tfapp_kept", {})
        if key not in kept:
            kept[key] = pickle.loads(packed)
        return kept[key](*args)

    return call
