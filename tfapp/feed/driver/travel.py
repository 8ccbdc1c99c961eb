"""Ships the feed's code to Spark's executors, which need no tfapp. In the driver."""

from __future__ import annotations

import functools
import hashlib
import zlib
from collections.abc import Callable, Iterator
from typing import Any


def travel_by_value() -> None:
    """Makes cloudpickle include the feed's modules in the functions that it pickles, instead of
    referring to them by name."""
    from pyspark import cloudpickle

    import tfapp.errors
    import tfapp.feed

    for module in (tfapp.errors, tfapp.feed):  # with all modules in the package
        cloudpickle.register_pickle_by_value(module)


def task(
    function: Callable[..., Any], order: tuple[Any, ...], *more: Any
) -> Callable[..., Iterator[Any]]:
    """A function for tasks, `function(order, *more, ...)`, with a tuple for the order. A Python
    worker unpickles it once and keeps it, with the state of its modules, for later tasks, because
    unpickling can take longer than a small partition.

    After each task, Spark's Python workers search all objects for garbage, which would take longer
    still: more than 15 ms with pyarrow and NumPy. What is there after the unpickling is left out of
    that from then on."""
    packed, key = _packed(function)
    given = tuple(order), *more

    def call(*args: Any) -> Any:
        import gc
        import pickle
        import sys
        import zlib

        kept = sys.__dict__.setdefault("_tfapp_kept", {})
        if key not in kept:
            kept[key] = pickle.loads(zlib.decompress(packed))
            gc.collect()
            gc.freeze()
        return kept[key](*given, *args)

    return call


@functools.cache
def _packed(function: Callable[..., Any]) -> tuple[bytes, str]:
    """The function as bytes, and their digest."""
    from pyspark import cloudpickle

    travel_by_value()
    packed = zlib.compress(cloudpickle.dumps(function))
    return packed, hashlib.sha256(packed).hexdigest()
