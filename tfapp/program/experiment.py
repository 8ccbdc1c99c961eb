"""The results of an experiment function, with the names that tf-yarn gave them."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

_STANDARD = os.path.dirname(os.__file__)


class Experiment(NamedTuple):
    """An Estimator with what `tf.estimator.train_and_evaluate` needs; TensorFlow 2.15 or older.

    `estimator`: a `tf.estimator.Estimator`, whose `model_dir` all instances see. `train_spec`:
    a `tf.estimator.TrainSpec`; its `max_steps` is the number of global steps after which training
    and the evaluator end. `eval_spec`: a `tf.estimator.EvalSpec`; its times are in seconds.

    >>> def experiment(context):
    ...     import tensorflow as tf
    ...     columns = [tf.feature_column.numeric_column("x")]
    ...     return Experiment(
    ...         tf.estimator.LinearRegressor(columns, model_dir=context.checkpoint_dir),
    ...         tf.estimator.TrainSpec(train_data, max_steps=1000),
    ...         tf.estimator.EvalSpec(test_data, start_delay_secs=0, throttle_secs=10),
    ...     )
    >>> Experiment("an Estimator", "a TrainSpec", "an EvalSpec").train_spec
    'a TrainSpec'
    """

    estimator: Any
    train_spec: Any
    eval_spec: Any

    @property
    def config(self) -> Any:
        """The Estimator's `tf.estimator.RunConfig`; `config.model_dir` is its folder."""
        return self.estimator.config


class KerasExperiment(NamedTuple):
    """A compiled Keras model with what it trains on.

    `model`: a compiled model, or a function without arguments that makes one. `model_dir`: the
    folder of checkpoints, events and the saved model, seen by all instances; a path or a URL, by
    default the application's checkpoint folder. `train_params`: arguments of `model.fit`, as
    {"epochs": 10, "steps_per_epoch": 100}; what is in "callbacks" here runs as well.
    `input_data_fn` returns `x` of `model.fit`: a `tf.data.Dataset`, batched to the size of all
    replicas together, or arrays. `target_data_fn` returns `y`, where `x` does not have it.
    `validation_data_fn` returns a dataset, or (x, y), that an evaluator measures each epoch's
    checkpoint on; without an evaluator, `model.fit` does. `callbacks` run on all workers.
    `strategy`: a `tf.distribute.Strategy` or a function that makes one, in place of the one that
    follows from the cluster (see `tfapp.program.keras`); a ready model was built in its scope.

    >>> def build():
    ...     import tensorflow as tf
    ...     model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    ...     model.compile("adam", "mse")
    ...     return model
    >>> def experiment():
    ...     return KerasExperiment(build, train_params={"epochs": 10}, input_data_fn=lambda: data)
    >>> returns(experiment, KerasExperiment)
    True
    >>> experiment().train_params
    {'epochs': 10}
    """

    model: Any
    model_dir: str = ""
    train_params: Mapping[str, Any] | None = None
    input_data_fn: Callable[[], Any] | None = None
    target_data_fn: Callable[[], Any] | None = None
    validation_data_fn: Callable[[], Any] | None = None
    callbacks: Iterable[Any] = ()
    strategy: Any = None


# ---- What a function will return -------------------------------------------------------------
_FAR = 1000  # functions that are looked at


def returns(function: Callable[..., Any], kind: type[Experiment] | type[KerasExperiment]) -> bool:
    """Whether a function makes an experiment of this kind: known before it is called, because the
    model of a KerasExperiment has to be built inside the strategy's scope, where other programs
    must not be called. It says so in its annotation, or names the class, as functions of the user
    that it calls may do."""
    for found in _functions(function):
        told = getattr(found, "__annotations__", {}).get("return")
        if told is kind or str(told).rpartition(".")[2] == kind.__name__:
            return True
        names = _names(found.__code__)
        if kind.__name__ in names:
            return True
        if any(found.__globals__.get(name) is kind for name in names):
            return True
    return False


def makes_strategy(function: Callable[..., Any]) -> bool:
    """Whether a function names a class of `tf.distribute`, as MirroredStrategy: it enters a scope
    of its own, and is called in no other."""
    return any(
        name.endswith("Strategy")
        for found in _functions(function)
        for name in _names(found.__code__)
    )


def _functions(function: Callable[..., Any]) -> Iterator[FunctionType]:
    """A function and those of the user's own that it can call."""
    waiting: list[Any] = [function]
    seen: set[int] = set()
    while waiting and len(seen) < _FAR:
        found = waiting.pop(0)
        if id(found) in seen:
            continue
        seen.add(id(found))
        if isinstance(found, functools.partial):
            waiting.append(found.func)
        elif isinstance(found, MethodType):
            waiting.append(found.__func__)
        elif isinstance(found, FunctionType):
            if len(seen) > 1 and _is_installed(found.__code__.co_filename):
                continue
            yield found
            waiting += _reachable(found)
        elif hasattr(found, "__wrapped__"):
            waiting.append(found.__wrapped__)
        elif len(seen) == 1 and callable(found) and not isinstance(found, type):
            waiting.append(type(found).__call__)


def _reachable(function: FunctionType) -> Iterator[Any]:
    yield getattr(function, "__wrapped__", None)
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # not filled yet
            yield cell.cell_contents
    names = _names(function.__code__)
    for name in names:
        found = function.__globals__.get(name)
        yield found
        if isinstance(found, ModuleType) and not _is_installed(getattr(found, "__file__", None)):
            yield from (vars(found).get(other) for other in names)


def _names(code: CodeType) -> set[str]:
    """All global names and attributes in a function and those inside it."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _names(constant)
    return found


def _is_installed(file: str | None) -> bool:
    """Whether a module is not the user's own."""
    return file is None or "-packages" in file or file.startswith(_STANDARD)
