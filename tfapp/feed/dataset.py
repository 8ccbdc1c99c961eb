"""The feed as a `tf.data.Dataset`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from tfapp.feed.columns import Feature
from tfapp.feed.receiver import Receiver, batches


def dataset(
    receiver: Receiver, features: Sequence[Feature], columns: str | Sequence[str] | None
) -> tf.data.Dataset:
    """The result of `Feed.dataset`: a dataset of the receiver's batches."""
    specs = {
        each.name: tf.TensorSpec((None, *each.shape), tf.as_dtype(each.dtype)) for each in features
    }
    if not specs:  # nothing was fed, so the types are not known
        names = [columns] if isinstance(columns, str) else columns or ()
        specs = {name: tf.TensorSpec(None, tf.float32) for name in names}

    def generate() -> Iterator[Any]:
        for found in batches(receiver):
            yield _shaped({name: found[name] for name in specs}, columns)

    made = tf.data.Dataset.from_generator(generate, output_signature=_shaped(specs, columns))
    # Each program gets its own rows, so tf.data must not divide them among the programs.
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return made.with_options(options)


def _shaped(values: dict[str, Any], columns: str | Sequence[str] | None) -> Any:
    if isinstance(columns, str):
        return values[columns]
    if isinstance(columns, tuple):
        return tuple(values[name] for name in columns)
    return values
