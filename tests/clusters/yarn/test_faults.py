"""Whatever fails on a real cluster: the training goes on, or the verdict says why not."""

import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clusters.yarn import programs
from tests.clusters.yarn.conftest import ask_for_staged, recorded, staged
from tests.end_to_end import trainings
from tests.end_to_end.trainings import (
    COORDINATOR,
    RUNNER,
    TENSORFLOW,
    Application,
    Counting,
    Digits,
    wait_until,
    with_policy,
)
from tfapp.contract.encoding import encode
from tfapp.engines.yarn import hadoop_fs
from tfapp.engines.yarn.attempts import Attempt
from tfapp.errors import UnavailableError

pytestmark = pytest.mark.usefixtures("nothing_left")

JAVA = "\0com.anaconda.skein.ApplicationMaster\0"
LOST_AND_BACK = "the application's master was lost and is back"
HOSTS = {"127.0.0.2", "127.0.0.3"}

# Checkpoints stay in the containers.
OWN_FOLDERS = ("--option", "site.global.storage", "false")

# Saves its steps. In its first generation it does not end.
SAVES_STEPS = """
import os, pathlib, time
file = pathlib.Path(os.environ["TFAPP_CHECKPOINT_DIR"], "step")
file.parent.mkdir(parents=True, exist_ok=True)
step = int(file.read_text()) if file.exists() else 0
print("goes on at step", step, flush=True)
while step < 5 or os.environ["TFAPP_GENERATION"] == "1":
    step += 1
    print("step", step, flush=True)
    new = file.with_name("new")
    new.write_text(str(step))
    new.replace(file)  # whoever is killed leaves a whole one
    time.sleep(0.2)
"""


HANGS = """
import time
def load():
    time.sleep(600)
print("begins", flush=True)
load()
"""


class Script(Application):
    """One worker that runs a script. `policy`: its failurePolicy, as YAML in one line."""

    def __init__(
        self,
        tfapp,
        name: str,
        text: str,
        *flags: object,
        policy: str = "{}",
        memory: int = 256,
        wait: bool = True,
    ):
        folder = with_policy(TENSORFLOW, tfapp.work / name, policy)
        (folder / "files" / "train.py").write_text(text)
        super().__init__(
            tfapp,
            name,
            *("--appdef", folder, "--component", "worker", 1),
            *("--rescompopt", "worker", "yarn.memory", memory),
            *OWN_FOLDERS,
            *flags,
            wait=wait,
        )


def of_yarn(cluster, application: Application) -> dict[str, str]:
    """YARN's own report of an application."""
    id = application.tfapp.status(application.name)["id"]
    return json.loads(cluster.web(f"apps/{id}"))["app"]


def test_two_workers_survive_a_killed_program_and_a_lost_node(tfapp, cluster, tmp_path):
    """An instance of the node gets another container elsewhere, and the digits are learned. Its
    log is missing meanwhile, the other's is shown."""
    anew = without_a_shared_folder(tfapp)
    digits = Digits(tfapp, tmp_path, "digits-multiworker", name="bereft")
    all_begin_anew(anew)
    digits.trains()
    assert {i["host"] for i in digits.status()["instances"]} == HOSTS
    instances = {i["host"]: i["instance"] for i in digits.status()["instances"]}
    lost, node = beside_the_master(cluster, digits)
    (other,) = set(instances.values()) - {instances[lost]}
    cluster.kill_node(node)
    try:
        logs = tfapp("logs", "bereft")
        assert (logs.code, instances[lost] in logs.out, other in logs.out) == (0, False, True)
        assert f"{instances[lost]}: its log cannot be read now: {lost}:" in logs.err
        status = digits.forms(2)
        assert lost not in {i["host"] for i in status["instances"]}
        digits.trains()
    finally:
        cluster.start_node(node)
    status = digits.enough()
    assert (status["generation"], status["restarts"], status["losses"]) == (2, 0, 1)
    assert [i["instance"] for i in status["instances"]] == ["worker/0", "worker/1"]
    trainings.assert_continued(digits.epochs(other), generations=2)


def without_a_shared_folder(tfapp) -> Application:
    """Two workers, each with checkpoints in its own container."""
    folder = with_policy(TENSORFLOW, tfapp.work / "anew", "{startupSeconds: 0}")
    (folder / "files" / "train.py").write_text(SAVES_STEPS)
    flags = ("--component", "worker", 2, "--rescompopt", "worker", "yarn.memory", 256)
    return Application(tfapp, "anew", "--appdef", folder, *flags, *OWN_FOLDERS)


