"""Trains a `KerasExperiment`: the part of each instance of the cluster.

The experiment function is called in the scope of the strategy that follows from the cluster, so
that its model is built there:

    one chief or worker             no strategy; Keras 2 or Keras 3
    several, no ps                  MultiWorkerMirroredStrategy; Keras 2 (tf-keras)
    a chief, workers and ps         ParameterServerStrategy; Keras 2. The chief trains; workers and
                                    ps serve it and do not call the function.
    evaluator                       no strategy

A function that names a strategy itself is called outside any scope and builds its model in its own;
on an evaluator this is the strategy of a single process. If `model` is a function, it is called in
the scope of the experiment's `strategy`.

Content of `model_dir`:

    backup/                   the state after the last full epoch, or after the step at which it was
                              saved before a planned stop, for a restart
    checkpoints/epoch-00001   the weights after each epoch, for the evaluator, which keeps the last
                              five
    train/, validation/       events for TensorBoard, unless the experiment has its own callback
    evaluation/               events of the evaluator
    training.json             the progress of the training, with its metrics
    saved_model or model.keras    the trained model: SavedModel (Keras 2) or a .keras file (Keras 3)
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tfapp.errors import ProgramError
from tfapp.program.collectives import CollectiveTime
from tfapp.program.context import Context
from tfapp.program.experiment import KerasExperiment
from tfapp.program.keras_backup import backup_of
from tfapp.program.keras_evaluator import Evaluator
from tfapp.program.keras_model import (
    CHECKPOINTS,
    STATE,
    Kit,
    build,
    is_function,
    mark_of,
    named,
    numbers,
    read_json,
    write_json,
)

BACKUP = "backup"
OWN_STEP = "own_step_seconds"  # tfapp.contract.status has it too
INTERVAL = 1.0  # seconds between two reports in an epoch

SHARE = (
    "Give the call checkpoints=, a folder that all instances see, or the experiment a model_dir."
)


def run(make: Callable[[], Any], context: Context, own_strategy: bool) -> dict[str, Any] | None:
    """Runs the part of this instance in the experiment that `make` returns. `own_strategy`: whether
    `make` enters its own scope. Returns the last metrics; None on instances that only serve."""
    if _has_served(context):
        return None
    beside = context.role == "evaluator"
    strategy = None if own_strategy or beside else _strategy(context)
    with _without_cluster() if own_strategy and beside else _scope(strategy):
        made = make()
        if not isinstance(made, KerasExperiment):
            raise ProgramError(
                f"the function returned {named(made)}, and a tfapp.KerasExperiment was expected"
            )
        if strategy is not None:
            if made.strategy is not None:
                raise ProgramError(
                    "the KerasExperiment has a strategy, and its function was called in the scope "
                    "of another",
                    "Name the strategy's class in the function, as tf.distribute.MirroredStrategy.",
                )
            made = made._replace(model=build(made.model))
    return train(made, context)


def train(experiment: KerasExperiment, context: Context) -> dict[str, Any] | None:
    """Runs the part of this instance in `experiment`, whose model is built already or is built by a
    function. Returns as `run`."""
    if experiment.backend != "tensorflow":
        raise ProgramError(
            f"the KerasExperiment has backend={experiment.backend!r}, and its function was called "
            "as that of a training with TensorFlow",
            'The backends are "tensorflow" and "jax"; write backend="jax" in the function itself.',
        )
    if _has_served(context):
        return None
    if context.role not in ("chief", "worker", "evaluator"):
        raise ProgramError(
            f"a KerasExperiment has no work for {context.instance}, whose role is {context.role}",
            "Give that component a program of its own.",
        )
    folder = _folder(experiment, context)
    model, strategy = experiment.model, None
    if is_function(model):
        if context.role != "evaluator":
            strategy = _strategy(context) if experiment.strategy is None else experiment.strategy
        if isinstance(strategy, type) or (strategy is not None and not hasattr(strategy, "scope")):
            strategy = strategy()
        with _scope(strategy):
            model = model()
    kit = Kit(model)
    experiment = experiment._replace(model=model, model_dir=folder)
    if context.role == "evaluator":
        return Evaluator(experiment, context, kit).run()
    if strategy is None and experiment.strategy is not None:
        _check_own_strategy(model, experiment.strategy)
    return _Trainer(experiment, context, kit).run()


# ---- Strategies ------------------------------------------------------------------------------
def _strategy(context: Context) -> Any:
    """The strategy that follows from the cluster; None for a single instance."""
    servers = context.cluster.get("ps")
    if not servers and context.trainers < 2:
        return None
    import tensorflow as tf

    if servers:
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        return tf.distribute.ParameterServerStrategy(resolver)
    return tf.distribute.MultiWorkerMirroredStrategy()


def _scope(strategy: Any) -> contextlib.AbstractContextManager[Any]:
    return contextlib.nullcontext() if strategy is None else strategy.scope()


@contextlib.contextmanager
def _without_cluster() -> Iterator[None]:
    """Hides the cluster of TF_CONFIG while an evaluator makes a strategy: it is not part of the
    cluster, and MultiWorkerMirroredStrategy would fail."""
    config = os.environ.pop("TF_CONFIG", None)
    try:
        yield
    finally:
        if config is not None:
            os.environ["TF_CONFIG"] = config


def _check_own_strategy(model: Any, strategy: Any) -> None:
    if model.distribute_strategy is not strategy:
        raise ProgramError(
            "the model of the KerasExperiment was built outside the scope of its strategy",
            "Give a function that builds the model as `model`; it is called in that scope.",
        )


def _has_served(context: Context) -> bool:
    """Serves the chief of ParameterServerStrategy until this instance is stopped, if it is a server
    or a worker of that. Returns whether it is."""
    if context.role != "ps" and not (context.role == "worker" and context.cluster.get("ps")):
        return False
    if not context.cluster.get("chief"):
        raise ProgramError(
            "ParameterServerStrategy needs a chief, which hands out the steps",
            'Add the component: "chief": tfapp.Component().',
        )
    import tensorflow as tf

    assert context.task is not None, "a cluster with a ps gives each member its task"
    role, index = context.task
    cluster = {name: list(addresses) for name, addresses in context.cluster.items()}
    tf.distribute.Server(cluster, job_name=role, task_index=index, protocol="grpc").join()
    return True


def _folder(experiment: KerasExperiment, context: Context) -> str:
    """The model_dir of the experiment. ProgramError if several instances need it and cannot share
    it."""
    folder = str(experiment.model_dir or context.checkpoint_dir)
    if not folder:
        raise ProgramError("the KerasExperiment has no model_dir", SHARE)
    if (context.trainers > 1 or context.has_evaluator) and context.hides(folder):
        raise ProgramError(f"no other instance sees {folder}, where the checkpoints are", SHARE)
    return folder


# ---- Training --------------------------------------------------------------------------------
class _Trainer:
    """`model.fit` on one instance. All instances use the same callbacks: to save a model with
    distributed variables, all of them must take part. Instances other than the first save into
    temporary folders."""

    def __init__(self, experiment: KerasExperiment, context: Context, kit: Kit):
        self.experiment, self.context, self.kit = experiment, context, kit
        self.model = experiment.model
        self.folder = experiment.model_dir
        self.first = context.role == "chief" or (
            not context.cluster.get("chief") and (context.task or ("worker", 0))[1] == 0
        )
        self.servers = bool(context.cluster.get("ps"))
        self.epoch = 0  # the last whole one, from 1
        self.metrics: dict[str, float] = {}  # its
        self.several = context.trainers > 1
        if self.several:
            self._check_strategy()

    def run(self) -> dict[str, Any]:
        """Returns the number of the last epoch and its metrics: {"epoch": 5, "loss": 0.1, ...}."""
        params = dict(self.experiment.train_params or {})
        given = [*(params.pop("callbacks", None) or ()), *self.experiment.callbacks]
        params.setdefault("verbose", 2 if self.first else 0)
        self._add_data(params)
        callbacks = [*given, *self._callbacks(given)]
        self.model.fit(**params, callbacks=callbacks)
        if not self.epoch:
            self._take_earlier()
        self._save()
        if self.first:
            self.write_state(ended=True)
        return {"epoch": self.epoch, **self.metrics}

    def _check_strategy(self) -> None:
        import tensorflow as tf

        if self.kit.three:
            raise ProgramError(
                f"Keras {self.kit.keras.__version__} cannot train on several instances with "
                "model.fit; Keras 2 can",
                'Give packages=["tf-keras"], so that tf.keras is Keras 2, and build the model with '
                "tf.keras.",
            )
        several = (
            tf.distribute.MultiWorkerMirroredStrategy,
            tf.distribute.experimental.MultiWorkerMirroredStrategy,
            tf.distribute.ParameterServerStrategy,
        )
        if self.experiment.strategy is None and not isinstance(
            self.model.distribute_strategy, several
        ):
            raise ProgramError(
                "the model of the KerasExperiment was built outside the strategy's scope, and "
                "each instance would train one of its own",
                "Annotate the function with `-> tfapp.KerasExperiment`, or give a function that "
                "builds the model as `model`.",
            )

    def _add_data(self, params: dict[str, Any]) -> None:
        experiment = self.experiment
        if experiment.input_data_fn is not None:
            params["x"] = experiment.input_data_fn()
        if experiment.target_data_fn is not None:
            params["y"] = experiment.target_data_fn()
        wanted = experiment.validation_data_fn is not None and not self.context.has_evaluator
        if wanted and "validation_data" not in params:
            params["validation_data"] = experiment.validation_data_fn()  # type: ignore[misc]
        if self.servers:
            _serve_data(params)

    def _callbacks(self, given: list[Any]) -> list[Any]:
        """The callbacks of tfapp and of the experiment. The backup is last: if a callback fails,
        the epoch is trained again."""
        callbacks = self.kit.keras.callbacks
        found = [_reporting(callbacks.Callback, self)]
        if not any(isinstance(callback, callbacks.TensorBoard) for callback in given):
            found.append(callbacks.TensorBoard(self.folder, write_graph=False, profile_batch=0))
        if self.context.has_evaluator:
            found.append(_at_epoch_end(callbacks.Callback, self.save_checkpoint))
        if not any(isinstance(callback, callbacks.BackupAndRestore) for callback in given):
            backup = os.path.join(self.folder, BACKUP)
            found.append(backup_of(callbacks.BackupAndRestore, backup))
        found.append(_at_epoch_end(callbacks.Callback, self.ended_epoch))
        return found

    def ended_epoch(self, epoch: int, logs: Mapping[str, Any]) -> None:
        self.epoch, self.metrics = epoch, numbers(logs)
        if self.first:
            self.write_state()

    def write_state(self, ended: bool = False) -> None:
        state = {"epoch": self.epoch, "metrics": self.metrics}
        mark = mark_of(self.context) if ended else None
        write_json(os.path.join(self.folder, STATE), {**state, "ended": mark})

    def _take_earlier(self) -> None:
        """The metrics of an earlier generation or run that has finished the training already."""
        state = read_json(os.path.join(self.folder, STATE))
        if state:
            self.epoch, self.metrics = state["epoch"], state["metrics"]
            print(f"tfapp: all {self.epoch} epochs were trained before", flush=True)

    def save_checkpoint(self, epoch: int, logs: Mapping[str, Any]) -> None:
        folder = os.path.join(self.folder, CHECKPOINTS)
        name = f"epoch-{epoch:05d}"
        if not self.kit.three:
            with self._place(folder) as place:
                self.model.save_weights(os.path.join(place, name))
            return
        import tensorflow as tf

        tf.io.gfile.makedirs(folder)
        partial = os.path.join(folder, f"partial-{name}{self.kit.suffix}")
        self.model.save_weights(partial)
        target = os.path.join(folder, f"{name}{self.kit.suffix}")
        tf.io.gfile.rename(partial, target, overwrite=True)

    def _save(self) -> None:
        import tensorflow as tf

        name = "model.keras" if self.kit.three else "saved_model"
        with self._place(self.folder) as place:
            partial = os.path.join(place, f"partial-{name}")
            if tf.io.gfile.isdir(partial):
                tf.io.gfile.rmtree(partial)
            if self.kit.three:
                self.model.save(partial)
            else:
                self.model.save(partial, save_format="tf")
            if self.first:
                target = os.path.join(place, name)
                if tf.io.gfile.isdir(target):
                    tf.io.gfile.rmtree(target)
                tf.io.gfile.rename(partial, target, overwrite=True)

    @contextlib.contextmanager
    def _place(self, folder: str) -> Iterator[str]:
        """`folder` on the first instance; a temporary folder on the others."""
        import tensorflow as tf

        if self.first:
            tf.io.gfile.makedirs(folder)
            yield folder
            return
        place = tempfile.mkdtemp(prefix="tfapp-")
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)


def _serve_data(params: dict[str, Any]) -> None:
    """Converts arrays into the datasets that ParameterServerStrategy needs, and their sizes into
    numbers of steps. Each worker shuffles on its own."""
    import tensorflow as tf

    size = params.pop("batch_size", None) or 32
    x, y = params.pop("x", None), params.pop("y", None)
    if not isinstance(x, tf.data.Dataset):
        rows = x if y is None else (x, y)
        x = tf.data.Dataset.from_tensor_slices(rows)
        x = x.shuffle(x.cardinality()).batch(size)
    if params.get("steps_per_epoch") is None:
        params["steps_per_epoch"] = _steps(x, "steps_per_epoch")
    params["x"] = x.repeat()
    validation = params.get("validation_data")
    if validation is None:
        return
    if not isinstance(validation, tf.data.Dataset):
        validation = tf.data.Dataset.from_tensor_slices(tuple(validation)).batch(size)
    if params.get("validation_steps") is None:
        params["validation_steps"] = _steps(validation, "validation_steps")
    params["validation_data"] = validation.repeat()


def _steps(dataset: Any, name: str) -> int:
    steps = int(dataset.cardinality())
    if steps < 0:
        raise ProgramError(
            f"ParameterServerStrategy needs {name}: the size of this dataset is not known",
            f'Give train_params={{"{name}": ...}}.',
        )
    return steps


def _at_epoch_end(base: Any, act: Callable[[int, Mapping[str, Any]], None]) -> Any:
    """A callback that calls `act(epoch, logs)` after each epoch, counted from 1."""

    class AtEpochEnd(base):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            act(epoch + 1, logs or {})

    return AtEpochEnd()


def _reporting(base: Any, trainer: _Trainer) -> Any:
    """A callback that reports the metrics of each epoch, and during an epoch the step; on a single
    instance also the present metrics. It prints where a restarted training continues. `step` counts
    batches of the global batch size."""

    class Reporting(base):
        _supports_tf_logs = True  # so that no batch waits for numbers that nobody wants
        _begun = False
        _next = 0.0
        _waits: CollectiveTime | None = None  # where several train in step
        _last = (0, 0.0)  # the step of the last report, and its time

        def on_train_begin(self, logs: Any = None) -> None:
            if trainer.several and not trainer.servers:
                self._waits = CollectiveTime()
            self._next = time.monotonic() + INTERVAL

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            if not self._begun and epoch and trainer.first:
                print(f"tfapp: training goes on after epoch {epoch}", flush=True)
            self._begun = True

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self._report({"epoch": epoch + 1, **(logs or {})})
            self._last = (0, 0.0)  # what happens between two epochs is of no step

        def _report(self, logs: Mapping[str, Any]) -> None:
            step = int(self.model.optimizer.iterations.numpy())
            epochs, steps = self.params.get("epochs"), self.params.get("steps")
            total = epochs * steps if epochs and steps else None
            trainer.context.report(numbers(logs), step=step, total=total)
            self._next = time.monotonic() + INTERVAL

    class ReportingBatches(Reporting):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if time.monotonic() >= self._next:
                # Those of several workers are put together at the epoch's end alone.
                self._report(self._own() if trainer.several else logs or {})

        def _own(self) -> dict[str, float]:
            """The seconds of a step that this instance has needed itself, since the last report."""
            if self._waits is None or not self._waits.works:
                return {}
            step, now = int(self.model.optimizer.iterations.numpy()), time.monotonic()
            (before, begun), waited = self._last, self._waits.take()
            self._last = (step, now)
            if not begun or step <= before:
                return {}
            return {OWN_STEP: max(now - begun - waited, 0.0) / (step - before)}

    # Under ParameterServerStrategy, what comes of a batch is still on its way.
    return Reporting() if trainer.servers else ReportingBatches()
