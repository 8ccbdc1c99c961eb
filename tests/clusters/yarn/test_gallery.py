"""Examples of the packages that tfapp brings, with a failure in the middle."""

import pytest

from tests.app_packages.test_data_service import trains_while_each_part_is_killed
from tests.app_packages.test_keras_jax import learns_although_a_process_is_killed
from tests.app_packages.test_keras_tuner import searches_although_each_part_is_killed

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.weekly]


def test_tf_data_service(tfapp, tmp_path):
    trains_while_each_part_is_killed(tfapp, tmp_path)


def test_keras_on_jax(tfapp, tmp_path):
    learns_although_a_process_is_killed(tfapp, tmp_path)


def test_keras_tuner(tfapp, tmp_path):
    searches_although_each_part_is_killed(tfapp, tmp_path)
