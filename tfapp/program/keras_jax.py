"""Trains a `KerasExperiment` with backend="jax": Keras 3 on JAX, without TensorFlow.

Each chief and worker is a process of JAX. The first one is JAX's coordinator, at its own address.
All processes start with the same weights, train on their own part of the data and average the
gradients. Saving is a step that all of them take together; the first one keeps the file.

Content of `model_dir`:

    backup/epoch-00003.weights.h5   the state after the last full epoch, for a restart
    model.keras                     the trained model
    training.json                   the progress of the training, with its metrics
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tfapp.errors import ProgramError
from tfapp.program.context import Context
from tfapp.program.experiment import JAX, KerasExperiment
from tfapp.program.keras_model import STATE, is_function, named, numbers

BACKUP = "backup"
INTERVAL = 1.0  # seconds between two reports in an epoch
SEED = 0  # of the weights, where the experiment sets none

_EPOCH = re.compile(r"epoch-(\d+)\.weights\.h5\Z")
_SHARE = (
    "Give the call checkpoints=, a folder that all instances see, or the experiment a model_dir."
)


def run(make: Callable[[], Any], context: Context) -> dict[str, Any]:
    """Joins the processes, then trains the experiment that `make` returns. Returns the number of
    the last epoch and its metrics: {"epoch": 5, "loss": 0.1, ...}."""
    if context.role not in ("chief", "worker"):
        raise ProgramError(
            f"a KerasExperiment on JAX has no work for {context.instance}, whose role is "
            f"{context.role}",
            "Its components are chief and worker.",
        )
    number, total = _join(context)
    made = make()
    if not isinstance(made, KerasExperiment) or made.backend != JAX:
        raise ProgramError(
            f"the function returned {named(made)}, and a tfapp.KerasExperiment with backend="
            f'"{JAX}" was expected'
        )
    if made.strategy is not None:
        raise ProgramError("a strategy is TensorFlow's", f'Leave it out with backend="{JAX}".')
    return _Trainer(made, context, number, total).run()


def _join(context: Context) -> tuple[int, int]:
    """Connects the processes of JAX. Returns the number of this one, and how many there are."""
    addresses, number = processes(context, os.environ)
    os.environ["KERAS_BACKEND"] = JAX
    import keras

    if keras.backend.backend() != JAX:
        raise ProgramError(
            f"keras was imported before the experiment began, with the backend "
            f"{keras.backend.backend()}",
            f'Import it in the function, or give the call env={{"KERAS_BACKEND": "{JAX}"}}.',
        )
    if len(addresses) > 1:
        before = signal.getsignal(signal.SIGTERM)
        keras.distribution.initialize(",".join(addresses), len(addresses), number)
        # JAX catches it, and lets the program go on.
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)
        parallel = keras.distribution.DataParallel(auto_shard_dataset=False)
        keras.distribution.set_distribution(parallel)
    keras.utils.set_random_seed(SEED)  # else each process begins with weights of its own
    return number, len(addresses)


def processes(context: Context, environ: Mapping[str, str]) -> tuple[list[str], int]:
    """The addresses of all processes, and the number of this one: as the package keras-jax tells
    them, else those of the chief and the workers in TF_CONFIG."""
    told = environ.get("KERAS_DISTRIBUTION_JOB_ADDRESSES")
    if told:
        return told.split(","), int(environ["KERAS_DISTRIBUTION_PROCESS_ID"])
    chiefs, workers = (context.cluster.get(role, ()) for role in ("chief", "worker"))
    role, index = context.task or (context.role, 0)
    return [*chiefs, *workers] or [""], index + (len(chiefs) if role == "worker" else 0)


class _Trainer:
    """`model.fit` in one process."""

    def __init__(self, experiment: KerasExperiment, context: Context, number: int, total: int):
        import keras

        self.keras: Any = keras
        self.experiment, self.context = experiment, context
        self.number, self.total = number, total
        self.folder = _folder(experiment, context, total)
        self.model = experiment.model() if is_function(experiment.model) else experiment.model
        if not isinstance(self.model, keras.Model) or self.model.optimizer is None:
            raise ProgramError(
                f"the model of the KerasExperiment is {named(self.model)}; a compiled model of "
                "Keras 3, or a function that makes one, was expected"
            )
        self.epoch, self.metrics = 0, dict[str, float]()

    def run(self) -> dict[str, Any]:
        params = dict(self.experiment.train_params or {})
        given = [*(params.pop("callbacks", None) or ()), *self.experiment.callbacks]
        params.setdefault("verbose", 2 if self.number == 0 else 0)
        self._add_data(params)
        self._go_on()
        base = self.keras.callbacks.Callback
        own = [
            _reporting(base, self),
            _at_epoch_end(base, self),
        ]  # saved last: what fails is redone
        self.model.fit(**params, initial_epoch=self.epoch, callbacks=[*given, *own])
        self._save(self.folder / "model.keras", self.model.save)
        return {"epoch": self.epoch, **self.metrics}

    def _add_data(self, params: dict[str, Any]) -> None:
        """Arrays are divided among the processes; what makes batches is of this process alone."""
        experiment = self.experiment
        if experiment.input_data_fn is not None:
            params["x"] = experiment.input_data_fn()
        if experiment.target_data_fn is not None:
            params["y"] = experiment.target_data_fn()
        if experiment.validation_data_fn is not None:
            params.setdefault("validation_data", experiment.validation_data_fn())
        size = params.pop("batch_size", None) or 32
        if not hasattr(params.get("x"), "shape"):
            return
        batch, rest = divmod(size, self.total)
        if rest:
            raise ProgramError(
                f"a batch of {size} cannot be divided among {self.total} processes",
                'Give another "batch_size": it counts the examples of all of them.',
            )
        params["batch_size"] = batch
        for name in ("x", "y"):
            if params.get(name) is not None:
                params[name] = self._part(params[name], batch)

    def _part(self, rows: Any, batch: int) -> Any:
        """This process's part of an array: of whole batches, as many as the others have."""
        if self.total == 1:
            return rows
        steps = len(rows) // (batch * self.total)
        if not steps:
            raise ProgramError(f"{len(rows)} rows are no batch for {self.total} processes")
        return rows[: steps * batch * self.total][self.number :: self.total]

    # ---- What is kept ------------------------------------------------------------------------
    def _go_on(self) -> None:
        """Takes the state after the last epoch that an earlier generation or run has saved."""
        found = self._backups()
        if not found:
            return
        self.epoch, last = max(found)
        try:
            self.model.optimizer.build(self.model.trainable_variables)
            self.model.load_weights(last)
        except Exception as error:  # of h5py, of Keras: whatever reads it
            raise ProgramError(
                f"the training cannot go on from {last}, which is damaged or of another model: "
                f"{type(error).__name__}: {error}",
                "Delete it, or submit it again with --replace --fresh (Python: replace=True, "
                "fresh=True), which moves all of the earlier training aside.",
            ) from error
        with contextlib.suppress(OSError, ValueError, KeyError):
            self.metrics = dict(json.loads((self.folder / STATE).read_bytes())["metrics"])
        if self.number == 0:
            print(f"tfapp: training goes on after epoch {self.epoch}", flush=True)

    def ended_epoch(self, epoch: int, logs: Mapping[str, Any]) -> None:
        self.epoch, self.metrics = epoch, numbers(logs)
        target = self.folder / BACKUP / f"epoch-{epoch:05d}.weights.h5"
        self._save(target, self.model.save_weights)
        if self.number:
            return
        state = {"epoch": self.epoch, "metrics": self.metrics}
        partial = self.folder / f"{STATE}.partial"
        partial.write_text(json.dumps(state))
        partial.replace(self.folder / STATE)
        for earlier, path in self._backups():
            if earlier < epoch:
                path.unlink(missing_ok=True)

    def _backups(self) -> list[tuple[int, Path]]:
        paths = sorted((self.folder / BACKUP).glob("epoch-*"))
        return [(int(m[1]), path) for path in paths if (m := _EPOCH.match(path.name))]

    def _save(self, target: Path, save: Callable[[Path], object]) -> None:
        """Every process saves, because each has to take part; only the first one's is kept."""
        with self._place(target) as partial:
            save(partial)
            if self.number == 0:
                partial.replace(target)

    @contextlib.contextmanager
    def _place(self, target: Path) -> Iterator[Path]:
        if self.number == 0:
            target.parent.mkdir(parents=True, exist_ok=True)
            yield target.parent / f"partial-{target.name}"
            return
        with tempfile.TemporaryDirectory(prefix="tfapp-") as folder:
            yield Path(folder) / target.name


