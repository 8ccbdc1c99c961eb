"""A KerasExperiment on JAX: its processes and their parts of the data, and with real JAX a training
of which a process is killed."""

from __future__ import annotations

import importlib
import types
from pathlib import Path

import numpy as np
import pytest

import tfapp
from tests import python_environments
from tests.program.digits import write_digits
from tfapp.errors import ProgramError, UsageError
from tfapp.program import keras, keras_jax
from tfapp.program.context import Context
from tfapp.program.experiment import KerasExperiment, trains_on_jax

CLUSTER = {"chief": ("a:1",), "worker": ("b:1", "c:1"), "evaluator": ("d:1",)}


def on_jax():
    return KerasExperiment(None, backend="jax")


def on_jax_inside():
    def made():
        return tfapp.KerasExperiment(model="jax", backend="jax")

    return made()


def on_tensorflow():
    return KerasExperiment("jax", model_dir="backend")


def says_nothing_of_an_experiment():
    return {"backend": "jax"}


@pytest.mark.parametrize(
    ("function", "known"),
    [
        (on_jax, True),
        (on_jax_inside, True),
        (on_tensorflow, False),
        (says_nothing_of_an_experiment, False),
    ],
)
def test_the_backend_is_known_before_the_call(function, known):
    assert trains_on_jax(function) is known


def test_chief_and_workers_are_numbered_in_one_row():
    addresses = ["a:1", "b:1", "c:1"]
    for number, task in enumerate((("chief", 0), ("worker", 0), ("worker", 1))):
        made = Context(role=task[0], cluster=CLUSTER, task=task)
        assert keras_jax.processes(made, {}) == (addresses, number)
    assert keras_jax.processes(Context(), {}) == ([""], 0)


def test_the_package_keras_jax_tells_the_processes():
    told = {
        "KERAS_DISTRIBUTION_JOB_ADDRESSES": "x:1,y:2",
        "KERAS_DISTRIBUTION_NUM_PROCESSES": "2",
        "KERAS_DISTRIBUTION_PROCESS_ID": "1",
    }
    assert keras_jax.processes(Context(), told) == (["x:1", "y:2"], 1)


def trainer(number: int, total: int, **experiment):
    """Without a model."""
    made = keras_jax._Trainer.__new__(keras_jax._Trainer)
    made.experiment = KerasExperiment(None, backend="jax", **experiment)
    made.number, made.total = number, total
    return made


def parts(total: int, **params) -> list[dict]:
    found = []
    x = np.arange(22)
    for number in range(total):
        own = dict(params)
        one = trainer(number, total, input_data_fn=lambda: x, target_data_fn=lambda: x * 10)
        one._add_data(own)
        found.append({name: getattr(v, "tolist", lambda v=v: v)() for name, v in own.items()})
    return found


def test_each_process_has_whole_batches_of_its_own_rows():
    first, second = parts(2, batch_size=8)
    assert first == {
        "x": [0, 2, 4, 6, 8, 10, 12, 14],
        "y": [0, 20, 40, 60, 80, 100, 120, 140],
        "batch_size": 4,
    }
    assert second["x"] == [1, 3, 5, 7, 9, 11, 13, 15]


def test_a_process_alone_has_all_rows():
    (own,) = parts(1)
    assert (len(own["x"]), own["batch_size"]) == (22, 32)


@pytest.mark.parametrize(
    ("size", "said"), [(7, "a batch of 7 cannot be"), (32, "22 rows are no batch")]
)
def test_what_cannot_be_divided_is_refused(size, said):
    with pytest.raises(ProgramError, match=said):
        parts(2, batch_size=size)


def test_what_makes_batches_is_left_as_it_is():
    made = iter(())
    params = {"batch_size": 8}
    trainer(0, 2, input_data_fn=lambda: made)._add_data(params)
    assert params == {"x": made}


@pytest.mark.parametrize(
    ("folder", "said"),
    [("", "has no model_dir"), ("s3://b/x", "opens no URLs"), ("work/x", "no other instance sees")],
)
def test_a_folder_that_does_not_serve_is_refused(tmp_path, folder, said):
    member = types.SimpleNamespace(role="worker")
    context = Context(work_dir=tmp_path / "work", members=(member,), cluster=CLUSTER)
    folder = str(tmp_path / folder) if folder.startswith("work") else folder
    with pytest.raises(ProgramError, match=said):
        keras_jax._folder(KerasExperiment(None, folder), context, 2)


def test_other_roles_have_no_work():
    with pytest.raises(ProgramError, match="has no work for worker/0, whose role is ps"):
        keras_jax.run(on_jax, Context(role="ps"))


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_a_backend_that_was_not_seen_in_the_function_is_told(backend):
    with pytest.raises(ProgramError, match=f"backend='{backend}', and its function was called"):
        keras.train(KerasExperiment(None, backend=backend), Context())


@pytest.mark.parametrize("component", ["ps", "evaluator"])
def test_a_call_with_such_a_component_is_refused(component):
    components = {"worker": tfapp.Component(), component: tfapp.Component()}
    with pytest.raises(UsageError, match=f"on JAX, which has no work for {component}"):
        tfapp.compile(on_jax, components)


@pytest.mark.trains
def test_a_training_goes_on_after_a_process_was_killed(tmp_path, monkeypatch):
    goes_on_after_a_process_was_killed(tmp_path, monkeypatch, engine="local")


def goes_on_after_a_process_was_killed(tmp_path, monkeypatch, **where):
    """In an environment without TensorFlow. `where`: the engine, as a call has it."""
    python = python_environments.with_jax(tmp_path / "env")
    work, checkpoints = tmp_path / "work", tmp_path / "checkpoints"
    work.mkdir()
    checkpoints.mkdir()
    checkpoints.chmod(0o777)
    write_digits(work)
    monkeypatch.chdir(work)
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "experiments"))
    digits_jax = importlib.import_module("digits_jax")
    application = tfapp.submit(
        digits_jax.experiment,
        tfapp.all_reduce(2),
        name="digits",
        files=["digits.npz"],
        python=str(python),
        checkpoints=checkpoints,
        show=False,
        **where,
    )
    with application:
        result = application.result(timeout=500)
        assert (result.generation, result.restarts) == (2, 1)
        assert result.value["epoch"] == digits_jax.EPOCHS
        assert result.value["val_accuracy"] > 0.8
        assert set(result.returned) == {"worker/0", "worker/1"}
        said = application.logs("worker/0")["worker/0"]
    assert any(f"tfapp: training goes on after epoch {epoch}\n" in said for epoch in (1, 2)), said
    folder = checkpoints / "digits"
    kept = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.*"))
    assert kept == ["backup/epoch-00004.weights.h5", "model.keras", "training.json"]
