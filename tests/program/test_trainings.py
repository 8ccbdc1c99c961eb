"""Experiments on the local engine, with real TensorFlow, as a call ships them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests import python_environments
from tests.end_to_end.command_line import CommandLine
from tests.program import calls
from tests.program.digits import write_digits
from tests.storage import s3_server
from tfapp.contract.status import OWN_STEP, SLOW
from tfapp.shipped import app_packages_dir

pytestmark = pytest.mark.trains

COMPONENTS = ("chief", "worker", "ps", "evaluator")
EPOCH = re.compile(r"^Epoch (\d)/5$", re.MULTILINE)


@pytest.fixture
def tfapp(tmp_path, tfapp_home):
    work = tmp_path / "work"
    work.mkdir()
    command_line = CommandLine(work, tfapp_home)
    yield command_line
    assert command_line.kill_living() == []


class Trained:
    """Application "digits" after a function of experiments/digits.py has trained to its end."""

    def __init__(
        self,
        tfapp: CommandLine,
        folder: Path,
        function: str,
        *flags: str,
        prefix: str = "",
        **counts: int,
    ):
        """`prefix`: that of the checkpoints, where files are in `folder`/checkpoints."""
        files = folder / "files"
        files.mkdir(exist_ok=True)
        write_digits(files)
        program = {"kind": "function", "module": "digits", "function": function}
        main = calls.ship(files, dict.fromkeys(COMPONENTS, program))
        self.folder = folder / "checkpoints" / "digits"
        self.tfapp = tfapp
        numbers = [("--component", name, counts.get(name, 0)) for name in COMPONENTS]
        tfapp.ok(
            *(
                "create",
                "digits",
                "--appdef",
                app_packages_dir() / "tensorflow",
                "--files",
                f"{files}/",
            ),
            *("--option", "site.global.user.scripts.entry", main.relative_to(files)),
            *("--option", "site.global.user.checkpoint.prefix", prefix or folder / "checkpoints"),
            *(word for words in numbers for word in words),
            *flags,
        )
        self.status: dict[str, Any] = tfapp.status("digits")["status"]

    def log(self, instance: str) -> str:
        return self.tfapp.asks("logs", "digits", instance)

    def returned(self, instance: str) -> Any:
        """What its program returned at its end."""
        name = instance.replace("/", "_")
        folder = self.tfapp.home / "apps" / "digits" / "runs" / "1" / "logs" / name
        return json.loads((folder / "tfapp-returned.json").read_text()).get("value")

    def epochs(self, instance: str) -> list[int]:
        return [int(epoch) for epoch in EPOCH.findall(self.log(instance))]

    def measured(self) -> dict[int, float]:
        """The evaluator's accuracy after each epoch."""
        found = json.loads((self.folder / "evaluation" / "evaluated.json").read_text())
        return {int(epoch): metrics["accuracy"] for epoch, (_, metrics) in found.items()}

    def states(self) -> dict[str, str]:
        return {i["instance"]: i["state"] for i in self.status["instances"]}


def test_workers_go_on_from_their_backup_and_an_evaluator_measures_each_epoch(tfapp, tmp_path):
    """worker/1 is killed at the end of epoch 3, before it is saved, and slow in the last one."""
    digits = Trained(tfapp, tmp_path, "several_workers", worker=2, evaluator=1)
    assert digits.states() == dict.fromkeys(("worker/0", "worker/1", "evaluator/0"), "SUCCEEDED")
    assert (digits.status["generation"], digits.status["restarts"]) == (2, 1)
    assert digits.epochs("worker/0") == [1, 2, 3, 3, 4, 5]
    assert "tfapp: training goes on after epoch 2\n" in digits.log("worker/0")
    first, second = digits.returned("worker/0"), digits.returned("worker/1")
    assert first == second
    assert (first["epoch"], first["accuracy"] > 0.85) == (5, True)
    measured = digits.measured()
    assert sorted(measured) == [1, 2, 3, 4, 5]
    assert measured[5] > 0.85
    assert digits.returned("evaluator/0")["accuracy"] == measured[5]
    left = {path.name for path in digits.folder.iterdir()}
    assert left == {
        *("backup", "checkpoints", "evaluation", "train"),
        *("saved_model", "training.json"),
    }
    saved = {path.name for path in (digits.folder / "saved_model").iterdir()}
    assert {"saved_model.pb", "keras_metadata.pb", "variables"} <= saved
    # Metrics ride on the heartbeat: of the last epoch, each once.
    metrics = {i["instance"]: i["metrics"] for i in digits.status["instances"]}
    # worker/1 sleeps 0.15 s for each step of the last epoch; the other one waits for it.
    own = [metrics[f"worker/{index}"].pop(OWN_STEP) for index in range(2)]
    assert own[1] > max(0.1, SLOW * own[0])
    assert metrics["worker/0"] == pytest.approx(first)
    assert metrics["evaluator/0"]["accuracy"] == pytest.approx(measured[5])