def _folder(experiment: KerasExperiment, context: Context, total: int) -> Path:
    folder = str(experiment.model_dir or context.checkpoint_dir)
    if not folder:
        raise ProgramError("the KerasExperiment has no model_dir", _SHARE)
    if "://" in folder:
        raise ProgramError(f"Keras on JAX opens no URLs, and {folder} is one", _SHARE)
    if total > 1 and context.hides(folder):
        raise ProgramError(f"no other instance sees {folder}, where the checkpoints are", _SHARE)
    return Path(folder)


# ---- Callbacks -------------------------------------------------------------------------------
def _at_epoch_end(base: Any, trainer: _Trainer) -> Any:
    class AtEpochEnd(base):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            trainer.ended_epoch(epoch + 1, logs or {})

    return AtEpochEnd()


def _reporting(base: Any, trainer: _Trainer) -> Any:
    """Reports the metrics of each epoch, and the step during it."""

    class Reporting(base):
        _next = 0.0

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if time.monotonic() >= self._next:
                self._report({} if trainer.total > 1 else logs or {})

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self._report({"epoch": epoch + 1, **(logs or {})})

        def _report(self, logs: Mapping[str, Any]) -> None:
            epochs, steps = self.params.get("epochs"), self.params.get("steps")
            total = epochs * steps if epochs and steps else None
            step = int(self.model.optimizer.iterations)
            trainer.context.report(numbers(logs), step=step, total=total)
            self._next = time.monotonic() + INTERVAL

    return Reporting()
