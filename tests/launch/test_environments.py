"""Python environments on the local engine, by the commands: real archives, real processes."""

import platform
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import programs, python_environments
from tests.cli.played_engine import shell
from tfapp.environment import build
from tfapp.environment.additions import name_of
from tfapp.launch import environments
from tfapp.launch.environments import Needed, Needs
from tfapp.package.load import load_package
from tfapp.package.overrides import Overrides
from tfapp.problems import Position
from tfapp.shipped import app_packages_dir

ROOT = Path(__file__).parents[2]
PLAIN = ROOT / "tests" / "end_to_end" / "packages" / "plain"
ARCHIVE = "site.global.python.archive"
EXECUTABLE = "site.global.python.executable"

PROGRAM = """\
import os, sys
import yaml
import beside
print("runs in", os.path.relpath(sys.prefix, os.environ["TFAPP_WORK_DIR"]))
"""

# Writes which environment it is in, and where: for a worker, once the server has done so.
OF_ITS_OWN = """\
import os, pathlib, sys, time
said, component = pathlib.Path(os.environ["SAID"]), os.environ["TFAPP_COMPONENT"]
while component == "worker" and not (said / "server.said").exists():
    time.sleep(0.05)
where = os.path.relpath(sys.prefix, os.environ["TFAPP_WORK_DIR"])
proof = pathlib.Path(sys.prefix, "proof").read_text()
(said / component).with_suffix(".part").write_text(f"{where} {proof}")
(said / component).with_suffix(".part").rename(said / f"{component}.said")
"""


@pytest.fixture
def create(tmp_path):
    """Calls `tfapp create` with two workers, one program, and a file beside it."""
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "beside.py").touch()

    def call(
        name: str, *options: str, more: tuple[str, ...] = ("--component", "server", "0")
    ) -> subprocess.CompletedProcess[str]:
        flags = [("--option", k, v) for k, v in zip(options[::2], options[1::2])]
        return programs.python(
            *("-m", "tfapp", "create", name, "--appdef", PLAIN),
            *("--files", tmp_path / "program.py", tmp_path / "beside.py"),
            *more,
            *("--option", "site.global.user.scripts.entry", "program.py"),
            *(word for flag in flags for word in flag),
            environ={"TFAPP_HOME": str(tmp_path / "home")},
        )

    return call


def finding(done: subprocess.CompletedProcess) -> str:
    """The one error for which a command ended, without the folder of its file."""
    assert done.returncode == 77
    (line,) = (line for line in done.stderr.splitlines() if ": error: " in line)
    return re.sub(r"^/\S*/(?=program.py)", "", line)


@pytest.mark.slow
def test_an_archive_is_unpacked_once_and_runs_the_programs(create, tmp_path):
    environment = python_environments.make(tmp_path / "env")
    archive = python_environments.pack(environment, tmp_path / "env.tar.gz")
    for name in ("one", "two"):
        done = create(name, ARCHIVE, str(archive))
        assert done.returncode == 0, done.stderr
        assert "runs in ../tfapp-python" in done.stdout.splitlines()
        assert ("to try it out" in done.stderr) == (name == "one")
    unpacked = [path.name for path in (tmp_path / "home/cache/environments").iterdir()]
    assert len([name for name in unpacked if not name.startswith("tfapp-")]) == 1
    archive.unlink()
    gone = create("three", ARCHIVE, str(archive))
    assert finding(gone) == (
        f"--option {ARCHIVE}: error: {archive} cannot be read: No such file or directory "
        "[python-environment]"
    )


def test_a_component_has_an_archive_of_its_own(create, tmp_path):
    """The workers have what `global` names. They end once the server has said what it has."""
    (tmp_path / "program.py").write_text(OF_ITS_OWN)
    archives = {}
    for component in ("worker", "server"):
        environment = python_environments.make(tmp_path / component)
        (environment / "proof").write_text(component)
        archives[component] = str(
            python_environments.pack(environment, tmp_path / f"{component}.tgz")
        )
    more = (
        *("--component", "server", "1", "--component", "worker", "1"),
        *("--compopt", "server", ARCHIVE, archives["server"]),
    )
    done = create("one", ARCHIVE, archives["worker"], "env.SAID", str(tmp_path), more=more)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("to try it out") == 2
    for component in archives:
        assert (tmp_path / f"{component}.said").read_text() == f"../tfapp-python {component}"


