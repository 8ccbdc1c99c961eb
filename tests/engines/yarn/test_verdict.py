"""Verdicts on applications that ended, for each way in which YARN ends them."""

from __future__ import annotations

import dataclasses
import re

import pytest

from tfapp.contract.names import ACCEPTED, REQUESTED
from tfapp.contract.status import ApplicationStatus, InstanceStatus, Verdict, format_diagnostics
from tfapp.engines.yarn.cluster import YarnReport
from tfapp.engines.yarn.verdict import ended, waiting

WORKER = InstanceStatus("worker/0", "worker", "worker", REQUESTED)
LAST = ApplicationStatus("app", ACCEPTED, 0, 100.0, 100.0, (WORKER,))
REPORT = YarnReport(
    id="application_1_0001",
    name="app",
    user="me",
    tags=("tfapp",),
    state="FINISHED",
    final_status="SUCCEEDED",
    diagnostics="",
    address="",
    tracking_url="",
    started=100.0,
    finished=200.0,
)
DONE = dataclasses.replace(LAST, state="SUCCEEDED", verdict=Verdict("SUCCEEDED", 0, "Done."))


def report(state: str, final_status: str, diagnostics: str) -> YarnReport:
    return dataclasses.replace(
        REPORT, state=state, final_status=final_status, diagnostics=diagnostics
    )


def test_the_coordinators_word_is_the_verdict():
    assert ended(report("FINISHED", "SUCCEEDED", format_diagnostics(DONE)), LAST) == DONE


@pytest.mark.parametrize(
    ("diagnostics", "words"),
    [
        ("", ""),
        ("[Sun Nov 22] Queue's AM limit exceeded. Details : AM = 1;", "Queue's AM limit exceeded."),
        ("AM container is launched, waiting.", "AM container is launched, waiting."),
    ],
)
def test_what_an_application_waits_for(diagnostics, words):
    assert waiting(report("ACCEPTED", "UNDEFINED", diagnostics)) == words
    assert waiting(report("FAILED", "FAILED", diagnostics)) == ""


def test_a_verdict_that_was_published_stands_though_it_was_killed_then():
    assert ended(report("KILLED", "KILLED", "killed by user me"), DONE) == DONE


@pytest.mark.parametrize(
    ("state", "final", "diagnostics", "verdict"),
    [
        (
            "KILLED",
            "KILLED",
            "[Fri Nov 20 13:00:00 +0000 2026]Application a was killed by user me at 127.0.0.1",
            Verdict(
                "KILLED",
                66,
                "Stopped through YARN: Application a was killed by user me at 127.0.0.1",
            ),
        ),
        ("FINISHED", "KILLED", "stopped by Ctrl-C", Verdict("KILLED", 66, "stopped by Ctrl-C")),
        (
            "FAILED",
            "FAILED",
            "Application a failed 1 times due to AM Container exited with exitCode: -100\nMore",
            Verdict(
                "FAILED",
                65,
                "It ended without a verdict: Application a failed 1 times due to AM Container "
                "exited with exitCode: -100. Its master was lost with its node (exit code -100). "
                "`tfapp logs app coordinator --engine yarn` may say why. `tfapp start app --engine "
                "yarn` runs it again.",
            ),
        ),
        (
            "FINISHED",
            "SUCCEEDED",
            "",
            Verdict(
                "FAILED",
                65,
                "It ended without a verdict: it gave no reason. `tfapp logs app coordinator "
                "--engine yarn` may say why. `tfapp start app --engine yarn` runs it again.",
            ),
        ),
    ],
    ids=["killed", "told-to-end", "master-lost", "no-words"],
)
def test_without_a_word_of_the_coordinator_yarns_counts(state, final, diagnostics, verdict):
    status = ended(report(state, final, diagnostics), LAST)
    assert (status.state, status.verdict) == (verdict.state, verdict)
    assert [instance.state for instance in status.instances] == ["KILLED"]
    assert status.updated == 200.0
    assert (status.generation, status.restarts, status.losses) == (None, None, None)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (-100, "Its master was lost with its node (exit code -100). "),
        (-101, "The disks of its master's node have failed (exit code -101). "),
        (-102, "Its master was preempted for another queue (exit code -102). "),
        (-104, "Its master was killed: its container used more memory than it had asked for; "),
        (137, "Its master was killed by SIGKILL (exit code 137). "),
        (-1009, ""),
        (1370, ""),
        (1, ""),
    ],
)
def test_a_lost_master_is_explained_with_the_way_out(code, said):
    last = dataclasses.replace(LAST, checkpoint_dir="/mnt/app")
    words = f"due to AM Container for a exited with  exitCode: {code}"
    status = ended(report("FAILED", "FAILED", f"{words}\nMore"), last)
    assert status.verdict is not None
    summary = status.verdict.summary
    assert summary.startswith(f"It ended without a verdict: {words}. {said}")
    assert summary.endswith(
        "`tfapp start app --engine yarn` goes on from the checkpoints in /mnt/app."
    )
    numbers = re.findall(r"exit code -?\d+", summary)
    assert numbers == ([f"exit code {code}"] if "exit code" in said else [])


