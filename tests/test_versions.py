"""Commands of this tfapp and applications of the last release, and the other way round. All of an
application is one version, but for its master after a `start`."""

import json

import pytest

from tests import wheel
from tests.end_to_end.command_line import LIMIT, CommandLine
from tests.waiting import wait

PROGRAM = """
import pathlib, os, signal, sys
print("generation", os.environ["TFAPP_GENERATION"], flush=True)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
signal.pause()
"""


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    return wheel.released(tmp_path_factory.mktemp("released"))


@pytest.fixture
def new(tmp_path, tfapp_home):
    command_line = CommandLine(tmp_path, tfapp_home)
    yield command_line
    command_line.kill_living()


@pytest.mark.slow
@pytest.mark.parametrize("newer", [True, False], ids=["newer-command", "older-command"])
def test_each_serves_the_other(newer, released, new, tmp_path, tfapp_home):
    old = CommandLine(tmp_path, tfapp_home, program=(str(released.parent / "tfapp"),))
    serves_the_other(*((old, new) if newer else (new, old)))
    assert new.living() == []


def serves_the_other(creator: CommandLine, tfapp: CommandLine, *flags: object) -> None:
    """`tfapp` is of another version than the `creator` of the application. `flags`: of `run`."""
    creator.program(PROGRAM)
    workers = ("-w", 2, "--name", "app", "--tag", "t", *flags, "--detach", "--wait", LIMIT)
    creator.ok("run", "program.py", *workers)
    assert tfapp.names() == ["app"]
    found = tfapp.status("app")
    assert (found["status"]["state"], found["tags"], found["run"]) == ("RUNNING", ["t"], 1)
    assert [i["state"] for i in found["status"]["instances"]] == ["RUNNING"] * 2
    assert "worker/1" in tfapp.ok("status", "app")
    assert "generation 1 starts" in tfapp.ok("diagnostics", "app")
    wait(lambda: "generation 1" in tfapp.ok("logs", "app", "worker/1"), "no output", LIMIT)
    exports = json.loads(tfapp.ok("exports", "app", "--format", "json"))["exports"]
    assert {export["instance"] for export in exports} == {"worker/0", "worker/1"}
    tfapp.ok("kill-container", "app", "worker/1")
    wait(lambda: tfapp.status("app")["status"]["generation"] == 2, "not again", LIMIT)
    tfapp.ok("report", "app", "-o", "report.html")
    tfapp.ok("stop", "app")
    assert creator("wait", "app").code == 66
    # Its containers are those of the version that has created it, the master is of this one.
    tfapp.ok("start", "app", "--detach", "--wait", LIMIT)
    for each in (creator, tfapp):
        found = each.status("app")
        assert (found["run"], found["status"]["state"]) == (2, "RUNNING")
    creator.ok("stop", "app")
    tfapp.ok("run", "program.py", *workers, "--replace")
    creator.ok("stop", "app", "--force")
    creator.ok("destroy", "app")
    assert tfapp.names() == []
