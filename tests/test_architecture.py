"""The shape of the house: data flows one way, so do imports; heavy libraries have few doors."""

from __future__ import annotations

import ast
import configparser
import json
import re
import sys
from pathlib import Path

import pytest

from tests import programs
from tests.import_graph import ROOT, cycles, imports, modules, room
from tfapp.cli.commands import COMMANDS
from tfapp.compiler import runtime
from tfapp.engines import ENGINES

REPOSITORY = ROOT.parent

# Rooms and the rooms they may import. Whatever is missing in a row is above it.
EVERYWHERE = {"frozen", "ready", "threads"}
BASE = {"close_match", "contract", "errors", "placeholders", "problems", "shipped"}
MAY_IMPORT: dict[str, set[str]] = {
    "": {"errors"},
    "close_match": set(),
    "course": set(),
    "frozen": set(),
    "errors": set(),
    "problems": set(),
    "contract": set(),
    "disk": {"errors"},
    "temporary": {"disk"},
    "interrupts": set(),
    "threads": set(),
    "ready": set(),
    "sources": set(),
    "listener": set(),
    "library_path": set(),
    "tools": set(),
    "topology": set(),
    "processes": {"contract"},
    "placeholders": set(),
    "shipped": set(),
    "standalone": set(),
    "storage": {"contract", "errors"},
    "skein_library": {"library_path"},
    "documents": {"errors", "problems"},
    "schema": {"close_match", "documents", "errors", "library_path", "problems", "shipped"},
    "page": {"contract", "listener"},
    "package": BASE | {"documents", "schema", "sources"},
    "environment": {"contract", "disk", "errors", "problems", "sources", "standalone", "tools"},
    "compiler": BASE | {"", "disk", "package", "environment", "skein_library"},
    # What travels into containers.
    "script": {"contract", "errors"},
    "protocol": {"contract", "errors"},
    "runner": {
        "contract",
        "course",
        "errors",
        "placeholders",
        "listener",
        "processes",
        "script",
        "protocol",
        "standalone",
        "storage",
        "temporary",
    },
    "coordinator": {"contract", "course", "errors", "listener", "page", "protocol"}
    | {"standalone", "storage"},
    # The part of programs travels too.
    "feed": {"contract", "errors", "listener"},
    "program": {"course", "errors", "feed", "storage"},
    "master": {"contract", "errors", "listener", "processes", "protocol", "standalone"},
    "engines": BASE
    | {"", "disk", "documents", "listener", "master", "processes", "environment", "package"}
    | {"temporary"}
    | {"compiler"}
    | {"protocol", "skein_library", "standalone", "storage", "tools"},
    "api": BASE
    | {"disk", "environment", "engines", "compiler", "interrupts", "launch", "package"}
    | {"feed", "page", "program", "sources", "storage", "topology"},
    "launch": BASE
    | {"disk", "documents", "environment", "schema", "package", "compiler", "engines", "page"}
    | {"interrupts", "storage", "tools"},
    "cli": BASE
    | {"", "api", "disk", "interrupts", "schema", "package", "page", "compiler", "engines"}
    | {"launch", "storage", "tfjob"},
    "tfjob": {"documents", "errors", "package", "problems", "schema", "shipped"},
    "tensorflowonspark": {
        "",
        "api",
        "compiler",
        "errors",
        "feed",
        "program",
        "storage",
        "topology",
    },
    "tf_yarn": {"api", "compiler", "errors", "program", "topology"},
    "__main__": {"cli", "errors"},
}

