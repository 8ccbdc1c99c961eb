"""The Python of the containers: an archive that travels, and what is said where it fails."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests import python_environments
from tests.yarn.conftest import ROOT

RUNS_IN = re.compile(r"^runs in (.*)$", re.MULTILINE)

pytestmark = pytest.mark.usefixtures("nothing_left")

PROGRAM = """
import os, sys
import skein
print("runs in", os.path.relpath(sys.prefix, os.environ["TFAPP_WORK_DIR"]))
"""


def create(user, name, folder, *options):
    """Two workers that run PROGRAM; `options`: key, value ..."""
    program = folder / "program.py"
    program.write_text(PROGRAM)
    flags = [("--option", key, value) for key, value in zip(options[::2], options[1::2])]
    return user.call(
        *("create", name, "--appdef", str(ROOT / "tests/end_to_end/packages/plain")),
        *("--files", str(program), "--component", "server", "0"),
        *(word for flag in flags for word in flag),
    )


def last(done: subprocess.CompletedProcess) -> str:
    return done.stderr.splitlines()[-1]


def test_environments_travel(user, tmp_path):
    """An archive of venv-pack's kind, a PEX, and packages; at the same time, to save some."""
    environment = python_environments.make(tmp_path / "environment")
    archive = python_environments.pack(environment, tmp_path / "env.tar.gz")
    pex = tmp_path / "env.pex"
    tool = [sys.executable, "-m", "pex", "skein", "setuptools", "--venv", "--output-file", str(pex)]
    installed = ["--venv-repository", sys.prefix]  # no network is needed
    subprocess.run([*tool, *installed], check=True, capture_output=True, timeout=300)
    options = {
        "packed": ("site.global.python.archive", str(archive)),
        "pex": ("site.global.python.archive", str(pex)),
        "made": ("site.global.python.packages", "threadpoolctl==3.*"),
    }
    for name in options:
        (tmp_path / name).mkdir()
    with ThreadPoolExecutor() as pool:
        calls = {
            name: pool.submit(create, user, name, tmp_path / name, *option)
            for name, option in options.items()
        }
    for name, call in calls.items():
        assert call.result().returncode == 0, (name, call.result().stderr)
    found = {name: RUNS_IN.findall(call.result().stdout) for name, call in calls.items()}
    # The workers' first has been shown; the PEX has become an environment as the others are.
    assert found == dict.fromkeys(options, ["../tfapp-python"])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        # What is there of an archive that was cut off, YARN takes for the whole.
        (
            "damaged",
            "the archive was not unpacked whole, or has no bin/python (site.global.python.archive)",
        ),
        ("garbage", "its node could not unpack garbage.tar.gz: it is no whole .tar.gz archive"),
    ],
)
def test_an_archive_on_hdfs_that_does_not_unpack(user, cluster, tmp_path, name, said):
    environment = python_environments.make(tmp_path / "environment")
    archive = python_environments.pack(environment, tmp_path / f"{name}.tar.gz")
    archive.write_bytes(archive.read_bytes()[:-500] if name == "damaged" else os.urandom(3000))
    put = ["hdfs", "dfs", "-put", "-f", str(archive), "/"]
    subprocess.run(put, env=cluster.environ(), check=True, capture_output=True, timeout=180)
    done = create(user, name, tmp_path, "site.global.python.archive", f"hdfs:///{name}.tar.gz")
    assert done.returncode == 65
    assert last(done) == f"{name}: Failed: its coordinator could not be started: {said}."


def test_an_interpreter_that_one_node_lacks(user, tmp_path):
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/sh\n"
        'if [ "${SKEIN_CONTAINER_ID:-}" = worker_1 ]; then\n'
        "  echo 'libpython: not found' >&2; exit 127\n"
        "fi\n"
        f'exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    done = create(user, "lacking", tmp_path, "site.global.python.executable", str(python))
    assert done.returncode == 65
    said = re.sub(r"127\.0\.0\.\d", "HOST", last(done))
    assert said == (
        "lacking: Failed: worker/1 on HOST could not be started in generation 1: "
        f"{python} does not run: libpython: not found (site.global.python.executable)."
    )


def test_an_interpreter_that_no_node_has(user, tmp_path):
    done = create(user, "nowhere", tmp_path, "site.global.python.executable", "/no/python")
    assert done.returncode == 65
    assert last(done) == (
        "nowhere: Failed: its coordinator could not be started: there is no Python interpreter "
        "/no/python (site.global.python.executable)."
    )
