"""The script that each container begins with, run by bash."""

import subprocess
import sys
import venv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfapp.compiler.runtime import read_runtime
from tfapp.compiler.specification import container_script

KEY = "site.global.python.executable"


def run(python: str, folder: Path, runs: bool = False) -> tuple[int, str]:
    """Exit code and last line."""
    done = subprocess.run(
        ["bash", "-c", container_script(python, "runner", KEY, runs=runs)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout.splitlines()[-1]


@pytest.fixture
def container(tmp_path):
    for name, data in read_runtime():
        path = tmp_path / "tfapp-runtime" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return tmp_path


def test_it_becomes_the_runner(container):
    assert run(sys.executable, container) == (
        1,
        f"tfapp: [Errno 2] No such file or directory: '{container}/tfapp-job.json'",
    )


def test_an_interpreter_that_is_known_to_run_is_started_once(container):
    python = container / "python"
    starts = container / "starts"
    python.write_text(f'#!/bin/sh\necho start >> {starts}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    assert run(str(python), container, runs=True) == run(sys.executable, container)
    assert starts.read_text() == "start\n"
    assert run("/no/python", container, runs=True)[0] == 78


@pytest.mark.parametrize("python", ["/no/python $(whoami)", "no-python"])
def test_no_interpreter(container, python):
    assert run(python, container) == (
        78,
        f"tfapp: cannot start: there is no Python interpreter {python} ({KEY})",
    )


def test_an_interpreter_for_another_machine(container):
    python = container / "python"
    python.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(100))
    python.chmod(0o755)
    assert run(str(python), container) == (
        78,
        f"tfapp: cannot start: {python} does not run: bash: line 5: {python}: cannot execute "
        f"binary file: Exec format error ({KEY})",
    )


def test_an_interpreter_that_is_broken(container):
    python = container / "python"
    python.write_text("#!/bin/sh\necho one >&2\necho 'libpython3.so: not found' >&2\nexit 127\n")
    python.chmod(0o755)
    problem = f"{python} does not run: libpython3.so: not found"
    assert run(str(python), container) == (78, f"tfapp: cannot start: {problem} ({KEY})")


@given(st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), min_size=1))
def test_no_name_is_a_command(name):
    script = container_script(f"/no/{name}", "runner", KEY)
    done = subprocess.run(["bash", "-c", script], capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (78, b"")
    assert done.stdout.decode() == (
        f"tfapp: cannot start: there is no Python interpreter /no/{name} ({KEY})\n"
    )


def test_an_interpreter_without_skein(container):
    venv.create(container / "bare", with_pip=False)
    python = f"{container}/bare/bin/python"
    assert run(python, container) == (
        78,
        f"tfapp: cannot start: {python} lacks grpcio, protobuf, which tfapp needs",
    )
