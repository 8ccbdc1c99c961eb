"""The program that benchmarks/throughput.py runs: the two-worker digits example for a number of
steps after a few to warm up. Its first worker prints how long those took."""

from __future__ import annotations

import sys
import time
from typing import Any

import tensorflow as tf
from train import build_model, digits, is_first_worker  # examples/digits-multiworker

BATCH = 32  # images per worker and step
WARM_UP = 100  # steps at most


class Stopwatch(tf.keras.callbacks.Callback):
    """Seconds of the last epoch."""

    seconds = 0.0

    def on_epoch_begin(self, epoch, logs=None):
        self._begin = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        self.seconds = time.perf_counter() - self._begin


def training() -> tuple[Any, Any]:
    """The model of the digits example under its strategy, and its batches without an end."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    (images, labels), _ = digits()
    data = tf.data.Dataset.from_tensor_slices((images, labels)).repeat()
    with strategy.scope():
        model = build_model()
        model.compile(
            optimizer="adam",
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        )
    return model, data.batch(BATCH * strategy.num_replicas_in_sync)


def main(steps: int) -> None:
    """Trains so many steps, in an epoch of their own."""
    model, batches = training()
    model.fit(batches, steps_per_epoch=min(steps, WARM_UP), verbose=0)
    stopwatch = Stopwatch()
    model.fit(batches, steps_per_epoch=steps, callbacks=[stopwatch], verbose=0)
    if is_first_worker():
        print(f"seconds {stopwatch.seconds}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
