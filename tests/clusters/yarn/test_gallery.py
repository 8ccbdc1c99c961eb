"""Examples of the packages that tfapp brings, with a failure in the middle."""

import pytest

import tfapp
from tests.app_packages.test_data_service import trains_while_each_part_is_killed
from tests.app_packages.test_keras_jax import learns_although_a_process_is_killed
from tests.app_packages.test_keras_tuner import searches_although_each_part_is_killed
from tests.program.test_keras_jax import goes_on_after_a_process_was_killed

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.weekly]


def test_tf_data_service(tfapp, tmp_path):
    trains_while_each_part_is_killed(tfapp, tmp_path)


def test_keras_on_jax(tfapp, tmp_path):
    learns_although_a_process_is_killed(tfapp, tmp_path)


def test_an_experiment_on_jax(user, tmp_path, monkeypatch):
    for name, value in {**user.environ, "TFAPP_HOME": str(user.home)}.items():
        monkeypatch.setenv(name, value)
    goes_on_after_a_process_was_killed(tmp_path, monkeypatch, engine="yarn")
    tfapp.open("digits", "yarn").destroy()


def test_keras_tuner(tfapp, tmp_path):
    searches_although_each_part_is_killed(tfapp, tmp_path)
