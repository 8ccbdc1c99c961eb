"""Logs the metrics of an application to MLflow, which is an optional dependency."""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

from tfapp.api.arguments import OnChange
from tfapp.contract.metrics import floats
from tfapp.contract.names import KILLED, SUCCEEDED
from tfapp.contract.status import ApplicationStatus
from tfapp.errors import UnavailableError

# MLflow's own words for the end of a run.
_STATUS = {SUCCEEDED: "FINISHED", KILLED: "KILLED"}
_LARGEST_BATCH = 1000  # metrics; MLflow's limit


def log_to_mlflow(run: Any = None) -> OnChange:
    """Returns a callback for `on_change` that logs to MLflow: the metrics of each instance as
    "worker/0/loss", with their step, and at the end the verdict as tags. `run`: an MLflow run;
    default: the active run. Without an active run this function starts one, which ends with the
    application.

    Raises `tfapp.errors.UnavailableError` if MLflow is not installed (`pip install
    'tfapp[mlflow]'`) or cannot reach its tracking server. Metrics that the server refuses later
    cause a warning; the application continues.

    >>> def train(context):
    ...     context.report(loss=0.25, step=10)
    >>> tfapp.run(train, name="doc-mlflow", on_change=tfapp.log_to_mlflow(), show=False).exit_code
    0
    """
    try:
        import mlflow
        from mlflow.entities import Metric
    except ImportError:
        raise UnavailableError(
            "MLflow is not installed", "Install it: pip install 'tfapp[mlflow]'."
        ) from None
    given = run or mlflow.active_run()
    try:
        client = mlflow.MlflowClient()
        active = given or mlflow.start_run()
    except (mlflow.MlflowException, ImportError) as error:
        raise UnavailableError(
            f"MLflow cannot log to {mlflow.get_tracking_uri()}: {error}",
            "Name a tracking server: MLFLOW_TRACKING_URI=http://HOST:PORT.",
        ) from error
    id = active.info.run_id
    logged: dict[str, tuple[int | None, float]] = {}

    def log(status: ApplicationStatus) -> None:
        found = {
            f"{instance.instance}/{name}": (instance.step, value)
            for instance in status.instances
            for name, value in floats(instance.metrics).items()
        }
        changed = {key: now for key, now in found.items() if logged.get(key) != now}
        at = int(time.time() * 1000)
        metrics = [Metric(key, value, at, step or 0) for key, (step, value) in changed.items()]
        verdict = status.verdict
        try:
            for first in range(0, len(metrics), _LARGEST_BATCH):
                client.log_batch(id, metrics[first : first + _LARGEST_BATCH])
            logged.update(changed)
            if verdict is not None:
                client.set_tag(id, "tfapp.application", status.name)
                client.set_tag(id, "tfapp.state", verdict.state)
                client.set_tag(id, "tfapp.summary", verdict.summary)
                if given is None:
                    _end(mlflow, active, _STATUS.get(verdict.state, "FAILED"))
        except mlflow.MlflowException as error:
            warnings.warn(f"MLflow does not take the metrics: {error}", stacklevel=2)

    return log


def logging_to_active_run(more: OnChange | None) -> OnChange | None:
    """`more`, and `log_to_mlflow` if the program has imported MLflow and a run is active."""
    mlflow = sys.modules.get("mlflow")
    if mlflow is None or mlflow.active_run() is None:
        return more
    log = log_to_mlflow()

    def both(status: ApplicationStatus) -> None:
        log(status)
        if more is not None:
            more(status)

    return both


def _end(mlflow: Any, run: Any, status: str) -> None:
    """Ends a run, even if it is not the active run of this thread."""
    active = mlflow.active_run()
    if active is not None and active.info.run_id == run.info.run_id:
        mlflow.end_run(status)
    else:
        mlflow.MlflowClient().set_terminated(run.info.run_id, status)
