"""Runs independent instances of a program on Spark's executors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tfapp
from tfapp.tensorflowonspark.arguments import meaningless, named_for, place_of
from tfapp.tensorflowonspark.TFNode import call_alone
from tfapp.topology import Component


def run(
    sc: Any,
    map_fun: Callable[..., Any],
    tf_args: Any,
    num_executors: int,
    use_barrier: bool = True,
    **more: Any,
) -> list[Any]:
    """Runs `num_executors` instances of `map_fun(tf_args, ctx)` at the same time and waits for all
    of them. `ctx.executor_id` is the number of an instance, from 0. Returns their return values, in
    this order. `use_barrier` has no effect. `more`: arguments of `tfapp.submit`.

    Raises `tfapp.errors.ApplicationFailedError`, with the last lines of output, if one fails."""
    if not use_barrier:
        meaningless("use_barrier", "the instances begin when all have a slot")
    application = tfapp.submit(
        functools.partial(call_alone, map_fun, tf_args, place_of(sc)),
        {"worker": Component(instances=num_executors)},
        **named_for(map_fun, sc, more),
    )
    returned = application.result().returned
    return [returned.get(f"worker/{number}") for number in range(num_executors)]
