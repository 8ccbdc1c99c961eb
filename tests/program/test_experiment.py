"""What is known of a function before it is called."""

from __future__ import annotations

import functools
import types

import pytest

import tfapp.program.experiment
from tfapp.program import experiment
from tfapp.program.experiment import Experiment, KerasExperiment, makes_strategy, returns
from tfapp.program.experiment import KerasExperiment as Renamed


def says_so() -> KerasExperiment:
    return anything()


def in_words() -> tfapp.program.experiment.KerasExperiment:
    return anything()


def makes():
    return KerasExperiment(None)


def makes_renamed():
    return Renamed(None)


def makes_by_module():
    return experiment.KerasExperiment(None)


def makes_inside():
    def inner():
        from tfapp.program.experiment import KerasExperiment

        return KerasExperiment(None)

    return inner()


def calls_another(context):
    return makes()


def own_module():
    return types.ModuleType("own")


def calls_a_module():
    return library.build()


def anything():
    return None


def distributed():
    import tensorflow as tf

    with tf.distribute.MirroredStrategy().scope():
        return anything()


def current():
    import tensorflow as tf

    return tf.distribute.get_strategy()


def calls_distributed():
    return distributed()


library = own_module()
library.__file__ = "/home/me/library.py"
library.build = makes  # type: ignore[attr-defined]


class Makes:
    def __call__(self):
        return makes()

    def method(self):
        return makes()


@functools.lru_cache
def cached():
    return makes()


@pytest.mark.parametrize(
    "function",
    [
        *(says_so, in_words, makes, makes_renamed, makes_by_module, makes_inside),
        *(calls_another, calls_a_module, cached),
        *(functools.partial(calls_another, None), Makes(), Makes().method),
        *(lambda: makes(), functools.wraps(anything)(lambda: makes())),
    ],
)
def test_a_keras_experiment_is_seen(function):
    assert returns(function, KerasExperiment)
    assert not makes_strategy(function)


@pytest.mark.parametrize("function", [anything, lambda: Experiment(1, 2, 3), distributed, dict])
def test_another_function_is_not_taken_for_one(function):
    assert not returns(function, KerasExperiment)


def test_an_estimator_s_experiment_is_seen():
    assert returns(lambda: Experiment(1, 2, 3), Experiment)
    assert not returns(makes, Experiment)


def test_a_strategy_of_its_own_is_seen():
    assert makes_strategy(distributed)
    assert makes_strategy(calls_distributed)
    assert not makes_strategy(current)


def test_they_have_the_fields_of_tf_yarn_in_its_order():
    assert Experiment._fields == ("estimator", "train_spec", "eval_spec")
    assert KerasExperiment._fields[:6] == (
        *("model", "model_dir", "train_params"),
        *("input_data_fn", "target_data_fn", "validation_data_fn"),
    )
    estimator = types.SimpleNamespace(config="its config")
    assert Experiment(estimator, None, None).config == "its config"
