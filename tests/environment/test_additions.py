"""TensorFlow is added to packages that name none."""

import importlib.metadata

import pytest

from tfapp.environment.additions import installed, name_of, tensorflow_for


@pytest.mark.parametrize(
    ("requirement", "name"),
    [
        ("pandas", "pandas"),
        ("keras<3", "keras"),
        ("TF_Keras == 2.16.*", "tf-keras"),
        ("tensorflow[and-cuda]~=2.20", "tensorflow"),
        ("tensorflow; python_version < '3.12'", "tensorflow"),
        ("tensorflow-io>=0.37", "tensorflow-io"),
        ("/wheels/tensorflow_cpu-2.16.1-cp311-cp311-linux_x86_64.whl", "tensorflow-cpu"),
        ("own @ https://host/tensorflow-2.0.whl", "own"),
        ("", ""),
    ],
)
def test_the_name_of_a_requirement(requirement, name):
    assert name_of(requirement) == name


HERE = {"tensorflow": "2.21.0", "tf-keras": "2.21.0"}


@pytest.mark.parametrize(
    ("requirements", "here", "added"),
    [
        (["pandas"], HERE, ["tensorflow==2.21.0", "tf-keras==2.21.0"]),
        (["tf-keras<2.20"], HERE, ["tensorflow==2.21.0"]),
        ([], {"tensorflow-cpu": "2.16.1"}, ["tensorflow-cpu==2.16.1"]),
        (["pandas"], {}, ["tensorflow"]),
        (["tensorflow==2.16.*"], HERE, []),
        (["pandas", "tensorflow-cpu"], HERE, []),
        (["tf-nightly"], HERE, []),
        (["tensorflow-datasets"], HERE, ["tensorflow==2.21.0", "tf-keras==2.21.0"]),
    ],
    ids=str,
)
def test_what_is_added(requirements, here, added):
    assert tensorflow_for(requirements, lambda name: here.get(name, "")) == tuple(added)


def test_the_versions_are_those_of_this_interpreter():
    version = importlib.metadata.version("tensorflow")
    assert f"tensorflow=={version}" in tensorflow_for(["pandas"])
    assert f"tensorflow=={version}" in installed()
