"""The evaluator of a `KerasExperiment`: evaluates checkpoints while the training runs."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any

from tfapp.errors import ProgramError
from tfapp.program.context import Context
from tfapp.program.experiment import KerasExperiment
from tfapp.program.keras_model import (
    CHECKPOINTS,
    STATE,
    Kit,
    is_iterator,
    mark_of,
    numbers,
    read_json,
    write_json,
)

EVALUATION = "evaluation"
EVALUATED = "evaluated.json"  # in EVALUATION
KEPT = 5  # checkpoints that were evaluated
TRIES = 5  # to read a checkpoint that may be written at the same time
INTERVAL = 1.0  # seconds between two looks for new checkpoints


class Evaluator:
    """Evaluates each checkpoint of a training, and ends after the last epoch."""

    def __init__(self, experiment: KerasExperiment, context: Context, kit: Kit):
        if experiment.validation_data_fn is None:
            raise ProgramError(
                "an evaluator needs the experiment's validation_data_fn",
                "Add it, or leave the component evaluator out.",
            )
        self.experiment, self.context, self.kit = experiment, context, kit
        self.folder = os.path.join(experiment.model_dir, EVALUATION)
        self.checkpoints = os.path.join(experiment.model_dir, CHECKPOINTS)
        # epoch -> when its checkpoint was written, in ns, and what was measured
        self.evaluated: dict[int, tuple[int, dict[str, float]]] = {
            int(epoch): (written, metrics)
            for epoch, (written, metrics) in (
                read_json(os.path.join(self.folder, EVALUATED)) or {}
            ).items()
        }
        self.data = experiment.validation_data_fn()
        self.failed: dict[int, int] = {}

    def run(self) -> dict[str, Any] | None:
        """Returns the number of the last epoch and its metrics; None if there was no checkpoint."""
        import tensorflow as tf

        mark = mark_of(self.context)
        state = os.path.join(self.experiment.model_dir, STATE)
        with tf.summary.create_file_writer(self.folder).as_default():
            while True:
                ended = (read_json(state) or {}).get("ended") == mark
                new = [at for at in self._written() if self._is_new(*at)]
                for epoch, written in new:
                    self._evaluate(epoch, written)
                if ended and not new:
                    break
                time.sleep(INTERVAL)
        if not self.evaluated:
            return None
        last = max(self.evaluated)
        return {"epoch": last, **self.evaluated[last][1]}

    def _is_new(self, epoch: int, written: int) -> bool:
        return epoch not in self.evaluated or self.evaluated[epoch][0] != written

    def _written(self) -> list[tuple[int, int]]:
        """(epoch, modification time) of each checkpoint, in the order of epochs."""
        import tensorflow as tf

        gfile, suffix = tf.io.gfile, self.kit.suffix
        if not gfile.isdir(self.checkpoints):
            return []
        found = []
        for name in gfile.listdir(self.checkpoints):
            if name.startswith("epoch-") and name.endswith(suffix):
                written = gfile.stat(os.path.join(self.checkpoints, name)).mtime_nsec
                found.append((int(name[len("epoch-") : -len(suffix)]), written))
        return sorted(found)

    def _evaluate(self, epoch: int, written: int) -> None:
        import tensorflow as tf

        model = self.experiment.model
        path = os.path.join(self.checkpoints, f"epoch-{epoch:05d}")
        try:
            if self.kit.three:
                if not model.built:
                    self._measure(steps=1)
                if not model.optimizer.built:
                    model.optimizer.build(model.trainable_variables)
                model.load_weights(f"{path}{self.kit.suffix}")
            else:
                model.load_weights(path).expect_partial()
            metrics = self._measure()
        except (OSError, tf.errors.OpError):
            # A training that was restarted may write the same checkpoint anew.
            self.failed[epoch] = self.failed.get(epoch, 0) + 1
            if self.failed[epoch] >= TRIES:
                raise
            return
        for name, value in metrics.items():
            tf.summary.scalar(f"epoch_{name}", value, step=epoch)
        tf.summary.flush()
        self.evaluated[epoch] = (written, metrics)
        write_json(os.path.join(self.folder, EVALUATED), self.evaluated)
        self.context.report({"epoch": epoch, **metrics}, step=epoch)
        told = ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())
        print(f"tfapp: epoch {epoch}: {told}", flush=True)
        self._forget()

    def _measure(self, steps: int | None = None) -> dict[str, float]:
        if is_iterator(self.data):  # it can be gone through once
            self.data = self.experiment.validation_data_fn()  # type: ignore[misc]
        data = self.data if isinstance(self.data, tuple) else (self.data,)
        params = self.experiment.train_params or {}
        batch = params.get("validation_batch_size", params.get("batch_size"))
        if len(data) == 1:
            batch = None  # of a dataset that has its own
        steps = steps or params.get("validation_steps")
        model = self.experiment.model
        return numbers(
            model.evaluate(
                *data[:2],
                sample_weight=data[2] if len(data) > 2 else None,
                batch_size=batch,
                steps=steps,
                verbose=0,
                return_dict=True,
            )
        )

    def _forget(self) -> None:
        """Deletes evaluated checkpoints, except for the last ones."""
        import tensorflow as tf

        done = [epoch for epoch, written in self._written() if not self._is_new(epoch, written)]
        for epoch in done[:-KEPT]:
            for path in tf.io.gfile.glob(os.path.join(self.checkpoints, f"epoch-{epoch:05d}.*")):
                with contextlib.suppress(OSError, tf.errors.NotFoundError):
                    tf.io.gfile.remove(path)
