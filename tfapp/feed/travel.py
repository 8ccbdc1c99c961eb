"""Ships the feed's code to Spark's executors, which need no tfapp. In the driver."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any


def travel_by_value() -> None:
    """Makes cloudpickle include the feed's modules in the functions that it pickles, instead of
    referring to them by name."""
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
    """Wraps a function for tasks. A Python worker unpickles the function once and keeps it, with
    the state of its modules, for later tasks, because unpickling can take longer than a small
    partition."""
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
