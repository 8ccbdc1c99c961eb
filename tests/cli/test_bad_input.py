"""Bad input gets one clear message, the right exit code, no traceback but the user's own, no
process and no half-made application left."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.end_to_end.command_line import CommandLine
from tfapp.shipped import app_packages_dir

TENSORFLOW = app_packages_dir() / "tensorflow"


@pytest.fixture
def package(tmp_path) -> Path:
    """A copy of the TensorFlow package, to be spoilt; its program is a plain print."""
    folder = tmp_path / "package"
    shutil.copytree(TENSORFLOW, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "files" / "train.py").write_text("print('trained')\n")
    return folder


@pytest.fixture
def tfapp(tmp_path, tfapp_home):
    """`tfapp` in the folder of the package."""
    return CommandLine(tmp_path, tfapp_home)


@pytest.fixture
def run(tfapp, package):
    """Calls `tfapp create app` on the package, and checks what holds for all bad input."""

    def create(*words: str, call=tfapp) -> tuple[int, str, str]:
        ended = call(
            "create", "app", "--appdef", package.name, "--component", "worker", "1", *words
        )
        assert tfapp.kill_living() == []
        return ended

    return create


def replace(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))


INVALID = [
    # document, before, after, what the message has
    ("metainfo.yaml", "components:", "components: [", "package/metainfo.yaml:"),
    ("metainfo.yaml", "    - name: chief", "    - name: [chief]", "package/metainfo.yaml:"),
    ("metainfo.yaml", "exportGroups:", "exportGroup:", "exportGroups"),
    ("metainfo.yaml", "scripts/tensorflow.py", "scripts/gone.py", "scripts/gone.py"),
    ("metainfo.yaml", "scripts/tensorflow.py", "../evil.py", "../evil.py"),
    ("appConfig-default.yaml", "entry: train.py", "entry: gone.py", "gone.py"),
    ("appConfig-default.yaml", "global:\n", "global:\n  env.A: ${wroker_HOST}\n", "wroker"),
    ("appConfig-default.yaml", "global:\n", "global:\n  env.A: ${UNKNOWN}\n", "UNKNOWN"),
    ("resources-default.yaml", "yarn.vcores: 1", "yarn.vcores: many", "many"),
    ("resources-default.yaml", "  ps:", "  pz:", "pz"),
]


@pytest.mark.parametrize(("document", "before", "after", "text"), INVALID)
def test_an_invalid_package(run, package, tfapp, document, before, after, text):
    replace(package / document, before, after)
    code, out, err = run(call=tfapp.here)
    assert (code, out) == (77, "")
    assert f"package/{document}:" in err
    assert text in err
    assert err.splitlines()[-1].startswith("error: ")
    assert "Traceback" not in err
    assert tfapp.names() == []


def test_a_package_that_is_not_there(run, package, tfapp):
    shutil.rmtree(package)
    code, _, err = run(call=tfapp.here)
    assert code == 77
    assert "there is no package here" in err


def test_a_name_that_is_in_use(run, tfapp):
    assert run()[0] == 0
    code, _, err = run()
    assert code == 75
    assert "error: there is an application app already\n" in err
    assert tfapp.names() == ["app"]


def test_a_program_with_a_traceback_shows_its_own(run, package):
    (package / "files" / "train.py").write_text("raise RuntimeError('mine')\n")
    code, out, err = run()
    assert code == 65
    assert "RuntimeError: mine" in out
    assert "tfapp/runner" not in out + err


def test_a_script_without_a_class(run, package):
    (package / "scripts" / "tensorflow.py").write_text("x = 1\n")
    code, out, err = run()
    assert code == 65
    assert "Script" in out + err
    assert "Traceback" not in out + err


def test_no_tensorflow(run, package, tmp_path):
    venv.create(tmp_path / "bare", with_pip=False)
    python = f"{tmp_path}/bare/bin/python"
    (package / "files" / "train.py").write_text("import tensorflow\n")
    code, out, err = run("--option", "site.global.python.executable", python)
    assert code == 77
    assert f"the program imports tensorflow, which {python} does not have" in out + err
    assert "Traceback" not in out + err


def test_an_interpreter_that_does_not_exist(run):
    code, out, err = run("--option", "site.global.python.executable", "/no/python")
    assert code in (65, 77)
    assert "/no/python" in out + err
    assert "Traceback" not in out + err


def test_a_full_disk_behind_the_output_is_neither_success_nor_a_bug():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "tfapp", "schema"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (
        53,
        "error: [Errno 28] No space left on device\n  Free some space and try again.\n",
    )
