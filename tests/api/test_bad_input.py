"""What a person gets wrong in a call, told before anything is submitted."""

from __future__ import annotations

import shutil

import pytest

import tfapp
from tfapp.api.errors import told_in_full
from tfapp.engines.yarn.preflight import queue_refused
from tfapp.errors import InvalidPackageError, NotFoundError, ProgramError, TfappError, UsageError
from tfapp.problems import Position, Problem
from tfapp.shipped import app_packages_dir

Component = tfapp.Component


def train():
    return 1


def experiment() -> tfapp.KerasExperiment:
    return tfapp.KerasExperiment(None)


def estimator():
    return tfapp.Experiment(None, None, None)


def test_a_script_cannot_be_fed(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("print(1)")
    workers = {"worker": Component()}
    with pytest.raises(ProgramError, match=r"worker is the script .*train.py, and a script has no"):
        tfapp.submit(str(script), workers, feed=True, show=False)


def test_programs_that_are_fed_begin_again_together(tmp_path, tfapp_home):
    package = shutil.copytree(app_packages_dir() / "tensorflow", tmp_path / "package")
    policy = "failurePolicy: {rules: [{components: [worker], action: RestartInstance}]}"
    metainfo = (package / "metainfo.yaml").read_text()
    (package / "metainfo.yaml").write_text(f"{metainfo}\n  {policy}\n")
    with pytest.raises(InvalidPackageError, match="'worker' is fed from Spark, and RestartInstanc"):
        tfapp.submit(train, {"worker": Component()}, package=package, feed=True, show=False)
    assert not any((tfapp_home / "local").glob("*/*"))


@pytest.mark.parametrize(
    ("arguments", "error", "told"),
    [
        (
            {"components": {"wroker": Component()}},
            InvalidPackageError,
            ["components['wroker']", "worker"],
        ),
        (
            {"components": {"worker": Component(memory="lots")}},
            InvalidPackageError,
            ["components['worker'].memory", "lots"],
        ),
        (
            {"components": {"worker": Component(instances="many")}},
            InvalidPackageError,
            ["components['worker']", "many"],
        ),
        ({"components": {"chief": Component(instances=2)}}, InvalidPackageError, ["chief", "1"]),
        (
            {"program": experiment, "components": {"ps": Component(), "worker": Component()}},
            UsageError,
            ["experiment", "parameter servers", "chief"],
        ),
        (
            {"program": estimator, "components": tfapp.all_reduce(2)},
            UsageError,
            ["estimator is an Estimator experiment with workers and without a chief", '"chief"'],
        ),
        ({"components": {"worker": 2}}, UsageError, ["components['worker']", "tfapp.Component"]),
        ({"components": ["worker"]}, UsageError, ["components is a list", "mapping"]),
        ({"components": {}}, UsageError, ["components is empty", "instances=2"]),
        ({"components": tfapp.all_reduce(0)}, UsageError, ["has an instance", "instances=2"]),
        ({"retries": -1}, InvalidPackageError, ["retries"]),
        ({"retries": "often"}, InvalidPackageError, ["retries"]),
        ({"losses": -1}, InvalidPackageError, ["losses"]),
        ({"timeout": "soon"}, InvalidPackageError, ["timeout"]),
        ({"name": "Not A Name"}, UsageError, ["'Not A Name'", "lower-case"]),
        ({"engine": "moon"}, UsageError, ["moon", "local"]),
        ({"files": "one.txt"}, UsageError, ["files=['one.txt']"]),
        ({"files": {"a": "/no/such"}}, NotFoundError, ["files['a']", "/no/such"]),
        ({"files": ["/no/such"]}, InvalidPackageError, ["/no/such"]),
        ({"packages": "keras"}, UsageError, ["packages=['keras']"]),
        ({"acls": {"viewers": ["ann"]}}, UsageError, ["viewers", "view_users"]),
        ({"options": {"site.global.rum.mode": "x"}}, InvalidPackageError, ["rum.mode", "run.mode"]),
        ({"env": {"A B": "1"}}, UsageError, ["A B"]),
        ({"env_file": "/no/such.env"}, NotFoundError, ["env_file", "/no/such.env"]),
        ({"package": "/no/such/package"}, InvalidPackageError, ["/no/such/package"]),
        ({"checkpoints": "${NO_SUCH}/x"}, InvalidPackageError, ["checkpoints", "NO_SUCH"]),
        ({"program": None}, UsageError, ["no program", "chief"]),
        ({"program": 5}, ProgramError, ["5"]),
        ({"program": "no_such_module"}, ProgramError, ["no_such_module"]),
        ({"program": "json:no_such"}, ProgramError, ["json", "no_such"]),
        ({"program": "/no/such.py"}, ProgramError, ["/no/such.py"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, (dict, list)) else value.__name__,
)
def test_a_mistake_is_told_by_the_name_of_its_argument(arguments, error, told, tfapp_home):
    given = {"program": train, "components": tfapp.single_server(), **arguments}
    with pytest.raises(error) as caught:
        tfapp.submit(show=False, **given)
    assert isinstance(caught.value, TfappError)
    for words in told:
        assert words in str(caught.value), str(caught.value)
    assert not any((tfapp_home / "local").glob("*/*"))


def test_run_tells_the_hint_too(tfapp_home):
    with pytest.raises(UsageError, match="Not A Name(.|\n)*lower-case"):
        tfapp.run(train, name="Not A Name")


def test_an_argument_that_there_is_none_of():
    with pytest.raises(TypeError, match="did you mean engine"):
        tfapp.run(train, enigne="yarn")


def test_what_an_engine_finds_is_told_by_the_argument_too():
    refused = (
        queue_refused("ours", "ann", "it is full"),
        Problem(Position("resources.yaml", 3, 1), "a", "b"),
    )
    with pytest.raises(InvalidPackageError) as caught, told_in_full():
        raise InvalidPackageError(refused)
    told = str(caught.value)
    said = "queue 'ours' does not take the application of ann: it is full"
    assert f"\nqueue='ours': error: {said} [queue]\n" in told
    assert "\nresources.yaml:3:1: error: b [a]" in told


@pytest.mark.parametrize(
    ("message", "hint", "told"),
    [
        ("app exists", "give --replace, or --name OTHER", "give replace=True, or name= OTHER"),
        ("x is missing", "ship it with --files x", "ship it with files= x"),
        ("a", "`tfapp stop app --force` ends it", "`tfapp stop app --force` ends it"),
        ("a", "--unknown stays", "--unknown stays"),
        ("--env-file: no", "", "env_file=: no"),
    ],
)
def test_flags_of_the_command_line_are_told_as_arguments(message, hint, told):
    with pytest.raises(UsageError) as caught, told_in_full():
        raise UsageError(message, hint)
    assert told in str(caught.value)
