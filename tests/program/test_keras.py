"""What is refused before anything trains, and a training alone in one process."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests import programs
from tests.program.digits import write_digits
from tfapp.contract import messages
from tfapp.errors import ProgramError
from tfapp.program import keras, reporting
from tfapp.program.context import Context, Member
from tfapp.program.experiment import KerasExperiment
from tfapp.program.keras_model import mark_of
from tfapp.runner import tensorflow_env

ROOT = Path(__file__).parents[2]
WORKER = Context(checkpoint_dir="/shared/app", work_dir=Path("/container/work"))


class Model:
    optimizer = None

    def fit(self):
        raise AssertionError("it does not come to that")


Model.__module__ = "tf_keras.src.engine.training"


def member(role, index=0):
    return Member(f"{role}/{index}", role, index, role, "h", {})


@pytest.mark.parametrize(
    ("made", "context", "said"),
    [
        (None, WORKER, "the function returned nothing (None), and a tfapp.KerasExperiment was "),
        (
            3,
            WORKER,
            "the function returned a value of type int, and a tfapp.KerasExperiment was expected",
        ),
        (KerasExperiment(3), WORKER, "the model of the KerasExperiment is a value of type int; a "),
        (
            KerasExperiment(lambda: 3),
            WORKER,
            "the model of the KerasExperiment is a value of type int; a ",
        ),
        (KerasExperiment(Model()), WORKER, "the model of the KerasExperiment is not compiled"),
        (
            KerasExperiment(Model()),
            Context(role="other", component="helper"),
            "a KerasExperiment has no work for helper/0, whose role is other",
        ),
        (
            KerasExperiment(Model()),
            Context(role="ps", cluster={"ps": ("h:1",), "worker": ("h:2",)}),
            "ParameterServerStrategy needs a chief, which hands out the steps",
        ),
        (KerasExperiment(Model()), Context(), "the KerasExperiment has no model_dir"),
        (
            KerasExperiment(Model()),
            Context(
                checkpoint_dir="/container/checkpoints",
                work_dir=Path("/container/work"),
                members=(member("worker"), member("evaluator")),
            ),
            "no other instance sees /container/checkpoints, where the checkpoints are",
        ),
        (
            KerasExperiment(Model(), "hdfs://namenode/model"),
            Context(work_dir=Path("work"), members=(member("worker"), member("evaluator"))),
            "the model of the KerasExperiment is not compiled",
        ),
    ],
)
def test_what_cannot_train_is_one_sentence(made, context, said):
    with pytest.raises(ProgramError) as error:
        keras.run(lambda: made, context, False)
    assert str(error.value).startswith(said)


def test_an_evaluator_makes_a_strategy_of_its_own_outside_the_cluster(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "of the cluster")
    seen = []

    def make():
        seen.append(os.environ.get("TF_CONFIG"))

    for role, own in (("evaluator", True), ("evaluator", False), ("chief", True)):
        with pytest.raises(ProgramError, match="returned nothing"):
            keras.run(make, Context(role=role), own)
    assert seen == [None, "of the cluster", "of the cluster"]
    assert os.environ["TF_CONFIG"] == "of the cluster"


PROGRAM = """
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(folder))
import tensorflow as tf
import digits
from tfapp.program import keras
from tfapp.program.context import Context, Member
from tfapp.program.experiment import KerasExperiment

members = tuple(Member(f"{r}/0", r, 0, r, "h", {}) for r in ("chief", "evaluator"))

def context(role):
    return Context(
        role=role,
        component=role,
        checkpoint_dir=str(folder / "model"),
        work_dir=folder / "container" / "work",
        members=members,
    )

told = [keras.run(digits.alone, context("chief"), False) for _ in range(2)]
told.append(keras.run(digits.alone, context("evaluator"), False))
model = tf.keras.models.load_model(folder / "model" / "model.keras")
told.append(model.evaluate(*digits.data("test"), verbose=0, return_dict=True))