def test_what_the_program_imports_is_looked_for(create, tmp_path):
    environment = python_environments.make(tmp_path / "env", borrow=False)
    archive = python_environments.pack(environment, tmp_path / "env.tar.gz")
    done = create("one", ARCHIVE, str(archive))
    assert finding(done) == (
        f"program.py:2:1: error: the program imports yaml, which {archive} does not have "
        "[missing-module]"
    )
    assert not (tmp_path / "home" / "apps").exists()


def test_a_program_that_no_interpreter_can_read(create, tmp_path):
    (tmp_path / "program.py").write_text("print('a')\nif x\n")
    done = create("one")
    assert finding(done).startswith("program.py:2:5: error: Python cannot read the program: ")


def test_an_archive_whose_interpreter_is_not_there(create, tmp_path):
    environment = python_environments.make(tmp_path / "env")
    for link in ("python", "python3"):
        (environment / "bin" / link).unlink()
    (environment / "bin" / "python").symlink_to("/no/such/python")
    archive = python_environments.pack(environment, tmp_path / "env.tar.gz")
    done = create("one", ARCHIVE, str(archive))
    assert finding(done) == (
        f"--option {ARCHIVE}: error: {archive} cannot be run: No such file or directory "
        "[python-environment]"
    )


def test_an_executable_that_is_not_there(create):
    done = create("one", EXECUTABLE, "/no/python")
    assert finding(done) == (
        f"--option {EXECUTABLE}: error: /no/python cannot be run: No such file or directory "
        "[python-environment]"
    )


def test_an_own_module_that_lies_beside_the_program(create, tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "net.py").write_text("")
    (tmp_path / "near.py").write_text("")
    (tmp_path / "program.py").write_text("import own.net\nimport near\n")
    said = create("one").stderr.replace(f"{tmp_path}", "HERE").splitlines()
    lacks = f"which {sys.executable} does not have [missing-module]"
    assert said[-5:] == [
        f"HERE/program.py:1:1: error: the program imports own, {lacks}",
        "  it lies beside the program: ship it with --files HERE/own",
        f"HERE/program.py:2:1: error: the program imports near, {lacks}",
        "  it lies beside the program: ship it with --files HERE/near.py",
        "error: 2 errors in the package",
    ]


def test_a_module_that_its_package_does_not_have(create, tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "net.py").write_text("")
    (tmp_path / "program.py").write_text(
        "if 0: import own.perhaps\n"
        "import own.net, own.nett\n"
        "import os.path, xml.sax, google.protobuf\n"
        "import yaml.nothing\n"
        "import no_such.thing\n"  # so that nothing is started
    )
    more = ("--component", "server", "0", "--files", str(tmp_path / "own"))
    said = create("one", more=more).stderr
    assert [line.replace(f"{tmp_path}", "HERE") for line in said.splitlines()][:4] == [
        "HERE/program.py:2:1: warning: the program imports own.nett, which the shipped own does "
        "not have [missing-module]",
        "  correct the name, or ship that module too",
        f"HERE/program.py:4:1: warning: the program imports yaml.nothing, which {sys.executable} "
        "does not have [missing-module]",
        "  correct the name, or use a version of PyYAML that has it",
    ]


@pytest.mark.parametrize(
    ("program", "lies", "said"),
    [
        ("train.py", "own.py", "beside the program: ship it with --files own.py"),
        ("src/train.py", "src/own.py", "beside the program: ship it with --files src/own.py"),
        ("own/train.py", "own/net.py", "in the working folder: ship it with --files own"),
        ("a/own/train.py", "a/own/net.py", "above the program: ship it with --files a/own"),
        ("src/train.py", "own/net.py", "in the working folder: ship it with --files own"),
        ("train.py", "lib/own.py", "on PYTHONPATH, which programs do not get: "
         "ship it with --files lib/own.py"),
        ("train.py", "other/own.py", ""),
    ],
)  # fmt: skip
def test_where_a_module_that_is_missing_lies(tmp_path, program, lies, said):
    for name in (program, lies):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    caller = shell(tmp_path, None, cwd=tmp_path, environ={"PYTHONPATH": "lib:"})
    found = environments._where(Needed("own.net", Position(program, 1, 1)), caller)
    assert found == (f"it lies {said}" if said else "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "file", "way"),
    [
        ("open('digits.csv')", "digits.csv", "digits.csv"),
        ("open('./data/digits.csv')", "data/digits.csv", "data"),
        ("importlib.import_module('near')", "near.py", "near.py"),
    ],
)
def test_a_file_that_a_function_misses_and_that_lies_beside_it(tmp_path, statement, file, way):
    (tmp_path / "data").mkdir()
    (tmp_path / file).write_text("1")
    (tmp_path / "trains.py").write_text(f"import importlib\ndef train():\n    {statement}\n")
    environ = {"TFAPP_HOME": str(tmp_path / "home")}
    words = ("-m", "tfapp", "run", "trains:train", "-w", "1")
    done = programs.python(*words, environ=environ, cwd=tmp_path)
    assert done.returncode == 65, done.stderr
    assert done.stderr.splitlines()[-1] == (
        f"{file} lies beside the program and was not shipped: --files {way}"
    )


