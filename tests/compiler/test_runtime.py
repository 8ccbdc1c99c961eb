"""The part of tfapp that travels: complete in itself, and it starts."""

import ast
import sys
from pathlib import PurePosixPath

import pytest

from tests import programs
from tests.compiler.packages import compile_with, package
from tfapp.compiler.contents import ArchiveEntry, pack
from tfapp.compiler.runtime import read_runtime
from tfapp.contract.names import JOB_FILE, PRIVATE_FILE
from tfapp.engines.kubernetes.pods import MASTER_FILES, MASTER_PROGRAM

RUNTIME = dict(read_runtime())
SOURCES = [name for name in RUNTIME if name.endswith(".py")]
# What pods get: containers unpack it, and the master runs from it as it is.
WITH_MASTER = dict(read_runtime(MASTER_FILES, compiled=False))


@pytest.fixture
def unpacked(tmp_path):
    """A container's working directory, as far as the runtime needs it."""
    for name, data in RUNTIME.items():
        path = tmp_path / "tfapp-runtime" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    *_, job, private = compile_with(package()).files
    (tmp_path / JOB_FILE).write_bytes(job.data)
    (tmp_path / PRIVATE_FILE).write_bytes(private.data)
    return tmp_path


def run(unpacked, *arguments):
    return programs.python("-B", *arguments, cwd=unpacked)


def test_it_is_sorted_and_has_an_entry_point():
    assert list(RUNTIME) == sorted(RUNTIME)
    assert {"__main__.py", "tfapp/__init__.py", "tfapp/contract/job.py"} <= RUNTIME.keys()


def imported(tree):
    """Dotted names of tfapp that a module imports while it runs."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        else:
            yield from imported(node)


def is_shipped(name, runtime):
    """Whether `name`, a module or what stands in one, is in the runtime."""
    path = PurePosixPath(*name.split("."))
    candidates = (path, path.parent)
    return any(
        str(file) in runtime
        for candidate in candidates
        for file in (candidate.with_suffix(".py"), candidate / "__init__.py")
    )


@pytest.mark.parametrize("name", [name for name in WITH_MASTER if name.endswith(".py")])
def test_a_shipped_module_imports_only_what_is_shipped(name):
    names = {found for found in imported(ast.parse(WITH_MASTER[name])) if found[:5] == "tfapp"}
    runtime = RUNTIME if name in RUNTIME else WITH_MASTER
    assert [found for found in sorted(names) if not is_shipped(found, runtime)] == []


def test_every_module_can_be_imported_from_the_archive_alone(unpacked):
    code = (
        "import importlib, sys; sys.path.insert(0, 'tfapp-runtime')\n"
        f"for name in {SOURCES!r}:\n"
        "    if name.startswith('tfapp/'):\n"
        "        name = name[:-len('.py')].replace('/', '.').replace('.__init__', '')\n"
        "        assert 'tfapp-runtime' in importlib.import_module(name).__file__, name\n"
        "heavy = {'tensorflow', 'keras', 'tf_keras', 'rich', 'jsonschema', 'docker'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    result = run(unpacked, "-c", code)
    assert (result.stdout, result.stderr, result.returncode) == ("[]\n", "", 0)


@pytest.mark.parametrize("arguments", [(), ("nobody",), ("contract",)])
def test_a_program_that_is_not_there(unpacked, arguments):
    result = run(unpacked, "tfapp-runtime", *arguments)
    usage = "usage: check | PACKAGE, where tfapp.PACKAGE.main is shipped\n"
    assert (result.returncode, result.stderr) == (2, usage)


def test_the_master_of_pods_runs_from_the_archive_as_it_is(tmp_path):
    (tmp_path / "runtime.zip").write_bytes(
        pack(ArchiveEntry(*file) for file in WITH_MASTER.items())
    )
    result = run(tmp_path, "runtime.zip", MASTER_PROGRAM)
    assert (result.returncode, result.stderr) == (
        1,
        "tfapp: master: this pod was not made by tfapp: 'TFAPP_NAME'\n",
    )


def test_what_pods_get_has_no_bytecode_and_all_else():
    assert not any(name.endswith(".pyc") for name in WITH_MASTER)
    assert WITH_MASTER.keys() > set(SOURCES)
    assert {name: WITH_MASTER[name] for name in SOURCES} == {
        name: RUNTIME[name] for name in SOURCES
    }


@pytest.mark.parametrize("program", ["runner", "coordinator"])
def test_a_program_starts_and_says_that_it_is_in_no_container(unpacked, program, monkeypatch):
    for name in ("SKEIN_APPMASTER_ADDRESS", "SKEIN_APPLICATION_ID", "SKEIN_CONTAINER_ID"):
        monkeypatch.delenv(name, raising=False)
    result = run(unpacked, "tfapp-runtime", program)
    assert result.returncode not in (0, 2)
    assert result.stderr.startswith("tfapp: ")
    assert "Traceback" not in result.stderr


def test_every_source_has_its_bytecode_beside_it():
    tag = sys.implementation.cache_tag
    expected = {
        str(path.parent / "__pycache__" / f"{path.stem}.{tag}.pyc")
        for path in map(PurePosixPath, SOURCES)
    }
    pages = {f"tfapp/page/page.{ending}" for ending in ("css", "html", "js")}
    assert RUNTIME.keys() - set(SOURCES) == expected | pages


def test_nothing_is_compiled_in_a_container(unpacked):
    code = (
        "import sys; sys.path.insert(0, 'tfapp-runtime')\n"
        "def hook(event, args):\n"
        "    if event == 'compile' and args[1] != '<string>':  # as dataclasses do\n"
        "        print('compiled', args[1])\n"
        "sys.addaudithook(hook)\n"
        "import tfapp.contract.job, tfapp.coordinator.policy, tfapp.runner.policy\n"
        "print(tfapp.runner.policy.step.__code__.co_filename)\n"
    )
    result = run(unpacked, "-c", code)
    file = unpacked / "tfapp-runtime" / "tfapp" / "runner" / "policy.py"
    assert (result.stdout, result.stderr) == (f"{file}\n", "")


def test_it_is_the_same_in_every_process():
    code = (
        "import hashlib\nfrom tfapp.compiler.runtime import read_runtime\n"
        "print(hashlib.sha256(repr(read_runtime()).encode()).hexdigest())"
    )
    found = {
        programs.printed("-c", f"{imports}\n{code}", environ={"PYTHONHASHSEED": seed})
        for seed, imports in (("1", ""), ("2", "import tfapp.runner.main, tfapp.cli.main"))
    }
    assert len(found) == 1
