"""The example programs with real TensorFlow, in the cluster that their resources ask for.

Not a line of tfapp runs here but for the held ports: TF_CONFIG alone is what the programs need.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tfapp.package.load import load_package
from tfapp.package.source import collect_user_files
from tfapp.runner import ports
from tfapp.shipped import app_packages_dir

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ("digits-multiworker", "digits-parameter-server", "single")
PATIENCE = 300  # seconds; they take half a minute on two cores
ENDLESS = ("worker", "ps")  # under a chief


def layout(name: str) -> dict[str, int]:
    resources = yaml.safe_load((EXAMPLES / name / "resources.yaml").read_text())
    return {
        component: settings["yarn.component.instances"]
        for component, settings in resources["components"].items()
        if settings["yarn.component.instances"]
    }


def variables(name: str) -> dict[str, str]:
    """The environment that the example's appConfig sets."""
    config = yaml.safe_load((EXAMPLES / name / "appConfig.yaml").read_text())["global"]
    env = {key[len("env.") :]: value for key, value in config.items() if key.startswith("env.")}
    return {**env, "TF_USE_LEGACY_KERAS": str(int(config["site.global.keras.legacy"]))}


@pytest.mark.parametrize("name", [*NAMES, "digits-in-graph"])
def test_its_documents_are_right_for_the_package(name):
    folder = EXAMPLES / name
    loaded = load_package(
        app_packages_dir() / "tensorflow",
        template=folder / "appConfig.yaml",
        resources=folder / "resources.yaml",
        user_files=collect_user_files([folder / "train.py"]),
    )
    assert loaded.problems == ()


@pytest.mark.parametrize("name", [*NAMES, "digits-in-graph"])
def test_the_command_of_its_page_would_run(name, tmp_path):
    text = (EXAMPLES / name / "README.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"(?ms)^```sh\ntfapp (.*?)^```$", text)
    words = shlex.split(command.replace("\\\n", ""))
    done = subprocess.run(
        [sys.executable, "-m", "tfapp", *words, "--dry-run"],
        cwd=EXAMPLES.parent,
        env={**os.environ, "TFAPP_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert yaml.safe_load(done.stdout)["services"].keys() >= layout(name).keys()


class Cluster:
    def __init__(self, name: str, folder: Path):
        self.folder = folder
        self.processes: dict[str, subprocess.Popen] = {}
        self.held = []
        self.counts = layout(name)
        addresses: dict[str, list[str]] = {}
        for role, count in self.counts.items():
            if role == "evaluator":
                continue
            ports_of_role = [ports.hold() for _ in range(count)]
            self.held += ports_of_role
            addresses[role] = [f"127.0.0.1:{held.number}" for held in ports_of_role]
        for role, count in self.counts.items():
            for index in range(count):
                task = {"cluster": addresses, "task": {"type": role, "index": index}}
                self._start(name, f"{role}{index}", json.dumps(task))

    def _start(self, name: str, task: str, tf_config: str) -> None:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "CUDA_VISIBLE_DEVICES": "",
            "PYTHONUNBUFFERED": "1",
            "TF_GRPC_REUSE_PORT": "true",
            "TF_CONFIG": tf_config,
            **variables(name),
        }
        program = str(EXAMPLES / name / "train.py")
        with open(self.folder / f"{task}.log", "wb") as log:
            self.processes[task] = subprocess.Popen(
                [sys.executable, program, "--checkpoint-dir", str(self.folder / "checkpoints")],
                cwd=self.folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def log(self, task: str) -> str:
        return (self.folder / f"{task}.log").read_text(errors="replace")

    def wait(self) -> dict[str, int]:
        """Exit codes of all that end by themselves."""
        endless = ENDLESS if "chief" in self.counts else ()
        end = time.monotonic() + PATIENCE
        codes = {}
        for task, process in self.processes.items():
            if not task.startswith(endless):
                codes[task] = process.wait(max(end - time.monotonic(), 0))
                assert codes[task] == 0, self.log(task)
        return codes

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait(PATIENCE)
        ports.release(self.held)


@pytest.mark.trains
@pytest.mark.parametrize("name", NAMES)
def test_an_example_reaches_its_accuracy(name, tmp_path):
    cluster = Cluster(name, tmp_path)
    try:
        codes = cluster.wait()
    finally:
        cluster.end()
    first = "chief0" if "chief0" in codes else "worker0"
    lines = cluster.log(first).splitlines()
    found = re.fullmatch(r"test accuracy (0\.\d{3})", lines[-1])
    assert found, cluster.log(first)
    assert float(found.group(1)) > 0.9
    if "evaluator0" in codes:
        assert "accuracy" in cluster.log("evaluator0")


@pytest.mark.trains
def test_one_program_for_the_chief_alone(tmp_path):
    """Its workers and parameter servers are servers that tfapp brings."""
    folder = EXAMPLES / "digits-in-graph"
    command = [
        *(sys.executable, "-m", "tfapp", "create", "digits"),
        *("--appdef", str(app_packages_dir() / "tensorflow")),
        *("--template", str(folder / "appConfig.yaml")),
        *("--resources", str(folder / "resources.yaml")),
        *("--files", str(folder / "train.py")),
    ]
    environ = {**os.environ, "TFAPP_HOME": str(tmp_path)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    (accuracy,) = re.findall(r"(?m)^test accuracy (0\.\d{3})$", done.stdout)
    assert float(accuracy) > 0.9


@pytest.mark.parametrize("name", [*NAMES, "digits-in-graph"])
def test_an_example_knows_nothing_of_tfapp(name):
    tree = ast.parse((EXAMPLES / name / "train.py").read_text())
    imported = {
        alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    } | {
        (node.module or "").partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
    }
    own = {"argparse", "json", "os", "numpy", "tensorflow", "sklearn"}
    assert imported <= own
    assert "tfapp" not in (EXAMPLES / name / "train.py").read_text().lower()
