"""The example programs: their documents, what they import, and some with real TensorFlow."""

import ast
import re
import shlex
from pathlib import Path

import pytest
import yaml

from tests import programs
from tfapp.package.load import load_package
from tfapp.package.source import collect_user_files
from tfapp.shipped import app_packages_dir

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ("digits-elastic", "digits-multiworker", "digits-parameter-server", "single")
OF_OTHER_PACKAGES = ("digits-data-service", "digits-keras-jax", "digits-keras-tuner")
PATIENCE = 550  # seconds; they take half a minute on two cores


def layout(name: str) -> dict[str, int]:
    resources = yaml.safe_load((EXAMPLES / name / "resources.yaml").read_text())
    return {
        component: settings["yarn.component.instances"]
        for component, settings in resources["components"].items()
        if settings["yarn.component.instances"]
    }


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


@pytest.mark.parametrize("name", [*NAMES, "digits-in-graph", *OF_OTHER_PACKAGES])
def test_the_command_of_its_page_would_run(name, tmp_path):
    text = (EXAMPLES / name / "README.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"(?ms)^```sh\ntfapp (.*?)^```$", text)
    words = shlex.split(command.replace("\\\n", ""))
    environ = {"TFAPP_HOME": str(tmp_path)}
    dry_run = ("-m", "tfapp", *words, "--dry-run")
    printed = programs.printed(*dry_run, cwd=EXAMPLES.parent, environ=environ)
    assert yaml.safe_load(printed)["services"].keys() >= layout(name).keys()


@pytest.mark.trains
def test_a_program_alone_reaches_its_accuracy(tmp_path):
    """Without tfapp. Under it the others do, in other tests."""
    program = EXAMPLES / "single" / "train.py"
    done = programs.python(program, "--checkpoint-dir", tmp_path / "to", limit=PATIENCE)
    found = re.search(r"(?m)^test accuracy (0\.\d{3})\Z", done.stdout.rstrip())
    assert found and float(found.group(1)) > 0.9, done.stdout + done.stderr


@pytest.mark.trains
def test_one_program_for_the_chief_alone(tmp_path):
    """Its workers and parameter servers are servers that tfapp brings."""
    folder = EXAMPLES / "digits-in-graph"
    words = [
        *("-m", "tfapp", "create", "digits"),
        *("--appdef", str(app_packages_dir() / "tensorflow")),
        *("--template", str(folder / "appConfig.yaml")),
        *("--resources", str(folder / "resources.yaml")),
        *("--files", str(folder / "train.py")),
    ]
    printed = programs.printed(*words, environ={"TFAPP_HOME": str(tmp_path)}, limit=PATIENCE)
    (accuracy,) = re.findall(r"(?m)^test accuracy (0\.\d{3})$", printed)
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