# Tests of no module of their own, by folder; see test_a_test_is_where_its_module_is.
WITHOUT_MODULE: dict[str, str] = {
    "api": "bad_input broken_worlds docs names package run tf_yarn",
    "api/travel": "preflight",
    "cli": "bad_input processes tf_spawner",
    "cli/commands": "damaged known_application",
    "compiler": "bytecode golden limits shipped start_script success",
    "contract": "checkpoint_dir",
    "coordinator/policy": (
        "beginnings cannot_start gangs later_runs machines random_histories replayed_histories"
    ),
    "documents": "read",
    "engines": "contract engines isolated played_contract",
    "engines/kubernetes": "docs golden open_files printed",
    "engines/local": "container outcomes survival",
    "engines/yarn": "negotiation",
    "feed": "consumed generations objects protocol",
    "launch": "known_to_fit writing",
    "master": "background containers pages store_events store_operations store_ownership "
    "store_transactions store_writing",
    "package": "failure_policy mistakes random_edits slider_samples",
    "page": "in_a_browser profile",
    "program": "trainings",
    "runner": "main_metrics restart",
    "runner/docker": "application call deaths lines lost_engine pull_progress storage tfjob",
    "schema": "cases shipped_schemas",
    "standalone": "standalone",
    "storage": "azure docs faults startup",
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
        "tfapp.feed.task",
        "tfapp.tensorflowonspark",
    },
    "jaxlib": {"tfapp.storage.startup.sitecustomize"},  # where the program imports it
    "keras": {"tfapp.program.keras_jax", "tfapp.tensorflowonspark.compat"},
    "numpy": {"tfapp.feed", "tfapp.tensorflowonspark"},
    "certifi": {"tfapp.storage"},
    "fsspec": {"tfapp.storage.others", "tfapp.storage.system"},
    "obstore": {"tfapp.storage"},
    "hdfs_native": {"tfapp.storage"},
    "pynvml": {"tfapp.runner.gpu_usage"},
    "pathspec": {"tfapp.package.folder"},
    "pandas": {"tfapp.feed.driver.data"},
    "pyarrow": {
        "tfapp.feed.columns",
        "tfapp.feed.memory",
        "tfapp.feed.driver.data",
        "tfapp.feed.task",
        "tfapp.tensorflowonspark.predicting",
    },
    "websocket": {"tfapp.engines.kubernetes.websockets"},  # what the Kubernetes library uses
    "typing_extensions": {"tfapp.api.call", "tfapp.frozen"},  # for type checkers
    "tensorflow": {
        "tfapp.feed.program.context",
        "tfapp.program.collectives",
        "tfapp.program.keras",
        "tfapp.program.keras_backup",
        "tfapp.program.keras_evaluator",
        "tfapp.program.keras_model",
        "tfapp.program.estimator",
        "tfapp.tensorflowonspark",
    },
}


# Who may do by itself what a room is for, and why. In tfapp.threads a thread says why it ends; in
# tfapp.listener a stranger takes no place for long.
ALONE = {
    r"\b(Thread|Timer|InheritableThread|start_new_thread|to_thread|run_in_executor)\(": {
        "tfapp.storage.startup.tfapp_profiles",  # in programs, where nothing of tfapp is imported
    },
    # Of commands, which tell an error to whoever has called them.
    r"\bThreadPoolExecutor\(": {
        "tfapp.cli.several",
        "tfapp.engines.known",
        "tfapp.engines.kubernetes.logs",
        "tfapp.engines.kubernetes.preflight",
        "tfapp.engines.yarn.doctor",
        "tfapp.engines.yarn.submission",
        "tfapp.storage.objects",
        "tfapp.storage.reading",
    },
    # In tfapp.sources a fault of Python's is met.
    r"\bast\.parse\(": {"tfapp.sources", "tfapp.standalone.question"},  # a process of its own
    r"\.accept\(|sock_accept\(|serve_forever|start_server\(": {
        "tfapp.listener",
        "tfapp.engines.kubernetes.forward",  # on loopback, for the moments of one command
        "tfapp.master.witness",  # in a process that forks, and so has no threads
    },
}


@pytest.mark.parametrize("calls", ALONE)
def test_what_one_room_does_is_done_there_alone(calls):
    found = {name for name, path in modules().items() if re.search(calls, path.read_text())}
    assert found == ALONE[calls]


def test_whoever_takes_a_lock_asks_whether_it_is_theirs():
    """Only a lock that is waited for without limit (timeout None) is held in any case."""
    deaf = {
        f"{name}:{each.context_expr.lineno}"
        for name, path in modules().items()
        for block in ast.walk(ast.parse(path.read_text()))
        if isinstance(block, ast.With)
        for each in block.items
        if each.optional_vars is None and _takes_a_lock(each.context_expr)
    }
    assert deaf == set()


def _takes_a_lock(expression: ast.expr) -> bool:
    return isinstance(expression, ast.Call) and (
        (isinstance(expression.func, ast.Attribute) and expression.func.attr == "lock")
        or (isinstance(expression.func, ast.Name) and expression.func.id == "locked")
    )


def is_below(module: str, doors: set[str]) -> bool:
    return any(module == door or module.startswith(f"{door}.") for door in doors)


def test_every_room_has_its_row():
    assert {room(module) for module in modules()} == set(MAY_IMPORT)


def test_contributors_are_told_of_every_room():
    text = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = "".join(re.findall(r"(?m)^\| (`.*?) \|", text))
    told = {name.rstrip("/") for name in re.findall(r"`(\w+/?)`", rows)}
    assert told >= set(MAY_IMPORT) - {"", "__main__"}


def test_the_picture_for_contributors_is_true():
    """Each room stands in it once, and none imports what stands above it."""
    text = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (picture,) = re.findall(r"(?ms)^```text\n(.*?)^```$", text)
    rows = list(enumerate(picture.splitlines()[1:]))
    stands = [(each, row) for row, line in rows for each in re.findall(r"\w+", line)]
    assert sorted(each for each, _ in stands) == sorted(set(MAY_IMPORT) - {"", "__main__"})
    row_of = dict(stands)
    wrong = {
        f"{importer} imports {imported}"
        for importer, row in row_of.items()
        for imported in (MAY_IMPORT[importer] | EVERYWHERE) - {""}
        if row_of[imported] < row
    }
    assert wrong == set()