def all_begin_anew(application: Application) -> None:
    """After a killed program none goes on from checkpoints that the others do not have."""
    for worker in ("worker/0", "worker/1"):
        wait_until(lambda worker=worker: "\nstep 3\n" in application.log(worker), application.told)
    application.signal("worker/1", "files/train.py")
    status = application.wait_for_end(0)
    assert status["verdict"]["summary"].endswith(
        " It was restarted once before. Generation 2 began with empty checkpoint folders "
        "(site.global.user.checkpoint.prefix is not set)."
    )
    for worker in ("worker/0", "worker/1"):
        log = application.log(worker)
        assert re.findall("^goes on at step (.*)$", log, re.MULTILINE) == ["0", "0"], log
        assert "its checkpoint folder is emptied: no other instance sees it" in log


def beside_the_master(cluster, application: Application) -> tuple[str, int]:
    """A host of the application on which its application master is not, and its node's number."""
    master = of_yarn(cluster, application)["amHostHttpAddress"].partition(":")[0]
    host = min({i["host"] for i in application.status()["instances"]} - {master})
    return host, int(host.rpartition(".")[2]) - 1


def test_what_ends_an_application(tfapp, cluster, colleague):
    """Three applications at once, to save time: the same failure until the budget is spent, too
    much memory, and as many masters as YARN allows, which is two."""
    failing = "import sys\nprint('no such data set', file=sys.stderr)\nsys.exit(3)\n"
    policy = "{maxRestarts: 1, startupSeconds: 0, endOnRepeatedFailure: false}"
    spent = Script(tfapp, "spent", failing, policy=policy, wait=False)
    label = ("--rescompopt", "worker", "yarn.label.expression", "special")
    greedy = Script(tfapp, "greedy", programs.GREEDY, *label, policy="{maxRestarts: 0}", wait=False)
    masterless = Script(tfapp, "masterless", programs.GOES_ON)
    os.kill(tfapp.process("masterless", "", COORDINATOR), signal.SIGKILL)

    status = spent.wait_for_end(65)
    verdict, cause = status["verdict"], status["verdict"]["cause"]
    assert (status["generation"], status["restarts"], status["losses"]) == (2, 1, 0)
    assert re.fullmatch(
        r"Failed: worker/0 on 127\.0\.0\.\d ended with exit code 3 in generation 2, .* s after its "
        r"start: no such data set\. It was not restarted again: that was done once "
        r"\(failurePolicy.maxRestarts\)\.",
        verdict["summary"],
    )
    assert (cause["instance"], cause["exit"]["code"]) == ("worker/0", 3)
    assert cause["host"] in HOSTS
    assert cause["last_lines"] == "no such data set"
    theirs = colleague.status("spent")["status"]["verdict"]
    assert theirs["summary"] == verdict["summary"]
    assert theirs["cause"]["last_lines"] == "no such data set"
    said = of_yarn(cluster, spent)
    assert (said["state"], said["finalStatus"]) == ("FINISHED", "FAILED")
    assert said["diagnostics"].startswith(verdict["summary"])
    assert len(said_attempts(cluster, spent)) == 1, "a verdict ends the application at once"

    status = greedy.wait_for_end(65)
    assert re.fullmatch(
        r"Failed: worker/0 on 127\.0\.0\.4 was killed for its memory \([0-9.]+ [MG]B of 256 MB "
        r"physical memory used\) in generation 1\.",
        status["verdict"]["summary"],
    )
    assert status["verdict"]["cause"]["exit"]["reason"] == "memory"

    status = masterless.forms(2)
    assert (status["restarts"], status["losses"]) == (0, 1)
    assert LOST_AND_BACK in masterless.told()
    id = tfapp.status("masterless")["id"]  # what it has written down is known after its end
    wait_until(lambda: (recorded(cluster, id) or {}).get("generation") == 2, masterless.told)
    os.kill(tfapp.process("masterless", "", JAVA), signal.SIGKILL)
    status = masterless.wait_for_end(65)
    assert (status["generation"], status["restarts"], status["losses"]) == (2, 0, 1)
    summary = status["verdict"]["summary"]
    assert summary.startswith("It ended without a verdict: Application application_")
    assert "exitCode: 137. Its master was killed by SIGKILL (exit code 137). " in summary
    assert " It had 2 masters, and gets no more: site.global.master.attempts" in summary
    assert summary.endswith("`tfapp start masterless --engine yarn` runs it again.")
    assert of_yarn(cluster, masterless)["state"] == "FAILED"


