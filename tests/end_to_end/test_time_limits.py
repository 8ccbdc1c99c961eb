"""Each time limit has a verdict of its own: exit code 67, and the name of what was missing. A
program that makes no progress for too long is a failure like others."""

import re
import shutil

import pytest

from tests.end_to_end.command_line import PLAIN_PACKAGE
from tests.end_to_end.trainings import COUNTING

pytestmark = pytest.mark.slow

HANGS = """
import signal
from tfapp.script import Program, Script
class A(Script):
    def {call}(self, context):
        if context.index == 1:
            signal.pause()  # for ever
        return Program((context.python, str(context.files_dir / "program.py")))
"""
FOREVER = "import signal\nsignal.pause()\n"

LIMITS = {
    "gang": (
        HANGS.format(call="prepare"),
        ("site.global.gang.timeout", 8),
        r"not all instances were ready 8 s after generation 1 began\. Missing: worker/1 \(its "
        r"container worker_\d runs on 127\.0\.0\.1, but its runner has not answered\)\. The limit "
        r"is site\.global\.gang\.timeout\.",
    ),
    "start": (
        HANGS.format(call="start"),
        (),
        r"worker/1 on 127\.0\.0\.1 was not started in generation 1: scripts/plain\.py: start\(\) "
        r"did not return within 5 s\. The limit is commandScript\.timeout of worker\.",
    ),
    "lifetime": (
        "",
        ("site.global.application.lifetime", 3),
        r"the application ran for its whole lifetime of 3 s\. The limit is "
        r"site\.global\.application\.lifetime\.",
    ),
}


@pytest.mark.parametrize(("script", "option", "summary"), LIMITS.values(), ids=LIMITS)
def test_a_limit_that_runs_out(tfapp, script, option, summary):
    folder = shutil.copytree(PLAIN_PACKAGE, tfapp.work / "package")
    metainfo = folder / "metainfo.yaml"
    seconds = 600 if option else 5
    limited = metainfo.read_text().replace("PYTHON}", f"PYTHON, timeout: {seconds}}}")
    metainfo.write_text(limited.replace("{maxRestarts: 0}", "{maxRestarts: 3}"))
    if script:
        (folder / "scripts" / "plain.py").write_text(script)
    (folder / "files" / "program.py").write_text(FOREVER)
    options = ("--option", *option) if option else ()
    ended = tfapp("create", "app", "--appdef", folder, *options)
    assert (ended.code, tfapp.living()) == (67, [])
    assert re.fullmatch(f"app: Timed out: {summary}", ended.err.splitlines()[-1])
    verdict = tfapp.status("app")["status"]["verdict"]
    assert (verdict["state"], verdict["exit_code"]) == ("FAILED", 67)
    assert re.fullmatch(f"Timed out: {summary}", verdict["summary"])
    assert re.search(f"Timed out: {summary}", tfapp.asks("diagnostics", "app"))
    assert re.search(f"Timed out: {summary}", tfapp.asks("status", "app"))
    if verdict["cause"]["exit"]["reason"] == "timeout":
        assert "signal.pause()  # for ever" in verdict["cause"]["last_lines"]


# In generation 1 everybody falls silent; a parameter server may.
STALLS = """
import os, time
from pathlib import Path
first = os.environ["TFAPP_GENERATION"] == "1"
for _ in range(1 if first else 8):
    if os.environ["TFAPP_INSTANCE"] == "worker/0":
        print("trains", flush=True)
    Path(os.environ["TFAPP_PROGRESS_FILE"]).touch()
    time.sleep(1)
if first and os.environ["TFAPP_ROLE"] != "ps":
    time.sleep(600)
"""


def test_a_program_that_makes_no_progress(tfapp):
    tfapp.program(STALLS)
    flags = ("--appdef", COUNTING, "--files", "program.py")
    tfapp.ok("create", "app", *flags, "--option", "site.global.progress.timeout", 4)
    assert tfapp.living() == []
    status = tfapp.status("app")["status"]
    assert (status["generation"], status["restarts"]) == (2, 1)
    (hung,) = [m["text"] for m in status["timeline"] if "hung" in m["text"]]
    assert re.fullmatch(
        r"(chief|worker)/\d on 127\.0\.0\.1 hung in generation 1, [0-9.]+ s after its start: for "
        r"4 s it wrote nothing, .* \(site\.global\.progress\.timeout\)\. Before its end, .* are in "
        r"<module> at program\.py:11.*",
        hung,
    )


MISSED = """
import os, time
def collective():
    time.sleep(600)
if os.environ["TFAPP_INSTANCE"] == "worker/0":
    collective()
"""


def test_a_peer_that_has_ended_is_named_by_who_waits_for_it(tfapp):
    tfapp.program(MISSED)
    flags = ("--appdef", PLAIN_PACKAGE, "--files", "program.py", "--component", "worker", 2)
    ended = tfapp("create", "app", *flags, "--option", "site.global.progress.timeout", 4)
    assert (ended.code, tfapp.living()) == (65, [])
    summary = tfapp.status("app")["status"]["verdict"]["summary"]
    assert "worker/0 is in collective at program.py:4; worker/1 (exit code 0) has ended" in summary
