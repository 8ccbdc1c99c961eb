"""Run as a program: trains, is asked to save in the middle of an epoch and is ended, and trains on.
Prints a line of JSON for each row.

python saved_epochs.py FOLDER
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import tensorflow as tf

from tfapp.program import saving
from tfapp.program.keras_backup import backup_and_restore

keras = tf.keras
STEPS = 5  # in an epoch
X = np.zeros((2 * STEPS, 2), "float32")


class EndedError(Exception):
    pass


class Note(keras.callbacks.Callback):
    """Asks to save at the end of step `at`, and ends the training after that."""

    def __init__(self, request: Path, at: int):
        super().__init__()
        self.request, self.at = request, at
        self.seen: list[tuple[int, int]] = []  # epoch and batch
        self.epoch = 0

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_begin(self, batch, logs=None):
        self.seen.append((self.epoch, int(batch)))

    def on_train_batch_end(self, batch, logs=None):
        step = int(self.model.optimizer.iterations.numpy())
        if step == 1 and self.at:
            asked = {"id": str(self.at), "action": "save", "step": self.at}
            self.request.write_text(json.dumps({**asked, "until": time.time() + 1}))
            while saving._own._asked is None:
                time.sleep(0.01)
        if step == self.at:
            raise EndedError


def train(folder: Path, request: Path, at: int = 0) -> tuple[list, int]:
    """(The epochs and batches that are trained, the optimizer's steps at the end.)"""
    request.unlink(missing_ok=True)
    saving._own = saving.Saver(str(request), str(folder) + ".told", together=True)
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    note = Note(request, at)
    try:
        callbacks = [backup_and_restore(str(folder)), note]
        model.fit(X, X[:, :1], batch_size=2, epochs=3, verbose=0, callbacks=callbacks)
    except EndedError:
        pass
    return note.seen, int(model.optimizer.iterations.numpy())


def main(folder: Path) -> None:
    for at in (3, STEPS, STEPS + 2):
        place, request = folder / str(at), folder / "request"
        train(place, request, at)
        trained, total = train(place, request)
        print(json.dumps({"at": at, "first": trained[0], "total": total}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
