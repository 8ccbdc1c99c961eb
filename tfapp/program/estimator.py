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

GONE = (
    "TensorFlow {} has no Estimators: they were removed in TensorFlow 2.16",
    'Give packages=["tensorflow==2.15.*"], with Python 3.9 to 3.11, or return a '
    "tfapp.KerasExperiment.",
)


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
    measured = _measured(experiment.estimator, context)
    tf.estimator.train_and_evaluate(*experiment)
    chief = context.role == "chief"
    if chief and not measured and not any(m.role == "evaluator" for m in context.members):
        _measure_last(experiment)
    if chief:
        measured.setdefault(
            "global_step", int(experiment.estimator.get_variable_value("global_step"))
        )
    return measured or None


def gone(version: str) -> ProgramError:
    """The message for a TensorFlow version without Estimators."""
    message, hint = GONE
    return ProgramError(message.format(version), hint)


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


def _measured(estimator: Any, context: Context) -> dict[str, Any]:
    """A dictionary that receives the metrics of each evaluation. They are reported too."""
    last: dict[str, Any] = {}
    evaluate = estimator.evaluate

    def reporting(*args: Any, **kwargs: Any) -> Any:
        found = evaluate(*args, **kwargs) or {}
        last.clear()
        last.update({name: float(value) for name, value in found.items()})
        if "global_step" in last:
            last["global_step"] = int(last["global_step"])
            metrics = {name: value for name, value in last.items() if name != "global_step"}
            context.report(metrics, step=last["global_step"])
        return found

    estimator.evaluate = reporting
    return last


def _measure_last(experiment: Experiment) -> None:
    estimator, spec = experiment.estimator, experiment.eval_spec
    found = estimator.evaluate(spec.input_fn, steps=spec.steps, hooks=spec.hooks, name=spec.name)
    for exporter in spec.exporters or ():
        folder = os.path.join(estimator.model_dir, "export", exporter.name)
        exporter.export(estimator, folder, estimator.latest_checkpoint(), found, True)
