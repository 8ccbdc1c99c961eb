"""The sample package of "Tensorflow on Slider", as its authors wrote it, and the same as YAML.

The sample asks for run mode docker without naming an image. It loads: the image is then the
default that the schema documents, and a warning says which.
"""

import dataclasses
import shutil

import pytest

from tests.package.packages import HERE, report, sound
from tfapp.package.load import load_package

SAMPLES = HERE / "slider_samples"

JSON_FINDINGS = """\
appConfig-default.json:8:33: warning: no site.global.docker.image is given: the default, \
tensorflow/tensorflow:2.20.0, is used [docker-image]
  hint: name the image that has what your program needs
resources.default.json:12:35: warning: 'ps' serves workers without a chief [cluster-layout]
  hint: tf.distribute's ParameterServerStrategy needs a chief; without one, the program itself \
must let worker 0 be it
"""


def test_json_loads_with_warnings_only():
    loaded = load_package(SAMPLES / "json")
    assert report(loaded.problems, SAMPLES / "json") == JSON_FINDINGS
    package = loaded.package
    assert package is not None
    assert (package.name, package.version) == ("tfyarn", "")
    assert [(c.name, c.role, package.instances(c.name)) for c in package.components] == [
        ("ps", "ps", 2),
        ("worker", "worker", 2),
    ]
    assert {name: (r.priority, r.container.memory) for name, r in package.resources.items()} == {
        "ps": (2, 1024),
        "worker": (1, 2056),
    }
    assert package.config.components["worker"]["site.global.run.mode"].text == "docker"


@pytest.mark.parametrize("archived", [False, True], ids=["folder", "zip"])
def test_yaml_is_the_same_package(archived, tmp_path):
    yaml = SAMPLES / "yaml"
    if archived:
        shutil.make_archive(str(tmp_path / "app"), "zip", yaml)
        yaml = tmp_path / "app.zip"
    from_json = sound(SAMPLES / "json")
    from_yaml = sound(yaml)
    assert dataclasses.replace(from_yaml, source=from_json.source) == from_json


def test_the_commands_of_its_manual():
    """`--template appConfig-default.json --resources resources.default.json`, from anywhere."""
    from pathlib import Path

    loaded = load_package(
        SAMPLES / "json",
        template=Path("appConfig-default.json"),
        resources=Path("resources.default.json"),
    )
    assert loaded == load_package(SAMPLES / "json")
