"""The program that benchmarks/lost_master.py runs: the two-worker digits example without an end.
Its first worker appends the time to the file of its argument after each few steps."""

from __future__ import annotations

import sys
import time

import tensorflow as tf
from digits_steps import training  # beside this file
from train import is_first_worker  # examples/digits-multiworker

FEW = 10  # steps


class Times(tf.keras.callbacks.Callback):
    """Seconds since 1970, after each FEW steps."""

    def __init__(self, path: str):
        super().__init__()
        self._path = path

    def on_train_batch_end(self, batch, logs=None):
        if batch % FEW == 0:
            with open(self._path, "a", encoding="ascii") as file:
                print(time.time(), file=file)


def main(path: str) -> None:
    """Trains until it is ended."""
    model, batches = training()
    callbacks = [Times(path)] if is_first_worker() else []
    model.fit(batches, steps_per_epoch=10_000_000, callbacks=callbacks, verbose=0)


if __name__ == "__main__":
    main(sys.argv[1])
