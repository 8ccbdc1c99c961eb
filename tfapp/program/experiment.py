"""Return types of experiment functions, with the names of tf-yarn."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

JAX = "jax"
_STANDARD = os.path.dirname(os.__file__)


class Experiment(NamedTuple):
    """An Estimator and the arguments of `tf.estimator.train_and_evaluate`. Needs TensorFlow 2.15 or
    older.

    - `estimator`: a `tf.estimator.Estimator` with a `model_dir` that all instances see
    - `train_spec`: a `tf.estimator.TrainSpec`. Training and evaluator end after its `max_steps`
      global steps
    - `eval_spec`: a `tf.estimator.EvalSpec`, with times in seconds

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
    """A compiled Keras model and its training data.

    - `model`: a compiled model, or a function without arguments that returns one
    - `model_dir`: the folder for checkpoints, events and the saved model; a path or a URL that all
      instances see. Default: the checkpoint folder of the application
    - `train_params`: arguments of `model.fit`, such as {"epochs": 10, "steps_per_epoch": 100}.
      Callbacks in "callbacks" are used too
    - `input_data_fn`: returns `x` of `model.fit`: a `tf.data.Dataset` with batches of the global
      batch size, or arrays
    - `target_data_fn`: returns `y`, if `x` does not contain it
    - `validation_data_fn`: returns a dataset or (x, y). An evaluator evaluates the checkpoint of
      each epoch on it; without an evaluator, `model.fit` does
    - `callbacks`: Keras callbacks, used on all workers
    - `strategy`: a `tf.distribute.Strategy`, or a function that returns one. Default: the strategy
      that follows from the cluster (see `tfapp.program.keras`). A model must be built in its scope
    - `backend`: "tensorflow", or "jax" for Keras 3 on JAX, which needs no TensorFlow; written so in
      the function. Chief and workers are processes of JAX (see `tfapp.program.keras_jax`): arrays
      are divided among them, "batch_size" counts the examples of all of them, and anything else
      that `input_data_fn` returns makes the batches of one process

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
    backend: str = "tensorflow"


# ---- What a function will return -------------------------------------------------------------
_FAR = 1000  # functions that are looked at


def returns(function: Callable[..., Any], kind: type[Experiment] | type[KerasExperiment]) -> bool:
    """Whether a function returns an experiment of this kind, determined without calling it: the
    model of a KerasExperiment must be built in the scope of a strategy, in which other programs
    must not be called. It is determined by the annotation of the function, or by the class that the
    function, or a function of the user that it calls, names."""
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


def trains_on_jax(function: Callable[..., Any]) -> bool:
    """Whether a function returns a KerasExperiment with backend="jax", determined as by `returns`:
    JAX's processes must be joined before it is called."""
    return returns(function, KerasExperiment) and any(
        {JAX, ("backend",)} <= _constants(found.__code__) for found in _functions(function)
    )


def makes_strategy(function: Callable[..., Any]) -> bool:
    """Whether a function names a class of `tf.distribute`, such as MirroredStrategy. It then enters
    its own scope and is called in no other."""
    return any(
        name.endswith("Strategy")
        for found in _functions(function)
        for name in _names(found.__code__)
    )


def _functions(function: Callable[..., Any]) -> Iterator[FunctionType]:
    """A function and the user's functions that it may call."""
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
    """All global names and attributes that a function and its inner functions use."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _names(constant)
    return found


def _constants(code: CodeType) -> set[Any]:
    """The texts of a function and its inner functions, and each name of an argument in a tuple of
    its own."""
    found: set[Any] = set()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _constants(constant)
        elif isinstance(constant, str):
            found.add(constant)
        elif isinstance(constant, tuple):
            found |= {(item,) for item in constant if isinstance(item, str)}
    return found


def _is_installed(file: str | None) -> bool:
    """Whether a module is installed, and thus not the user's."""
    return file is None or "-packages" in file or file.startswith(_STANDARD)
