"""The shape of the house: data flows one way, so do imports; heavy libraries have few doors."""

from __future__ import annotations

import configparser
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.import_graph import ROOT, cycles, imports, modules, room
from tfapp.cli.commands import COMMANDS
from tfapp.compiler import runtime
from tfapp.engines import ENGINES

REPOSITORY = ROOT.parent

# Rooms and the rooms they may import. Whatever is missing in a row is above it.
EVERYWHERE = {"frozen"}
BASE = {"close_match", "contract", "errors", "placeholders", "problems", "shipped"}
MAY_IMPORT: dict[str, set[str]] = {
    "": {"errors"},
    "close_match": set(),
    "frozen": set(),
    "errors": set(),
    "problems": set(),
    "contract": set(),
    "disk": {"errors"},
    "interrupts": set(),
    "topology": set(),
    "processes": {"contract"},
    "placeholders": set(),
    "shipped": set(),
    "skein_library": set(),
    "documents": {"errors", "problems"},
    "schema": {"close_match", "documents", "errors", "problems", "shipped"},
    "page": {"contract"},
    "package": BASE | {"documents", "schema"},
    "environment": {"disk", "errors", "problems"},
    "compiler": BASE | {"", "disk", "package", "environment", "skein_library"},
    # What travels into containers.
    "script": {"contract", "errors"},
    "protocol": {"contract", "errors"},
    "runner": {"contract", "errors", "placeholders", "processes", "script", "protocol"},
    "coordinator": {"contract", "errors", "page", "protocol"},
    # The part of programs travels too.
    "feed": {"contract", "engines", "errors"},
    "program": {"errors", "feed"},
    "master": {"contract", "errors", "protocol"},
    "engines": BASE
    | {"", "disk", "documents", "master", "processes", "environment", "package", "compiler"}
    | {"protocol", "skein_library"},
    "api": BASE
    | {"disk", "environment", "engines", "compiler", "interrupts", "launch", "package"}
    | {"feed", "program", "topology"},
    "launch": BASE
    | {"disk", "documents", "environment", "schema", "package", "compiler", "engines", "page"},
    "cli": BASE
    | {"", "api", "interrupts", "schema", "package", "page", "compiler", "engines", "launch"},
    "tensorflowonspark": {"", "api", "compiler", "errors", "feed", "program", "topology"},
    "tf_yarn": {"api", "compiler", "errors", "program", "topology"},
    "__main__": {"cli", "errors"},
}

# Libraries and the modules (or the rooms below) that may import them.
DOORS: dict[str, set[str]] = {
    "yaml": {"tfapp.documents", "tfapp.compiler.render"},
    "jsonschema": {"tfapp.schema"},
    "IPython": {"tfapp.api.notebook"},
    "mlflow": {"tfapp.api.mlflow"},
    "rich": {"tfapp.cli.console"},
    "cloudpickle": {"tfapp.api.travel"},
    "argcomplete": {"tfapp.cli.completion"},
    # The last three for types alone.
    "skein": {
        "tfapp.skein_library",
        "tfapp.compiler",
        "tfapp.engines.yarn.cluster",
        "tfapp.api.call",
    },
    "grpc": {"tfapp.protocol", "tfapp.master"},
    "google": {"tfapp.protocol"},
    "cryptography": {"tfapp.engines.credentials"},
    "docker": {"tfapp.runner.docker.engine"},
    "requests": {"tfapp.runner.docker.engine"},  # what the Docker SDK raises
    "urllib3": {"tfapp.runner.docker.engine", "tfapp.engines.kubernetes.transport"},
    "kubernetes": {
        "tfapp.engines.kubernetes.configuration",
        "tfapp.engines.kubernetes.transport",
        "tfapp.engines.kubernetes.websockets",
    },
    "pyspark": {
        "tfapp.engines.spark",
        "tfapp.feed.driver",
        "tfapp.feed.inference",
        "tfapp.feed.source",
        "tfapp.feed.travel",
        "tfapp.tensorflowonspark",
    },
    "numpy": {"tfapp.feed", "tfapp.tensorflowonspark"},
    "pathspec": {"tfapp.package.folder"},
    "pandas": {"tfapp.feed.source"},
    "pyarrow": {
        "tfapp.feed.columns",
        "tfapp.feed.inference",
        "tfapp.feed.memory",
        "tfapp.feed.rows",
        "tfapp.feed.sender",
        "tfapp.feed.source",
        "tfapp.tensorflowonspark.predicting",
    },
    "websocket": {"tfapp.engines.kubernetes.websockets"},  # what the Kubernetes library uses
    "typing_extensions": {"tfapp.api.call", "tfapp.frozen"},  # for type checkers
    "tensorflow": {
        "tfapp.feed.context",  # for types alone
        "tfapp.feed.dataset",
        "tfapp.program.keras",
        "tfapp.program.keras_evaluator",
        "tfapp.program.keras_model",
        "tfapp.program.estimator",
        "tfapp.tensorflowonspark",
    },
}