TENSORFLOW = app_packages_dir() / "tensorflow"
CALL_FILES = {"tfapp-call/main.py": Path(__file__)}


def needing(module: str) -> Needs:
    return Needs({"worker": (Needed(module, Position("train.py", 1, 1)),)})


@pytest.mark.parametrize(
    ("engine", "package", "packages", "version", "files", "needs", "added", "kept"),
    [
        ("local", TENSORFLOW, "pandas", "", {}, Needs(), build.MINE, True),
        ("local", TENSORFLOW, "keras<3, tensorflow==2.15.*", "", {}, Needs(), "", False),
        ("local", TENSORFLOW, "pandas", "3.11", {}, Needs(), "", True),
        ("local", TENSORFLOW, "", "3.11", {}, Needs(), "", True),
        ("local", PLAIN, "pandas", "", {}, Needs(), build.MINE, False),
        ("yarn", TENSORFLOW, "pandas", "", {}, Needs(), "", True),
        ("yarn", PLAIN, "pandas", "", {}, Needs(), "", False),
        ("yarn", TENSORFLOW, "pandas", "", CALL_FILES, needing("keras.layers"), "", True),
        ("yarn", TENSORFLOW, "pandas", "", CALL_FILES, needing("numpy"), "", False),
        ("kubernetes", TENSORFLOW, "pandas", "", {}, Needs(), build.THEIRS, False),
        ("kubernetes", TENSORFLOW, "pandas", "3.11", {}, Needs(), "", True),
    ],
)
def test_packages_are_added_to_what_programs_find_without_them(
    engine, package, packages, version, files, needs, added, kept
):
    keys = {"packages": packages, "version": version}
    options = [(f"site.global.python.{key}", text) for key, text in keys.items() if text]
    loaded = load_package(package, overrides=Overrides(tuple(options)), user_files=files).package
    there = SimpleNamespace(name=engine, sees_home=engine == "local")
    wanted = environments._wanted_environment(loaded, there, needs)
    assert wanted.added == added
    names = [name_of(requirement) for requirement in wanted.kept]
    assert names == (["tensorflow", "tf-keras", "tensorboard"] if kept else [])


OWN = """\
import os, sys, threadpoolctl
base = {base!r}
files = [line.split(None, 5)[5].strip() for line in open("/proc/self/maps") if "/" in line]
print("Python", sys.version.split()[0])
print("runs in", os.path.relpath(sys.prefix, os.environ["TFAPP_WORK_DIR"]))
print("threadpoolctl", threadpoolctl.__version__)
print("of the base:", [path for path in (*sys.path, *files) if path.startswith(base)])
"""


@pytest.mark.slow  # pip makes an environment
def test_an_environment_with_an_interpreter_of_its_own(tmp_path, monkeypatch, capfd):
    from tfapp.cli.main import main
    from tfapp.environment import build

    # The local engine's runners have tfapp's own Python.
    monkeypatch.setattr(build, "REQUIREMENTS", ())
    program = tmp_path / "program.py"
    program.write_text(OWN.format(base=f"{sys.base_prefix}/lib/python"))
    minor = "{}.{}".format(*sys.version_info)
    code = main(
        [
            *("create", "own", "--appdef", str(PLAIN), "--files", str(program)),
            *("--component", "server", "0", "--component", "worker", "1"),
            *("--option", "site.global.user.scripts.entry", "program.py"),
            *("--option", "site.global.python.version", minor),
            *("--option", "site.global.python.packages", "threadpoolctl==3.5.0"),
        ]
    )
    out, err = capfd.readouterr()
    assert code == 0, err
    assert f"makes a Python environment of Python {minor}, threadpoolctl==3.5.0: " in err
    assert out.splitlines() == [
        f"Python {platform.python_version()}",
        "runs in ../tfapp-python",
        "threadpoolctl 3.5.0",
        "of the base: []",
    ]