def outside():
    model = digits.build()
    strategy = tf.distribute.MirroredStrategy()
    return KerasExperiment(model, str(folder / "other"), strategy=strategy)

try:
    keras.run(outside, context("chief"), True)
except keras.ProgramError as error:
    told.append(str(error))
print("told", json.dumps(told))
"""


@pytest.mark.trains
def test_alone_it_trains_with_keras_3_and_not_twice(tmp_path):
    write_digits(tmp_path)
    environ = {reporting.FILE: str(tmp_path / "metrics")}
    printed = programs.printed("-c", PROGRAM, tmp_path, environ=environ)
    reported = json.loads((tmp_path / "metrics").read_text())
    assert reported["total"] == max(step for _, step, _ in reported["points"]["epoch"]) > 5
    lines = printed.splitlines()
    assert "tfapp: all 5 epochs were trained before" in lines
    first, second, evaluated, saved, outside = json.loads(lines[-1].removeprefix("told "))
    assert first == second
    assert first["epoch"] == evaluated["epoch"] == 5
    assert first["accuracy"] > 0.9
    assert evaluated["accuracy"] > 0.9
    assert evaluated["accuracy"] == pytest.approx(saved["accuracy"])
    assert [f"tfapp: epoch {epoch}:" for epoch in range(1, 6)] == [
        line[: len("tfapp: epoch 1:")] for line in lines if line.startswith("tfapp: epoch ")
    ]
    assert outside == "the model of the KerasExperiment was built outside the scope of its strategy"


def told(module: str, folder: Path, legacy: str) -> tuple[list[dict[str, Any]], str]:
    """The rows that a module of this folder prints, and what it said besides."""
    environ = {"TF_USE_LEGACY_KERAS": legacy, "TF_CPP_MIN_LOG_LEVEL": "3"}
    words = ("-m", f"tests.program.{module}", folder)
    done = programs.python(*words, cwd=ROOT, environ=environ, limit=600.0)
    lines = done.stdout.splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")], done.stderr


@pytest.mark.trains
def test_a_training_goes_on_with_the_step_after_the_one_at_which_it_was_asked_to_save(tmp_path):
    rows, said = told("saved_epochs", tmp_path, "1")
    assert rows == [
        {"at": 3, "first": [0, 3], "total": 15},
        {"at": 5, "first": [1, 0], "total": 15},  # the last one of an epoch
        {"at": 7, "first": [1, 2], "total": 15},
    ], said


@pytest.mark.trains
@pytest.mark.parametrize("legacy", ["0", "1"])
def test_a_damaged_backup(tmp_path, legacy):
    """The state before is taken where there is one; else the folder and the way out are named."""
    rows, errors = told("backups", tmp_path, legacy)
    assert len(rows) == (3 if legacy == "1" else 12), errors
    for row in rows:
        if not row["alone"]:
            assert row["told"] == [1, 2], row
        elif row["told"] != [2]:  # else it can be read in spite of its damage
            said, hint = row["told"]
            assert str(tmp_path / "damaged") in said and "--fresh" in hint, row


@pytest.mark.parametrize("trainers", [("chief", "worker"), ("worker", "worker"), ("chief", "ps")])
def test_all_instances_have_the_same_mark(trainers):
    """Else the evaluator would wait for an end that it does not recognise."""
    roles = (*trainers, "evaluator")
    members = [
        messages.Member(f"i/{n}", "i", n, role, "h", {"i": {"host_port": f"h:{n + 1}"}})
        for n, role in enumerate(roles)
    ]
    marks = []
    for member in members:
        environ = {"TF_CONFIG": tensorflow_env.tf_config(member.instance, members)}
        marks.append(mark_of(Context.from_environ(environ)))
    assert marks == [marks[0]] * len(members)
    assert marks[0]["cluster"].keys() == set(trainers)