def test_a_record_that_comes_too_late_makes_no_folder(cluster):
    """Of an application that has ended, somebody else has deleted it."""
    id = "application_1700000000000_0007"
    container = {"SKEIN_APPLICATION_ID": id, "CONTAINER_ID": f"container_{id[12:]}_01_000002"}
    environ = {**cluster.environ(), **container}
    attempt = Attempt(environ, f"{cluster.folder}/conf,{cluster.folder}/jars/*")
    with pytest.raises(UnavailableError, match=rf"\A\.skein/{id} is not there\Z"):
        attempt.write(b'{"is": "late"}')
    assert id not in staged(cluster)
    ask_for_staged(cluster, f"{id}?op=MKDIRS&", "PUT")
    attempt.write(encode({"is": "in time: <Größe>"}))
    assert json.loads(attempt.read()) == {"is": "in time: <Größe>"}
    ask_for_staged(cluster, f"{id}?op=DELETE&recursive=true&", "DELETE")


def test_a_killed_master_is_followed_by_another_that_goes_on(tfapp, cluster, tmp_path):
    """From its checkpoint, without a person."""
    digits = Digits(tfapp, tmp_path, "digits-multiworker", name="led")
    digits.trains()
    before = digits.trained()
    os.kill(tfapp.process("led", "", JAVA), signal.SIGKILL)
    status = digits.forms(2)
    assert (status["restarts"], status["losses"], status["verdict"]) == (0, 1, None)
    told = [moment["text"] for moment in status["timeline"]]
    assert told.count(LOST_AND_BACK) == 1
    digits.trains()
    assert digits.trained() > before
    status = digits.enough()
    assert (status["generation"], status["restarts"], status["losses"]) == (2, 0, 1)
    trainings.assert_continued(digits.epochs("worker/0"), generations=2)
    assert of_yarn(cluster, digits)["finalStatus"] == "SUCCEEDED"


