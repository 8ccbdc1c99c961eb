"""Metrics of an application in a real MLflow, with a folder as its store."""

import doctest

import pytest

import tfapp
import tfapp.api.mlflow
from tfapp.api.mlflow import logging_to_active_run
from tfapp.errors import ApplicationFailedError, UnavailableError
from tfapp.tf_yarn import TaskSpec, run_on_yarn

PROGRAM = """
def train(context):
    context.report(loss=0.25 + context.index, step=2)

def fails(context):
    context.report(loss=0.75, step=1)
    raise ValueError("no such luck")
"""


@pytest.fixture
def mlflow():
    return pytest.importorskip("mlflow")  # not at the top: each process of the suite collects


@pytest.fixture
def store(tmp_path, monkeypatch, mlflow):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    yield mlflow.MlflowClient()
    while mlflow.active_run():
        mlflow.end_run()
    mlflow.set_tracking_uri(before)


@pytest.mark.slow
def test_the_example_of_its_docstring(store):
    done = doctest.testmod(tfapp.api.mlflow, extraglobs={"tfapp": tfapp, "__name__": "__main__"})
    assert (done.failed, done.attempted > 0) == (0, True)


def test_metrics_and_the_verdict_are_logged(module, store, mlflow):
    program = module(PROGRAM)
    with mlflow.start_run() as mine:
        log = tfapp.log_to_mlflow()
        tfapp.run(program.train, tfapp.all_reduce(2), name="logged", on_change=log, show=False)
        assert mlflow.active_run().info.run_id == mine.info.run_id, "it goes on"
    found = store.get_run(mine.info.run_id)
    assert found.data.metrics == {"worker/0/loss": 0.25, "worker/1/loss": 1.25}
    (point,) = store.get_metric_history(mine.info.run_id, "worker/1/loss")
    assert (point.value, point.step) == (1.25, 2)
    tags = {name: value for name, value in found.data.tags.items() if name.startswith("tfapp.")}
    assert tags.pop("tfapp.summary").startswith("Succeeded: all 2 instances of worker ended")
    assert tags == {"tfapp.application": "logged", "tfapp.state": "SUCCEEDED"}


def test_tf_yarn_logs_to_the_active_run(module, store, mlflow):
    specs = {"chief": TaskSpec(512, 1)}
    seen = []
    with mlflow.start_run() as mine:
        run_on_yarn(module(PROGRAM).train, specs, engine="local", on_change=seen.append, show=False)
    assert store.get_run(mine.info.run_id).data.metrics == {"chief/0/loss": 0.25}
    assert seen[-1].state == "SUCCEEDED"
    assert logging_to_active_run(None) is None
    assert logging_to_active_run(seen.append) == seen.append


def test_a_run_that_is_begun_ends_as_the_application_does(module, store, mlflow):
    log = tfapp.log_to_mlflow()
    begun = mlflow.active_run()
    with pytest.raises(ApplicationFailedError):
        tfapp.run(module(PROGRAM).fails, on_change=log, show=False)
    assert mlflow.active_run() is None
    found = store.get_run(begun.info.run_id)
    assert found.info.status == "FAILED"
    assert found.data.metrics == {"chief/0/loss": 0.75}


def test_a_store_that_mlflow_cannot_use(store, mlflow):
    mlflow.set_tracking_uri("moon://base")
    with pytest.raises(UnavailableError, match="cannot log to moon://base"):
        tfapp.log_to_mlflow()


def test_a_server_that_takes_nothing_is_a_warning(module, store):
    deleted = store.create_run("0")
    log = tfapp.log_to_mlflow(deleted)
    store.delete_run(deleted.info.run_id)
    with pytest.warns(UserWarning, match="MLflow does not take the metrics"):
        result = tfapp.run(module(PROGRAM).train, on_change=log, show=False)
    assert result.succeeded
