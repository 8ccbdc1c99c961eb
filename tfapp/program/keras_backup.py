"""Keras's BackupAndRestore, which also saves before a planned stop, in the middle of an epoch.

    from tfapp.program.keras_backup import backup_and_restore

    model.fit(..., callbacks=[backup_and_restore(folder)])

Keras 2 (tf-keras) goes on with the step after the saved one. It needs to know how many steps an
epoch has: by `steps_per_epoch`, or by a dataset of known size, which begins anew for the rest of
the epoch. Keras 3 cannot go on within an epoch, and under ParameterServerStrategy steps are not
those of the chief: there the state after the last whole epoch is kept, as ever.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
from typing import Any

from tfapp.errors import ProgramError
from tfapp.program import saving

_WHOLE = -1  # in place of the number of a batch: the epoch was finished


def backup_and_restore(folder: str) -> Any:
    """A callback for the `model.fit` of `tf.keras`, which keeps the state of the training in
    `folder`, a path or a URL, and goes on from it. All instances need it."""
    import tensorflow as tf

    return backup_of(tf.keras.callbacks.BackupAndRestore, folder)


def backup_of(base: type, folder: str) -> Any:
    """The callback `base`, Keras's BackupAndRestore, for the backup in `folder`. Keras 3 writes in
    place, and a kill leaves half a file: the state before is kept, where this Keras can."""
    given: dict[str, Any] = {"delete_checkpoint": False}
    if "double_checkpoint" in inspect.signature(base.__init__).parameters:  # type: ignore[misc]
        given["double_checkpoint"] = True

    class Backup(base):
        _in_epochs = False  # whether it saves within epochs
        _step = 0  # counted here: to ask the optimizer would wait for a GPU
        _first = 0  # batch of this call of the training function

        def on_train_begin(self, logs: Any = None) -> None:
            _take_previous(folder)
            try:
                _check_lists(folder)
                super().on_train_begin(logs)
            except Exception as error:  # of h5py, of TensorFlow, of Keras: whatever reads it
                raise ProgramError(
                    f"the training cannot go on from its backup in {folder}, which is damaged or "
                    f"of another model: {type(error).__name__}: {error}",
                    "Delete that folder, or submit it again with --replace --fresh (Python: "
                    "replace=True, fresh=True), which moves all of the earlier training aside.",
                ) from error
            self._in_epochs = _saves_in_epochs(self)
            if self._in_epochs:
                _go_on_in_epoch(self._training_state)
                self._step = int(self.model.optimizer.iterations.numpy())

        def _implements_train_batch_hooks(self) -> bool:
            return True

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            self._first = batch

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if self._in_epochs:
                self._step += batch - self._first + 1
                saving.save_if_asked(self._step, lambda: self._save_at(batch))

        def _save_at(self, batch: int) -> None:
            last = batch + 1 >= self.params["steps"]
            number = self._training_state._ckpt_saved_batch
            number.assign(_WHOLE if last else batch)
            self._backup(epoch=self._current_epoch, batch=batch)
            number.assign(_WHOLE)

    return Backup(folder, **given)


def _saves_in_epochs(backup: Any) -> bool:
    """Whether this Keras can go on within an epoch of the training that begins."""
    import tensorflow as tf

    if not hasattr(getattr(backup, "_training_state", None), "_ckpt_saved_batch"):
        return False  # Keras 3, or one that is not known
    servers = isinstance(backup.model.distribute_strategy, tf.distribute.ParameterServerStrategy)
    return bool(backup.params.get("steps")) and not servers


def _go_on_in_epoch(state: Any) -> None:
    """Lets Keras 2 go on with the batch after the saved one, also where it saves by epochs."""
    by_epochs = state.maybe_load_initial_counters_from_ckpt

    def counters(steps: int, initial_epoch: int, mode: Any) -> tuple[int, int]:
        epoch, batch = int(state._ckpt_saved_epoch.numpy()), int(state._ckpt_saved_batch.numpy())
        if epoch < 0 or batch < 0:
            return by_epochs(steps, initial_epoch, mode)
        state._ckpt_saved_batch.assign(_WHOLE)
        return epoch, batch + 1

    state.maybe_load_initial_counters_from_ckpt = counters


def _check_lists(folder: str) -> None:
    """ValueError for a list of checkpoints, TensorFlow's own, that cannot be read: it would be
    taken for none, and the training would begin anew."""
    import tensorflow as tf

    for path in tf.io.gfile.glob(os.path.join(folder, "*", "checkpoint")):
        if tf.train.get_checkpoint_state(os.path.dirname(path)) is None:
            raise ValueError(f"{path} cannot be read")


def _take_previous(folder: str) -> None:
    """Puts Keras 3's previous state in the place of one whose metadata was not written to its end:
    Keras itself does that only for the weights."""
    import tensorflow as tf

    metadata = os.path.join(folder, "training_metadata.json")
    if not all(map(tf.io.gfile.exists, (metadata, f"{metadata}.bkp"))):
        return
    with tf.io.gfile.GFile(metadata) as file, contextlib.suppress(ValueError):
        json.loads(file.read())
        return
    for path in (metadata, os.path.join(folder, "latest.weights.h5")):
        tf.io.gfile.copy(f"{path}.bkp", path, overwrite=True)