def test_rooms_import_downwards_only():
    wrong = {
        f"{importer} imports {imported}"
        for importer, imported in imports()
        if imported.split(".")[0] == "tfapp"
        and room(imported) != room(importer)
        and room(imported) not in MAY_IMPORT[room(importer)] | EVERYWHERE
    }
    assert wrong == set()


def test_the_rows_themselves_have_no_ring():
    assert cycles({(a, b) for a, row in MAY_IMPORT.items() for b in row}) == []


def test_modules_have_no_ring():
    """Nor by imports inside functions or for type checkers alone."""
    assert cycles({(a, b) for a, b in imports() if b in modules()}) == []


def test_what_tests_import_is_there():
    """Also in the programs that they have as strings, which nothing else reads before they run."""
    words = {name: set(re.findall(r"\w+", path.read_text())) for name, path in modules().items()}
    wrong = set()
    for path in (*REPOSITORY.glob("tests/**/*.py"), *REPOSITORY.glob("benchmarks/*.py")):
        for module, names in re.findall(r"from (tfapp[\w.]*) import ([\w, ]+)", path.read_text()):
            for name in names.split(","):
                name = name.partition(" as ")[0].strip()
                if name and f"{module}.{name}" not in words and name not in words.get(module, ()):
                    wrong.add((path.name, module, name))
    assert wrong == set()


@pytest.mark.parametrize("library", DOORS)
def test_libraries_have_few_doors(library):
    importers = {a for a, b in imports() if b.split(".")[0] == library}
    assert {module for module in importers if not is_below(module, DOORS[library])} == set()


def test_what_the_python_call_needs_has_no_flags_signals_or_terminal():
    importers = {a for a, b in imports() if b.split(".")[0] in ("argparse", "signal", "rich")}
    assert {module for module in importers if is_below(module, {"tfapp.launch"})} == set()


def test_third_party_libraries_are_declared():
    known = sys.stdlib_module_names if sys.version_info >= (3, 10) else None
    if known is None:
        pytest.skip("this machine has no Python 3.10: the list of standard modules is new there")
    foreign = {b.split(".")[0] for _, b in imports()} - set(known) - {"tfapp"}
    assert foreign <= set(DOORS)


def test_what_travels_into_containers_is_whole():
    modules = {module.partition("/")[0].removesuffix(".py") for module in runtime.MODULES}
    shipped = modules | set(runtime.PACKAGES)
    for travelling in shipped - {"__init__"}:
        assert MAY_IMPORT[travelling] | EVERYWHERE <= shipped


def test_each_command_is_a_file_with_a_manual():
    folder = ROOT / "cli" / "commands"
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert {module.rpartition(".")[2] for module, _ in COMMANDS.values()} == files


def test_each_engine_is_a_folder():
    folders = {path.parent.name for path in (ROOT / "engines").glob("*/__init__.py")}
    assert set(ENGINES) == folders - {"machine"}  # what engines share


def test_engines_know_nothing_of_each_other():
    wrong = {
        f"{importer} imports {imported}"
        for importer, imported in imports()
        for engine in ENGINES
        for other in set(ENGINES) - {engine}
        if is_below(importer, {f"tfapp.engines.{engine}"})
        and is_below(imported, {f"tfapp.engines.{other}"})
    }
    assert wrong == set()


@pytest.mark.parametrize("place", ["task", "program"])
def test_what_travels_with_a_feed_needs_nothing_of_other_processes(place):
    others = {f"tfapp.feed.{other}" for other in {"driver", "task", "program"} - {place}}
    wrong = {
        f"{importer} imports {imported}"
        for importer, imported in imports()
        if is_below(importer, {f"tfapp.feed.{place}"}) and is_below(imported, others)
    }
    assert wrong == set()


def test_a_test_is_where_its_module_is():
    """tests/<room>/test_<module>.py, but for those of WITHOUT_MODULE, of clusters, of whole
    applications and of what is no room. Rows without a file are gone."""
    found: dict[str, list[str]] = {}
    for name in {module.split(".")[1] for module in modules() if "." in module}:
        for path in (REPOSITORY / "tests" / name).rglob("test_*.py"):
            place = path.relative_to(REPOSITORY / "tests").parent
            tested = path.stem.partition("_")[2]
            if not (REPOSITORY / "tfapp" / place / f"{tested}.py").exists():
                found.setdefault(str(place), []).append(tested)
    assert {place: " ".join(sorted(names)) for place, names in found.items()} == WITHOUT_MODULE


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
    done = programs.python("-c", code, cwd=cwd)
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
