"""A KerasExperiment on JAX on a real cluster, on whose machines their own name is 127.0.0.1."""

import pytest

from tests.program.test_keras_jax import goes_on_after_a_process_was_killed


@pytest.mark.weekly
@pytest.mark.trains
def test_a_training_goes_on_after_a_process_was_killed(spark, tmp_path, monkeypatch):
    goes_on_after_a_process_was_killed(tmp_path, monkeypatch, spark=spark)