@pytest.fixture
def s3(tmp_path):
    """A bucket "checkpoints" whose objects are files in the folder; flags for its keys."""
    folder = tmp_path / "s3"
    with s3_server.running(folder, ("checkpoints",)) as environ:
        yield folder, s3_server.options(environ)


@pytest.mark.weekly
def test_the_same_on_s3(tfapp, s3):
    folder, keys = s3
    more = {"prefix": "s3://checkpoints", "worker": 2, "evaluator": 1}
    digits = Trained(tfapp, folder, "several_workers", *keys, **more)
    assert (digits.status["generation"], digits.status["restarts"]) == (2, 1)
    assert digits.epochs("worker/0") == [1, 2, 3, 3, 4, 5]
    assert "tfapp: training goes on after epoch 2\n" in digits.log("worker/0")
    measured = digits.measured()
    assert sorted(measured) == [1, 2, 3, 4, 5]
    assert digits.returned("evaluator/0")["accuracy"] == measured[5] > 0.85
    assert (digits.folder / "saved_model" / "saved_model.pb").is_file()


@pytest.mark.weekly
def test_an_estimator_of_an_older_tensorflow_on_s3(tfapp, tfapp_home, s3):
    """2.15, and what travels is of this Python."""
    folder, keys = s3
    python_environments.share_with_estimators(tfapp_home)
    packages = ("--option", "site.global.python.packages", python_environments.WITH_ESTIMATORS)
    more = {"prefix": "s3://checkpoints", **dict.fromkeys(COMPONENTS, 1)}
    digits = Trained(tfapp, folder, "estimator", *packages, *keys, **more)
    assert digits.returned("chief/0") == {"global_step": 150}
    assert digits.returned("evaluator/0")["accuracy"] > 0.85
    assert list(digits.folder.glob("model.ckpt-150.*"))


def test_a_chief_trains_on_a_parameter_server(tfapp, tmp_path):
    digits = Trained(tfapp, tmp_path, "servers", chief=1, worker=1, ps=1)
    assert digits.states() == {"chief/0": "SUCCEEDED", "worker/0": "STOPPED", "ps/0": "STOPPED"}
    assert digits.epochs("chief/0") == [1, 2, 3, 4, 5]
    returned = digits.returned("chief/0")
    assert returned["epoch"] == 5
    assert returned["val_accuracy"] > 0.85
    assert (digits.folder / "saved_model" / "saved_model.pb").is_file()


def test_an_estimator_trains_with_a_tensorflow_that_has_them(tfapp, tfapp_home, tmp_path):
    python_environments.share_with_estimators(tfapp_home)
    packages = ("--option", "site.global.python.packages", python_environments.WITH_ESTIMATORS)
    roles = dict.fromkeys(COMPONENTS, 1)
    digits = Trained(tfapp, tmp_path, "estimator", *packages, **roles)
    states = digits.states()
    assert states.pop("worker/0") in ("SUCCEEDED", "STOPPED")  # it may see the last step by itself
    assert states == {"chief/0": "SUCCEEDED", "ps/0": "STOPPED", "evaluator/0": "SUCCEEDED"}
    assert digits.returned("chief/0") == {"global_step": 150}
    evaluated = digits.returned("evaluator/0")
    assert evaluated["global_step"] == 150
    assert evaluated["accuracy"] > 0.85
    tfapp.ok("destroy", "digits")
    more = (*packages, "--fresh")
    digits = Trained(tfapp, tmp_path, "keras_estimator", *more, chief=1, evaluator=1)
    assert digits.states() == {"chief/0": "SUCCEEDED", "evaluator/0": "SUCCEEDED"}
    assert digits.returned("chief/0") == {"global_step": 50}