DOES_NOT_END = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("begins", flush=True)
time.sleep(600)
"""


def test_a_decided_verdict_stays_when_the_master_is_killed(tfapp, cluster, user):
    """Its program is being stopped: no other master starts it again."""
    grace = ("--option", "site.global.stop.grace", 300)
    script = Script(tfapp, "decided", DOES_NOT_END, *grace)
    wait_until(lambda: "begins" in script.log("worker/0"), script.told)
    id = tfapp.status("decided")["id"]
    with user.start("stop", "decided", "--message", "enough") as stop:
        wait_until(lambda: is_decided(cluster, id), script.told)
        os.kill(tfapp.process("decided", "", JAVA), signal.SIGKILL)
        status = script.wait_for_end(66)
        assert stop.wait(trainings.LIMIT) == 0
    assert (status["generation"], status["losses"]) == (1, 0)
    assert status["verdict"]["summary"] == "Killed: enough."
    said = of_yarn(cluster, script)
    assert (said["state"], said["finalStatus"]) == ("FINISHED", "KILLED")
    assert said["diagnostics"].startswith("Killed: enough.\n")
    assert len(said_attempts(cluster, script)) == 2
    assert script.log("worker/0").count("begins\n") == 1


def is_decided(cluster, id: str) -> bool:
    """Whether the verdict of an application that YARN calls `id` is in its record."""
    words = ["-cat", f".skein/{id}/tfapp-record.*"]
    lines = hadoop_fs.run(cluster.environ(), words).out.split(b"\n")
    return any(json.loads(line.split(b" ", 2)[2])["record"]["verdict"] for line in lines if line)


def said_attempts(cluster, application: Application) -> list[dict]:
    id = application.tfapp.status(application.name)["id"]
    return json.loads(cluster.web(f"apps/{id}/appattempts"))["appAttempts"]["appAttempt"]


@pytest.mark.weekly
def test_containers_that_end_come_and_go_and_a_host_that_pauses(tfapp, cluster, tmp_path):
    training = Counting(tfapp, tmp_path / "checkpoints")
    training.counted("worker/0")

    def killed_by_yarn() -> None:
        environ = Path(f"/proc/{training.process('worker/1')}/environ").read_bytes().decode()
        container = re.search(r"\0CONTAINER_ID=(\w+)\0", environ).group(1)
        cluster.web(f"containers/{container}/signal/FORCEFUL_SHUTDOWN", {})

    def flexed(by: str) -> Callable[[], object]:
        return lambda: tfapp.ok("flex", "app", "--component", "worker", by)

    disturbances: tuple[tuple[Callable[[], object], set[str]], ...] = (
        (killed_by_yarn, {"worker/1"}),
        (lambda: training.signal("worker/1", RUNNER), {"worker/1"}),
        (lambda: tfapp.ok("kill-container", "app", "worker/1"), {"worker/1"}),
        (flexed("+1"), {"worker/2"}),
        (flexed("-1"), set()),
    )
    for generation, (disturb, replaced) in enumerate(disturbances, 2):
        before = training.containers()
        disturb()
        training.forms(generation)
        assert training.replaced(before) == replaced
    began = [generation for generation, _ in training.beginnings("worker/1")]
    assert began == [1, 2, 3, 4, 5, 6]

    # The NodeManager and all of its containers stand still, as when a machine does.
    paused, node = beside_the_master(cluster, training)
    old = cluster.container_processes(node)
    cluster.pause_node(node)
    try:
        for process in old:
            process.send(signal.SIGSTOP)
        training.forms(7)
        now = training.instances()
        steps = training.counted("worker/0")
        assert paused not in {i["host"] for i in now.values()}
    finally:
        for process in old:
            process.send(signal.SIGCONT)
        cluster.resume_node(node)
    wait_until(lambda: not any(process.alive() for process in old), lambda: old)
    assert training.replaced({name: i["container"] for name, i in now.items()}) == set()
    wait_until(lambda: training.counted("worker/0") > steps, training.told)
    # A node that has just come back may take a moment to tell what its containers wrote.
    wait_until(
        lambda: [begun for begun, _ in training.beginnings("worker/0")] == [*range(1, 8)],
        lambda: training.tfapp("logs", "app", "worker/0"),
    )
    assert training.enough().endswith(" It was restarted 4 times before.")
    status = training.status()
    assert (status["generation"], status["restarts"], status["losses"]) == (7, 3, 1)
    lost = "was lost in generation 6: nothing was heard of it for 40 s: Container released on a "
    assert lost in training.told()


def test_a_preempted_container(tfapp):
    """The other queue takes back what it is entitled to, and lends it again."""
    flags = ("--component", "worker", 3, "--queue", "batch")
    borrower = Script(tfapp, "borrower", programs.GOES_ON, *flags, memory=4000)
    before = borrower.containers()
    Script(tfapp, "owner", programs.GOES_ON, memory=4000)
    tfapp.ok("stop", "owner", "--force")
    status = borrower.forms(2)
    assert len(borrower.replaced(before)) == 1
    assert (status["restarts"], status["losses"]) == (0, 1)
    assert (
        "was lost in generation 1: its container ended without a report: Container preempted by "
        "scheduler\n"
    ) in borrower.told()
    tfapp.ok("stop", "borrower", "--force")


def test_stop_gives_time_to_save(tfapp, tmp_path):
    """Longer than YARN would; and not longer than `site.global.stop.grace`."""
    prefix = ("--option", "site.global.user.checkpoint.prefix", tmp_path)
    grace = ("--option", "site.global.stop.grace", 7)
    training = Script(tfapp, "saving", programs.SAVES, *prefix, *grace)
    wait_until(lambda: "goes on at step 0" in training.log("worker/0"), training.told)
    tfapp.ok("stop", "saving", "--message", "enough for today")
    status = training.wait_for_end(66)
    assert status["verdict"]["summary"] == "Killed: enough for today."
    (instance,) = status["instances"]
    assert (instance["state"], instance["exit"]["text"]) == ("SUCCEEDED", "exit code 0")
    saved = int((tmp_path / "saving" / "step").read_text())
    tfapp.ok("start", "saving", "--detach", "--wait", trainings.LIMIT)
    assert tfapp.status("saving")["run"] == 2
    wait_until(lambda: f"goes on at step {saved}" in training.log("worker/0"), training.told)
    tfapp.ok("stop", "saving")
    (instance,) = training.wait_for_end(66)["instances"]
    assert (instance["state"], instance["exit"]["text"]) == ("KILLED", "killed by SIGKILL (9)")


@pytest.mark.weekly
def test_a_program_that_hangs_is_asked_where_and_says_it_before_its_end(tfapp):
    option = ("--option", "site.global.progress.timeout", 25)
    hangs = Script(tfapp, "hangs", HANGS, *option, policy="{maxRestarts: 0}")
    there = [{"place": "load at train.py:4", "instances": ["worker/0"]}]

    def places() -> object:
        return json.loads(tfapp.asks("stacks", "hangs", "--format", "json"))["groups"]

    wait_until(lambda: places() == there, hangs.status)
    verdict = hangs.wait_for_end(65)["verdict"]
    assert (verdict["state"], verdict["cause"]["exit"]["reason"]) == ("FAILED", "hang")
    assert "Before its end, worker/0 is in load at train.py:4" in verdict["summary"]
