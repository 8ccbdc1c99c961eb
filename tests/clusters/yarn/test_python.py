"""The Python of the containers: an archive that travels, and what is said where it fails."""

import os
import platform
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests import python_environments
from tests.clusters.yarn.conftest import ROOT

RUNS_IN = re.compile(r"^runs in (.*)$", re.MULTILINE)

pytestmark = pytest.mark.usefixtures("nothing_left")

# A worker ends once the server, where SAID is set, has said where it runs.
PROGRAM = """
import os, pathlib, sys, time
import google.protobuf, grpc
where = os.path.relpath(sys.prefix, os.environ["TFAPP_WORK_DIR"])
kind = "PEX" if os.path.exists(os.path.join(sys.prefix, "PEX-INFO")) else "archive"
said = pathlib.Path(os.environ.get("SAID", "."), "server")
if os.environ["TFAPP_COMPONENT"] == "server":
    said.with_suffix(".part").write_text(f"{where} {kind}")
    said.with_suffix(".part").rename(said)
while "SAID" in os.environ and not said.exists():
    time.sleep(0.1)
print("base", sys.base_prefix)
print("runs in", where, kind)
"""


NO_SERVER = ("--component", "server", "0")


def create(user, name, folder, *options, more=NO_SERVER):
    """Two workers that run PROGRAM; `options`: key, value ...; `more`: other flags."""
    program = folder / "program.py"
    program.write_text(PROGRAM)
    flags = [("--option", key, value) for key, value in zip(options[::2], options[1::2])]
    return user.call(
        *("create", name, "--appdef", str(ROOT / "tests/end_to_end/packages/plain")),
        *("--files", str(program), *more),
        *(word for flag in flags for word in flag),
    )


def last(done: subprocess.CompletedProcess) -> str:
    return done.stderr.splitlines()[-1]


@pytest.mark.weekly
def test_environments_travel(user, tmp_path):
    """A PEX, in whose place the workers have an archive of venv-pack's kind, and packages with an
    interpreter of their own; at the same time, to save some."""
    environment = python_environments.make(tmp_path / "environment")
    archive = python_environments.pack(environment, tmp_path / "env.tar.gz")
    pex = tmp_path / "env.pex"
    tool = [sys.executable, "-m", "pex", "grpcio", "protobuf", "--venv", "--output-file", str(pex)]
    installed = ["--venv-repository", sys.prefix]  # no network is needed
    subprocess.run([*tool, *installed], check=True, capture_output=True, timeout=300)
    key = "site.global.python.archive"
    options = {
        "packed": (key, str(pex), "env.SAID", str(tmp_path)),
        "made": (
            *("site.global.python.packages", "threadpoolctl==3.*"),
            *("site.global.python.version", platform.python_version()),
        ),
    }
    own = ("--component", "server", "1", "--compopt", "worker", key, str(archive))
    more = {"packed": own, "made": NO_SERVER}
    for name in options:
        (tmp_path / name).mkdir()
    with ThreadPoolExecutor() as pool:
        calls = {
            name: pool.submit(create, user, name, tmp_path / name, *option, more=more[name])
            for name, option in options.items()
        }
    for name, call in calls.items():
        assert call.result().returncode == 0, (name, call.result().stderr)
    links = {name: sys.base_prefix in call.result().stdout for name, call in calls.items()}
    assert (links["packed"], links["made"]) == (True, False)
    found = {name: RUNS_IN.findall(call.result().stdout) for name, call in calls.items()}
    # The workers' first has been shown; the PEX has become an environment as the others are.
    assert found == dict.fromkeys(options, ["../tfapp-python archive"])
    assert (tmp_path / "server").read_text() == "../tfapp-python PEX"


@pytest.mark.weekly
def test_environments_that_fail(user, cluster, tmp_path):
    """On HDFS, an archive of which the end is missing, and one that is none; an interpreter that
    one node lacks, and one that all lack. At the same time, to save some."""
    environment = python_environments.make(tmp_path / "environment")
    archive = python_environments.pack(environment, tmp_path / "damaged.tar.gz")
    archive.write_bytes(archive.read_bytes()[:-500])
    garbage = tmp_path / "garbage.tar.gz"
    garbage.write_bytes(os.urandom(3000))
    put = ["hdfs", "dfs", "-put", "-f", str(archive), str(garbage), "/"]
    subprocess.run(put, env=cluster.environ(), check=True, capture_output=True, timeout=180)
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/sh\n"
        'if [ "${SKEIN_CONTAINER_ID:-}" = worker_1 ]; then\n'
        "  echo 'libpython: not found' >&2; exit 127\n"
        "fi\n"
        f'exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    no_coordinator = "its coordinator could not be started"
    cases = {
        # What is there of an archive that was cut off, YARN takes for the whole.
        "damaged": (
            *("site.global.python.archive", "hdfs:///damaged.tar.gz"),
            f"{no_coordinator}: the archive was not unpacked whole, or has no bin/python "
            "(site.global.python.archive).",
        ),
        "garbage": (
            *("site.global.python.archive", "hdfs:///garbage.tar.gz"),
            f"{no_coordinator}: its node could not unpack garbage.tar.gz: it is no whole .tar.gz "
            "archive.",
        ),
        "lacking": (
            *("site.global.python.executable", str(python)),
            "worker/1 on HOST could not be started in generation 1: "
            f"{python} does not run: libpython: not found (site.global.python.executable).",
        ),
        "nowhere": (
            *("site.global.python.executable", "/no/python"),
            f"{no_coordinator}: there is no Python interpreter /no/python "
            "(site.global.python.executable).",
        ),
    }
    for name in cases:
        (tmp_path / name).mkdir()
    with ThreadPoolExecutor() as pool:
        calls = {
            name: pool.submit(create, user, name, tmp_path / name, key, value)
            for name, (key, value, _) in cases.items()
        }
    ended = {name: (call.result().returncode, last(call.result())) for name, call in calls.items()}
    assert {
        name: (code, re.sub(r"127\.0\.0\.\d", "HOST", said)) for name, (code, said) in ended.items()
    } == {name: (65, f"{name}: Failed: {said}") for name, (_, _, said) in cases.items()}