def test_what_was_published_last_is_not_forgotten():
    last = dataclasses.replace(LAST, generation=3, restarts=2)
    status = ended(report("FAILED", "FAILED", "driver failed"), last)
    assert (status.generation, status.restarts, status.losses) == (3, 2, 0)


UNFETCHED = (
    "Application application_1_0001 failed 1 times (global limit =2; local limit is =1) due to AM "
    "Container for appattempt_1_0001_000001 exited with  exitCode: -1000\n"
    "Failing this attempt.Diagnostics: [2026-11-22 01:44:43.010]\n"
    "java.lang.reflect.UndeclaredThrowableException\n"
    "\tat org.apache.hadoop.security.UserGroupInformation.doAs(UserGroupInformation.java:1969)\n"
    "Caused by: org.apache.hadoop.yarn.exceptions.YarnException: Download and unpack failed\n"
    "Caused by: java.io.IOException: {}\n"
    "\tat org.apache.hadoop.fs.FileUtil.runCommandOnStream(FileUtil.java:964)\n"
    "\t... 17 more\n"
)


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        (
            "Error executing command. gzip -dc | (cd '/data/filecache/11_tmp/env.tar.gz' && "
            "tar -x ) Process exited with exit code 2.",
            "its node could not unpack env.tar.gz: it is no whole .tar.gz archive",
        ),
        (
            "File does not exist: hdfs://n:9000/env.tgz",
            "its node could not fetch its files: File does not exist: hdfs://n:9000/env.tgz",
        ),
    ],
)
def test_files_that_do_not_come_to_a_node(cause, said):
    status = ended(report("FAILED", "FAILED", UNFETCHED.format(cause)), LAST)
    assert status.verdict == Verdict(
        "FAILED", 65, f"Failed: its coordinator could not be started: {said}."
    )


def test_a_coordinator_that_could_not_start():
    words = "Application driver failed with exit code 78, see logs for more information."
    status = ended(report("FINISHED", "FAILED", words), LAST, "there is no Python")
    assert status.verdict == Verdict(
        "FAILED", 65, "Failed: its coordinator could not be started: there is no Python."
    )
    assert (status.generation, status.restarts, status.losses) == (0, 0, 0)


def test_the_message_of_who_has_asked_yarn_to_kill_it():
    killed = report("KILLED", "KILLED", "Application a was killed by user me at 127.0.0.1")
    status = ended(killed, LAST, asked="enough")
    assert status.verdict == Verdict("KILLED", 66, "enough")


def test_the_last_of_several_masters():
    words = "Application a failed 2 times due to AM Container exited with exitCode: 137"
    summary = ended(report("FAILED", "FAILED", words), LAST).verdict.summary
    assert summary.startswith(
        f"It ended without a verdict: {words}. Its master was killed by SIGKILL (exit code 137). "
        "It had 2 masters, and gets no more: site.global.master.attempts, or YARN's own limit. "
    )
