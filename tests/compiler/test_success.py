"""The components whose end is the application's success."""

import dataclasses

import pytest

from tests.compiler.packages import component, package
from tfapp.compiler.job import success_components


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"chief": 1, "worker": 2, "ps": 1, "evaluator": 1}, ("chief",)),
        ({"chief": 0, "worker": 2, "ps": 1}, ("worker",)),
        ({"worker": 2, "evaluator": 1, "tensorboard": 1}, ("worker",)),
        ({"evaluator": 1, "ps": 1}, ("evaluator",)),
        ({"evaluator": 1, "other": 1}, ("evaluator",)),
        ({"other": 1, "tensorboard": 1}, ("other",)),
        ({"ps": 1, "tensorboard": 1}, ("ps", "tensorboard")),
    ],
)
def test_by_default(counts, expected):
    built = package(*(component(name) for name in counts), counts=counts)
    assert success_components(built) == expected


def test_by_role_not_by_name():
    trainers = (component("leader", role="chief"), component("helper", role="worker"))
    assert success_components(package(*trainers)) == ("leader",)


def test_every_component_of_the_deciding_role():
    trainers = (component("gpu", role="worker"), component("cpu", role="worker"))
    assert success_components(package(*trainers)) == ("gpu", "cpu")


def test_as_the_package_says():
    built = package(component("chief"), component("worker"), counts={"chief": 0})
    built = dataclasses.replace(built, success=("chief", "worker"))
    assert success_components(built) == ("worker",)


def test_by_one_instance():
    built = package(component("chief"), component("worker"), counts={"chief": 0, "worker": 2})
    built = dataclasses.replace(built, success=("chief/0", "worker/1"))
    assert success_components(built) == ("worker/1",)
