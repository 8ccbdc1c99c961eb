"""The model of a `KerasExperiment`, and the files through which trainers and evaluator
communicate."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
from collections.abc import Mapping
from typing import Any

from tfapp.errors import ProgramError
from tfapp.program.context import Context

CHECKPOINTS = "checkpoints"
STATE = "training.json"


class Kit:
    """The Keras library of a model: the module `keras`, and whether it is Keras 3."""

    def __init__(self, model: Any):
        name = _library(model)
        if name is None or not hasattr(model, "fit"):
            raise ProgramError(
                f"the model of the KerasExperiment is {named(model)}; a compiled Keras model, or "
                "a function that makes one, was expected"
            )
        if getattr(model, "optimizer", None) is None:
            raise ProgramError(
                "the model of the KerasExperiment is not compiled",
                "Call model.compile(...) in the function that makes it.",
            )
        self.keras = importlib.import_module(name)
        self.three = int(self.keras.__version__.split(".")[0]) >= 3
        self.suffix = ".weights.h5" if self.three else ".index"  # of a checkpoint that is whole


def _library(model: Any) -> str | None:
    """The library of a model: "keras" or "tf_keras"."""
    roots = (cls.__module__.partition(".")[0] for cls in type(model).__mro__)
    return next((root for root in roots if root in ("keras", "tf_keras")), None)


def is_function(model: Any) -> bool:
    return callable(model) and not hasattr(model, "fit")


def build(model: Any) -> Any:
    return model() if is_function(model) else model


def named(value: object) -> str:
    return "nothing (None)" if value is None else f"a value of type {type(value).__name__}"


def numbers(logs: Mapping[str, Any]) -> dict[str, float]:
    """The scalar metrics in `logs`, as floats."""
    found = {}
    for name, value in logs.items():
        with contextlib.suppress(TypeError, ValueError):
            found[name] = float(value)
    return found


def is_iterator(data: Any) -> bool:
    """Whether `data` is an iterator or a generator."""
    return hasattr(data, "__next__")


def mark_of(context: Context) -> dict[str, Any]:
    """Identifies this cluster's training, so that an evaluator can tell its end from that of an
    earlier one. Without the evaluator, which is in its own TF_CONFIG alone."""
    cluster = {role: list(at) for role, at in context.cluster.items() if role != "evaluator"}
    return {"generation": context.generation, "cluster": cluster}


def write_json(path: str, value: object) -> None:
    import tensorflow as tf

    tf.io.gfile.makedirs(os.path.dirname(path))
    partial = f"{path}.partial"
    with tf.io.gfile.GFile(partial, "w") as file:
        file.write(json.dumps(value))
    tf.io.gfile.rename(partial, path, overwrite=True)


def read_json(path: str) -> Any:
    """The JSON in a file; None if the file does not exist."""
    import tensorflow as tf

    try:
        with tf.io.gfile.GFile(path, "r") as file:
            return json.loads(file.read())
    except tf.errors.NotFoundError:
        return None
