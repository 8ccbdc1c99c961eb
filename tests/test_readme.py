"""The README says what is true, and its commands work as they stand. Its first one runs in
tests/test_packaging.py."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import programs
from tests.contract_values import make_limits
from tests.readme import README, blocks, table
from tfapp.cli.commands import COMMANDS
from tfapp.engines.kubernetes.engine import SETTLE as OF_PODS
from tfapp.engines.yarn.engine import SETTLE
from tfapp.errors import ExitCode
from tfapp.schema.describe import defaults

REPOSITORY = README.parent
TRAIN, TEST, *GUIDE = blocks()
SET_UP = TEST.rpartition("&&")[0]


def bash(script: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess:
    """Runs `script` as a person would who pastes it, with this interpreter's tfapp on PATH."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    bash = ("bash", "-euo", "pipefail", "-c", script)
    return programs.run(*bash, cwd=cwd, environ={"PATH": path, **environ}, limit=900)


def test_the_exit_codes_are_those_of_the_code():
    rows = table("commands.md", "Exit codes")
    assert [code for code, meaning in rows if meaning] == [str(int(code)) for code in ExitCode]


def test_the_commands_are_those_of_the_code():
    rows = table("commands.md")
    described = {row[0].strip("`").split()[1]: row[1].split(" (`")[0] for row in rows}
    assert described == {name: summary for name, (_, summary) in COMMANDS.items()}


def test_the_times_of_failures_are_those_of_the_code():
    limits = make_limits()
    default = {
        **defaults("metainfo", "failurePolicy"),
        **defaults("metainfo", "commandScript"),
    }
    rows = {what: (follows, noticed) for what, follows, noticed in table("failures.md")}
    silence = limits.heartbeat_lost + 2 * limits.heartbeat
    settle = f"{limits.settle:g} s"
    follows, noticed = rows["a runner is cut off from the master"]
    assert f"itself after {limits.heartbeat_lost:g} s;" in follows
    assert noticed == f"{limits.heartbeat_lost - limits.heartbeat:g} to {silence:g} s"
    for what in ("a runner is stopped (SIGSTOP)", "a machine is lost"):
        assert rows[what][1] == f"{silence:g} s"
    told = f"for {settle}, on YARN {SETTLE:g} s, on Kubernetes {OF_PODS:g} s:"
    assert told in rows["a program ends with an error"][0]
    startup = (
        f"it does so in the first {default['startupSeconds']} s of the first generation "
        "(`startupSeconds`), or once too often"
    )
    assert rows[startup][1] == f"after these {settle}, {SETTLE:g} s or {OF_PODS:g} s"
    assert rows["an instance is not ready in time"][1].endswith(f", {limits.gang:g} s")
    assert rows["the package's script does not start an instance in time"][1] == (
        f"`commandScript.timeout`, {default['timeout']} s"
    )
    text = " ".join((REPOSITORY / "docs" / "failures.md").read_text().split())
    for key in ("maxRestarts", "maxInfrastructureRestarts"):
        assert f"`{key}`, {default[key]}" in text


def test_both_set_up_commands_begin_alike():
    assert TRAIN.splitlines()[0] == TEST.splitlines()[0]
    assert TEST.splitlines()[1:] == [
        ".venv/bin/pip install -e '.[tensorflow,test]' &&",
        ".venv/bin/pytest -n 3",
    ]
    assert TRAIN.splitlines()[1] == ".venv/bin/pip install -e '.[tensorflow]' &&"


def test_ci_takes_its_test_command_from_here():
    program = (REPOSITORY / ".ci" / "run").read_text()
    extract = next(line for line in program.splitlines() if line.startswith("command=$(awk"))
    done = bash(f'{extract}\nprintf "%s\\n" "$command"', REPOSITORY)
    assert done.stdout == TEST


@pytest.mark.weekly
@pytest.mark.trains
def test_the_guide_works_as_it_stands(tmp_path):
    (tmp_path / "work").mkdir()
    done = bash("".join(GUIDE), tmp_path / "work", TFAPP_HOME=str(tmp_path / "home"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "work" / "spec.yaml").is_file()
    assert sorted(path.name for path in (tmp_path / "home" / "apps").iterdir()) == ["quick"]


@pytest.mark.trains
def test_getting_started_works_as_it_stands(tmp_path):
    text = (REPOSITORY / "docs" / "getting-started.md").read_text(encoding="utf-8")
    (tmp_path / "work").mkdir()
    script = "".join(re.findall(r"(?ms)^```sh\n(.*?)^```$", text))
    done = bash(script, tmp_path / "work", TFAPP_HOME=str(tmp_path / "home"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "I am worker 1 and save in " in done.stdout
    assert "changed" in done.stdout
    assert list((tmp_path / "home" / "apps").iterdir()) == []


@pytest.mark.skipif(not shutil.which("apt-get"), reason="this machine has no apt-get")
def test_the_set_up_asks_for_what_debian_splits_off():
    assert "apt-get install -y python3-venv" in SET_UP
