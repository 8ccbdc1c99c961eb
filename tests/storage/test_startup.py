"""The start of each Python of a program that may open URLs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tfapp.storage
from tfapp.contract.names import ENV_STORAGE

STARTUP = str(Path(tfapp.storage.__file__).with_name("startup"))
LOOK = """
import json, os, sys
print(json.dumps({
    "waits": any(type(one).__name__ == "UntilTensorFlow" for one in sys.meta_path),
    "own": os.environ.get("OWN", ""),
    "path": sys.path,
    "sitecustomize": getattr(sys.modules.get("sitecustomize"), "__file__", ""),
}))
"""


def look(*flags, paths=(), **more) -> dict:
    environ = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    environ |= {
        "PYTHONPATH": os.pathsep.join([STARTUP, *map(str, paths)]),
        ENV_STORAGE: "/packages",
    }
    command = [sys.executable, *flags, "-c", LOOK]
    done = subprocess.run(
        command, env={**environ, **more}, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_it_waits_for_tensorflow_and_its_packages_come_last():
    found = look()
    assert found["waits"]
    assert found["path"][-1] == "/packages"
    assert STARTUP not in found["path"]


def test_the_sitecustomize_of_the_program_runs(tmp_path):
    own = tmp_path / "sitecustomize.py"
    own.write_text("import os; os.environ['OWN'] = 'ran'")
    found = look(paths=[tmp_path])
    assert (found["waits"], found["own"], found["sitecustomize"]) == (True, "ran", str(own))
    assert str(tmp_path) in found["path"]


@pytest.mark.parametrize("flag", ["-I", "-E", "-S"])
def test_where_python_leaves_out_what_it_needs_nothing_waits(flag):
    assert not look(flag)["waits"]


def test_without_packages_nothing_waits():
    assert not look(**{ENV_STORAGE: ""})["waits"]


def test_a_program_without_tensorflow_is_left_alone(tmp_path):
    """Another module of a similar name is found by others, and one that is missing by nobody."""
    (tmp_path / "tensorflow_like.py").write_text("")
    program = "import tensorflow_like\ntry:\n    import missing\nexcept ImportError:\n    pass\n"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([STARTUP, str(tmp_path)])}
    environ[ENV_STORAGE] = "/packages"
    subprocess.run([sys.executable, "-c", program], env=environ, check=True)


def test_a_program_with_a_part_of_tfapp_finds_storage_without_tensorflow(tmp_path):
    (tmp_path / "tfapp").mkdir()
    (tmp_path / "tfapp" / "__init__.py").write_text("")
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([STARTUP, str(tmp_path)])}
    environ[ENV_STORAGE] = "/packages"
    program = "import tfapp, tfapp.storage; print(tfapp.__file__, tfapp.storage.__file__)"
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, env=environ, cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == [str(tmp_path / "tfapp/__init__.py"), tfapp.storage.__file__]
