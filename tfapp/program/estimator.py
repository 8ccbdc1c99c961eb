"""Trains an `Experiment` by `tf.estimator.train_and_evaluate`, which runs the task that TF_CONFIG
gives to this instance.

Chief and workers train, a ps serves until it is stopped, and the evaluator ends after the
checkpoint of `max_steps`. Without an evaluator the chief evaluates its last checkpoint.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any

from tfapp.errors import ProgramError
from tfapp.program.context import Context
from tfapp.program.experiment import Experiment
from tfapp.program.keras_model import numbers

SHARE = (
    "Give the RunConfig a model_dir that all instances see: context.checkpoint_dir, if the call "
    "has checkpoints=."
)
# The step in a checkpoint: of an Estimator, and of what model_to_estimator makes of a Keras model.
STEPS = ("global_step", "estimator_global_step/.ATTRIBUTES/VARIABLE_VALUE")


def run(experiment: Experiment, context: Context) -> dict[str, Any] | None:
    """Returns the last metrics that this instance has evaluated, or the number of steps."""
    import tensorflow as tf

    if not hasattr(tf, "estimator"):
        raise gone(tf.__version__)
    cluster = context.cluster
    alone = experiment.config.train_distribute is None and not cluster.get("ps")
    if cluster.get("worker") and cluster.get("chief") and alone:
        raise ProgramError(
            "an Estimator with workers needs a ps: without one each worker trains a model of its "
            "own",
            "Add a component ps, or give its RunConfig a train_distribute strategy.",
        )
    folder, several = experiment.estimator.model_dir, context.trainers > 1 and not cluster.get("ps")
    if (several or context.has_evaluator) and context.hides(folder):
        raise ProgramError(f"no other instance sees {folder}, where the checkpoints are", SHARE)
    measured = _measured(experiment, context)
    tf.estimator.train_and_evaluate(*experiment)
    chief = context.role == "chief"
    if chief and not measured and not context.has_evaluator:
        _measure_last(experiment)
    if chief and "global_step" not in measured:
        measured.update(_step(experiment.estimator))
    return measured or None


def _step(estimator: Any) -> dict[str, int]:
    """The step of the last checkpoint; nothing if it has none."""
    names = estimator.get_variable_names() if estimator.latest_checkpoint() else ()
    found = [estimator.get_variable_value(name) for name in STEPS if name in names]
    return {"global_step": int(found[0])} if found else {}


def gone(version: str) -> ProgramError:
    """The message for a TensorFlow version without Estimators."""
    return ProgramError(
        f"TensorFlow {version} has no Estimators: they were removed in TensorFlow 2.16",
        'Give packages=["tensorflow==2.15.*"], with Python 3.9 to 3.11, or return a '
        "tfapp.KerasExperiment.",
    )


def missed(error: Exception, version: str) -> ProgramError | None:
    """The message for an exception of the user's function that was caused by missing Estimators;
    None for any other exception."""
    if not isinstance(error, (AttributeError, ImportError)):
        return None
    last: TracebackType | None = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    asked = last is not None and "estimator" in last.tb_frame.f_code.co_names
    return gone(version) if asked else None


def _measured(experiment: Experiment, context: Context) -> dict[str, Any]:
    """A dictionary that receives the metrics of each evaluation. They are reported too."""
    last: dict[str, Any] = {}
    estimator = experiment.estimator
    total = getattr(experiment.train_spec, "max_steps", None)
    evaluate = estimator.evaluate

    def reporting(*args: Any, **kwargs: Any) -> Any:
        found = evaluate(*args, **kwargs) or {}
        last.clear()
        last.update(numbers(found))  # a vector or a summary is no metric
        if "global_step" in last:
            last["global_step"] = int(last["global_step"])
            metrics = {name: value for name, value in last.items() if name != "global_step"}
            context.report(metrics, step=last["global_step"], total=total)
        return found

    estimator.evaluate = reporting
    return last


def _measure_last(experiment: Experiment) -> None:
    estimator, spec = experiment.estimator, experiment.eval_spec
    found = estimator.evaluate(spec.input_fn, steps=spec.steps, hooks=spec.hooks, name=spec.name)
    for exporter in spec.exporters or ():
        folder = os.path.join(estimator.model_dir, "export", exporter.name)
        exporter.export(estimator, folder, estimator.latest_checkpoint(), found, True)