def is_below(module: str, doors: set[str]) -> bool:
    return any(module == door or module.startswith(f"{door}.") for door in doors)


def test_every_room_has_its_row():
    assert {room(module) for module in modules()} == set(MAY_IMPORT)


def test_rooms_import_downwards_only():
    wrong = {
        f"{importer} imports {imported}"
        for importer, imported, _ in imports()
        if imported.split(".")[0] == "tfapp"
        and room(imported) != room(importer)
        and room(imported) not in MAY_IMPORT[room(importer)] | EVERYWHERE
    }
    assert wrong == set()


def test_the_rows_themselves_have_no_ring():
    assert cycles({(a, b) for a, row in MAY_IMPORT.items() for b in row}) == []


def test_modules_have_no_ring():
    loads = {(a, b) for a, b, at_load in imports() if at_load and b in modules()}
    assert cycles(loads) == []


@pytest.mark.parametrize("library", DOORS)
def test_libraries_have_few_doors(library):
    importers = {a for a, b, _ in imports() if b.split(".")[0] == library}
    assert {module for module in importers if not is_below(module, DOORS[library])} == set()


def test_what_the_python_call_needs_has_no_flags_signals_or_terminal():
    importers = {a for a, b, _ in imports() if b.split(".")[0] in ("argparse", "signal", "rich")}
    assert {module for module in importers if is_below(module, {"tfapp.launch"})} == set()


def test_third_party_libraries_are_declared():
    known = sys.stdlib_module_names if sys.version_info >= (3, 10) else None
    if known is None:
        pytest.skip("this machine has no Python 3.10: the list of standard modules is new there")
    foreign = {b.split(".")[0] for _, b, _ in imports()} - set(known) - {"tfapp"}
    assert foreign <= set(DOORS)


def test_what_travels_into_containers_is_whole():
    shipped = {module.removesuffix(".py") for module in runtime.MODULES} | set(runtime.PACKAGES)
    for travelling in shipped - {"__init__"}:
        assert MAY_IMPORT[travelling] | EVERYWHERE <= shipped


def test_each_command_is_a_file_with_a_manual():
    folder = ROOT / "cli" / "commands"
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert {module.rpartition(".")[2] for module, _ in COMMANDS.values()} == files


def test_each_engine_is_a_folder():
    folders = {path.parent.name for path in (ROOT / "engines").glob("*/__init__.py")}
    assert set(ENGINES) == folders


# What runs beside a driver of Spark is a process, as on the local engine.
BUILDS_ON = {"spark": {"local"}}


def test_engines_know_nothing_of_each_other():
    wrong = {
        f"{importer} imports {imported}"
        for importer, imported, _ in imports()
        for engine in ENGINES
        for other in set(ENGINES) - {engine} - BUILDS_ON.get(engine, set())
        if is_below(importer, {f"tfapp.engines.{engine}"})
        and is_below(imported, {f"tfapp.engines.{other}"})
    }
    assert wrong == set()


def test_setup_cfg_lists_every_package():
    config = configparser.ConfigParser()
    config.read(REPOSITORY / "setup.cfg", encoding="utf-8")
    listed = set(config["options"]["packages"].split())
    found = {name for name, path in modules().items() if path.name == "__init__.py"}
    assert listed == found | {"tfapp.schemas", "tfapp.app_packages"}


HEAVY = {
    "cloudpickle",
    "tensorflow",
    "keras",
    "tf_keras",
    "skein",
    "grpc",
    "google",
    "rich",
    "argcomplete",
    "docker",
    "kubernetes",
}


def loaded_by(program: str, cwd: Path = REPOSITORY) -> set[str]:
    """The top-level modules that a fresh interpreter has loaded after `program`."""
    code = f"{program}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return {name.split(".")[0] for name in json.loads(done.stderr.splitlines()[-1])}


def call(*words: str) -> str:
    return (
        "from tfapp.cli.main import main\n"
        "try:\n"
        f"    code = main({list(words)!r})\n"
        "except SystemExit as error:\n"
        "    code = error.code\n"
        "assert code == 0, code"
    )


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("--version",),
        ("validate", "app-packages/tensorflow"),
        *((name, "--help") for name in COMMANDS),
    ],
    ids=" ".join,
)
def test_light_commands_load_nothing_heavy(words):
    assert loaded_by(call(*words)) & HEAVY == set()


@pytest.mark.parametrize("name", ["tfapp.coordinator", "tfapp.program", "tfapp.runner"])
def test_what_runs_in_containers_loads_no_tensorflow(name):
    found = [module for module in modules() if is_below(module, {name})]
    loaded = loaded_by("\n".join(f"import {module}" for module in found))
    assert loaded & {"tensorflow", "keras", "tf_keras", "rich", "jsonschema", "yaml"} == set()
