"""The part of each instance in an Experiment, with a TensorFlow that only notes what is asked."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import types
from pathlib import Path

import pytest

from tfapp.errors import ProgramError
from tfapp.program import estimator, reporting
from tfapp.program.context import Context, Member
from tfapp.program.experiment import Experiment


class Estimator:
    """Measures an accuracy of 0.5 at step 20."""

    model_dir = "/shared/app"

    def __init__(self, strategy=None):
        self.variables = {"dense/kernel": 0.5, "global_step": 30}
        self.config = types.SimpleNamespace(train_distribute=strategy)
        self.asked: list[object] = []

    def evaluate(self, input_fn, **how):
        self.asked.append((input_fn, how))
        return {"accuracy": 0.5, "global_step": 20.0}

    def get_variable_names(self):
        return [*self.variables]

    def get_variable_value(self, name):
        return self.variables[name]

    def latest_checkpoint(self):
        return "model.ckpt-20" if self.variables else None


class Exporter:
    name = "best"

    def export(self, *args):
        self.got = args


@pytest.fixture
def reported(monkeypatch):
    found: list[object] = []
    monkeypatch.setattr(reporting, "report", lambda *told: found.append(told))
    return found


@pytest.fixture
def tensorflow(monkeypatch):
    """Its train_and_evaluate evaluates where the role is evaluator."""
    made = types.ModuleType("tensorflow")
    made.__version__ = "2.15.1"  # type: ignore[attr-defined]

    def train_and_evaluate(given, train_spec, eval_spec):
        if train_spec.role == "evaluator":
            given.evaluate(eval_spec.input_fn)

    made.estimator = types.SimpleNamespace(  # type: ignore[attr-defined]
        train_and_evaluate=train_and_evaluate
    )
    monkeypatch.setitem(sys.modules, "tensorflow", made)
    return made


def context(role, **cluster):
    roles = [*cluster, *(["evaluator"] if role == "evaluator" else [])]
    members = tuple(Member(f"{r}/0", r, 0, r, "h", {}) for r in roles)
    return Context(role=role, component=role, cluster=cluster, members=members)


def experiment(role, strategy=None):
    exporter = Exporter()
    spec = types.SimpleNamespace(
        input_fn="test data", steps=None, hooks=(), name=None, exporters=[exporter]
    )
    train = types.SimpleNamespace(role=role, max_steps=40)
    return Experiment(Estimator(strategy), train, spec), exporter


def test_an_evaluator_reports_and_returns_what_it_measured(tensorflow, reported):
    made, _ = experiment("evaluator")
    returned = estimator.run(made, context("evaluator", chief=("h:1",)))
    assert returned == {"accuracy": 0.5, "global_step": 20}
    assert reported == [({"accuracy": 0.5}, 20, 40)]


def test_a_chief_without_an_evaluator_measures_at_the_end(tensorflow, reported):
    made, exporter = experiment("chief")
    returned = estimator.run(made, context("chief", chief=("h:1",)))
    assert returned == {"accuracy": 0.5, "global_step": 20}
    how = {"steps": None, "hooks": (), "name": None}
    assert made.estimator.asked == [("test data", how)]
    assert exporter.got[1:3] == ("/shared/app/export/best", "model.ckpt-20")
    assert exporter.got[4] is True


def test_a_chief_with_an_evaluator_only_trains(tensorflow, reported):
    made, _ = experiment("chief")
    members = context("evaluator", chief=("h:1",)).members
    alone = Context(role="chief", component="chief", members=members)
    assert estimator.run(made, alone) == {"global_step": 30}
    assert made.estimator.asked == []


OF_KERAS = "estimator_global_step/.ATTRIBUTES/VARIABLE_VALUE"


@pytest.mark.parametrize(
    ("variables", "returned"),
    [
        ({OF_KERAS: 30, "layer/kernel": 0.5}, {"global_step": 30}),
        ({"layer/kernel": 0.5}, None),
        ({}, None),
    ],
)
def test_a_training_succeeds_whatever_its_checkpoint_names(
    tensorflow, reported, variables, returned
):
    made, _ = experiment("chief")
    made.estimator.variables = variables
    members = context("evaluator", chief=("h:1",)).members
    alone = Context(role="chief", component="chief", members=members)
    assert estimator.run(made, alone) == returned


def test_what_is_no_number_is_no_metric(tensorflow, reported, monkeypatch):
    found = {"accuracy": 0.5, "by class": [0.5, 0.5], "image": b"a summary", "global_step": 20}
    monkeypatch.setattr(Estimator, "evaluate", lambda self, input_fn, **how: found)
    made, _ = experiment("chief")
    returned = estimator.run(made, context("chief", chief=("h:1",)))
    assert returned == {"accuracy": 0.5, "global_step": 20}
    assert reported == [({"accuracy": 0.5}, 20, 40)]


def test_checkpoints_that_no_other_instance_sees_are_refused(tensorflow, reported):
    both = {"chief": ("h:1",), "worker": ("h:2",)}
    rows = [
        ("worker", both, "mirrored", True),
        ("worker", {**both, "ps": ("h:3",)}, None, False),
        ("evaluator", {"chief": ("h:1",)}, None, True),
        ("chief", {"chief": ("h:1",)}, None, False),
    ]
    for role, cluster, strategy, refused in rows:
        made, _ = experiment(role, strategy)
        made.estimator.model_dir = "/container/checkpoints"
        where = dataclasses.replace(context(role, **cluster), work_dir=Path("/container/work"))
        with contextlib.ExitStack() as stack:
            if refused:
                stack.enter_context(pytest.raises(ProgramError, match="no other instance sees /"))
            estimator.run(made, where)


def test_a_worker_returns_nothing(tensorflow, reported):
    made, _ = experiment("worker")
    where = context("worker", chief=("h:1",), worker=("h:2",), ps=("h:3",))
    assert estimator.run(made, where) is None


def test_workers_need_a_parameter_server_or_a_strategy(tensorflow, reported):
    where = context("worker", chief=("h:1",), worker=("h:2",))
    with pytest.raises(ProgramError, match="an Estimator with workers needs a ps"):
        estimator.run(experiment("worker")[0], where)
    assert estimator.run(experiment("worker", strategy="mirrored")[0], where) is None


def test_a_tensorflow_without_estimators(tensorflow):
    del tensorflow.estimator
    tensorflow.__version__ = "2.21.0"
    with pytest.raises(ProgramError) as error:
        estimator.run(experiment("chief")[0], context("chief"))
    assert error.value.message == (
        "TensorFlow 2.21.0 has no Estimators: they were removed in TensorFlow 2.16"
    )
    assert error.value.hint.startswith('Give packages=["tensorflow==2.15.*"]')
