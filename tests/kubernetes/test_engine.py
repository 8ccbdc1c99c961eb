"""Applications on a real cluster, by the commands that people use."""

from __future__ import annotations

import json
import random
import re
import signal
from pathlib import Path

import pytest

from tests import python_environments
from tests.end_to_end.command_line import STAMP, read_until
from tests.kubernetes import pod_images
from tests.kubernetes.command import FRUGAL, OnKubernetes
from tests.kubernetes.namespace import wait_for
from tests.page.applications import embedded
from tests.yarn import programs

# Ends when its file is there, which all pods see.
UNTIL = """
import os, pathlib, time
print("begins in generation", os.environ["TFAPP_GENERATION"], flush=True)
count = 0
while not pathlib.Path("{enough}").exists():
    print("counts", count := count + 1, flush=True)
    time.sleep(0.5)
"""
TELLS_SIZE = """
import os, pathlib, sys
print("the file has", pathlib.Path("large").stat().st_size)
print("runs in", os.path.relpath(sys.prefix, os.environ["TFAPP_WORK_DIR"]))
"""


def environment(folder: Path) -> Path:
    """An archive for pods: Debian's Python, with what the image of TensorFlow has, too."""
    made = python_environments.make(folder / "environment")
    for link in ("python", "python3"):
        (made / "bin" / link).unlink()
        (made / "bin" / link).symlink_to("/usr/bin/python3")
    (made / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (site,) = made.glob("lib/python3*/site-packages")
    (site / "pods.pth").write_text("".join(f"{place}\n" for place in pod_images.FOLDERS))
    return python_environments.pack(made, folder / "environment.tgz")


@pytest.fixture
def tfapp(cluster, namespace, tmp_path):
    """Afterwards there is nothing, not even where the test has failed."""
    tfapp = OnKubernetes(tmp_path, tmp_path / "home", cluster, namespace)
    yield tfapp
    listed = json.loads(tfapp.ok("list", "--format", "json"))["applications"]
    running = [a["name"] for a in listed if a["live"]]
    for name in running:
        tfapp.ok("stop", name, "--force")
    assert running == []


def test_two_workers_on_two_nodes(tfapp, tmp_path):
    """And files that no Secret holds: one is an environment of the workers alone."""
    (tmp_path / "large").write_bytes(random.Random(1).randbytes(3_000_000))
    script = tfapp.program(programs.RETURNS + programs.HELLO + TELLS_SIZE)
    done = tfapp(
        *("run", script, "-w", 2, "--name", "hello", "--tag", "attempt-7"),
        *("--files", tmp_path / "large", *FRUGAL),
        *("--compopt", "worker", "site.global.python.archive", environment(tmp_path)),
    )
    assert done.code == 0, done.err
    status = tfapp.status("hello")
    hosts = {i["instance"]: i["host"] for i in status["status"]["instances"]}
    assert (status["live"], status["run"], status["engine"]) == (False, 1, "kubernetes")
    pods = tfapp.pods("hello")
    assert sorted(pods) == ["", "worker-0", "worker-1"]
    assert {pod["spec"]["nodeName"] for pod in pods.values()} == {"node1", "node2"}
    labels = [pod["metadata"]["labels"] for pod in pods.values()]
    assert {each["training_attempt"] for each in labels} == {"attempt-7"}
    assert hosts["worker/1"] == pods["worker-1"]["status"]["podIP"]
    # What the first worker wrote has been shown, and every log can be had afterwards.
    written = re.findall(r"^TF_CONFIG is (.*)$", done.out, re.MULTILINE)
    assert [json.loads(text)["task"] for text in written] == [{"type": "worker", "index": 0}]
    assert "the file has 3000000\nruns in ../tfapp-python\n" in done.out
    colleague = tfapp.elsewhere(tmp_path / "elsewhere")
    for there in (tfapp, colleague):
        logs = there.ok("logs", "hello")
        assert len(re.findall(r"^worker/[01] \| TF_CONFIG is ", logs, re.MULTILINE)) == 2
        assert "tfapp: returned" not in logs
        timed = there.ok("logs", "hello", "--timestamps", "--since", "1h")
        assert len(re.findall(rf"^worker/[01] \| {STAMP} TF_CONFIG is ", timed, re.MULTILINE)) == 2
        assert "generation 1" in there.ok("logs", "hello", "coordinator")
        report = embedded(there.ok("report", "hello"))
        assert report["words"].startswith("Succeeded: all 2 instances of worker")
        assert [one["name"] for one in report["instances"]] == ["worker/0", "worker/1"]
        kinds = [part["kind"] for lane in report["history"]["lanes"] for part in lane["parts"]]
        assert kinds == ["forms", "runs"] * 2
        assert all("TF_CONFIG is " in log["text"] for log in report["logs"])
        assert (len(report["logs"]), report["links"]) == (2, [])
    # Without the file, which is on the other machine alone, it is not started there.
    tfapp.home.rename(tmp_path / "away")
    refused = colleague("start", "hello")
    (tmp_path / "away").rename(tfapp.home)
    assert refused.code == 53 and "is not on this machine" in refused.err
    assert tfapp.status("hello")["run"] == 1
    again = tfapp("start", "hello")
    assert again.code == 0, again.err
    assert tfapp.status("hello")["run"] == 2
    colleague.ok("destroy", "hello")
    assert tfapp("exists", "hello").code == 69
    assert tfapp.objects() == []


def test_a_program_fails(tfapp, tmp_path):
    script = tfapp.program(programs.FAILS)
    done = tfapp("run", script, "-w", 2, "--name", "fails_1", *FRUGAL)
    assert done.code == 65, done.err
    for there in (tfapp, tfapp.elsewhere(tmp_path / "elsewhere")):
        verdict = there.status("fails_1")["status"]["verdict"]
        cause = verdict["cause"]
        assert (verdict["state"], verdict["exit_code"]) == ("FAILED", 65)
        assert (cause["instance"], cause["exit"]["code"]) == ("worker/1", 3)
        assert "no such data set" in cause["last_lines"]
        assert verdict["summary"] in done.err


def test_pods_and_a_node_are_lost(tfapp, tmp_path):
    """And the API server is away for a while; its log has no gap and no double then."""
    enough = tmp_path / "enough"
    tfapp.run(tfapp.program(UNTIL.format(enough=enough)), "lives", "-w", 2)
    # A user's kubectl.
    tfapp.delete("pods", tfapp.pods("lives")["worker-1"]["metadata"]["name"])
    tfapp.forms("lives", 2)
    master = tfapp.node(tfapp.pods("lives")[""])
    status = tfapp.status("lives")["status"]
    assert (status["restarts"], status["losses"]) == (0, 1)
    # The API server: the programs go on, and so does the command that follows.
    with tfapp.start("logs", "lives", "worker/0", "-f") as following:
        try:
            shown = read_until(following, following.stdout, "counts 3\n")
            tfapp.cluster.kill_api()
            told = tfapp("status", "lives")
            tfapp.cluster.start_api()
            shown += read_until(following, following.stdout, "counts 60\n")
        finally:
            following.kill()
    assert told.code == 53 and "does not answer" in told.err
    newest = shown[shown.rindex("begins in generation") :]
    counts = [int(n) for n in re.findall(r"^counts (\d+)$", newest, re.MULTILINE)]
    assert counts == list(range(1, len(counts) + 1))
    assert tfapp.status("lives")["status"]["generation"] == 2
    # A node, with one of the workers and not the master.
    pods = tfapp.pods("lives")
    other = 3 - master
    assert other in {tfapp.node(pods[worker]) for worker in ("worker-0", "worker-1")}
    tfapp.cluster.kill_node(other)
    try:
        tfapp.forms("lives", 3)
        status = tfapp.status("lives")["status"]
        assert (status["restarts"], status["losses"]) == (0, 2)
        assert "is lost" in tfapp.asks("diagnostics", "lives")
        enough.touch()
        tfapp.wait("lives", 0)
    finally:
        tfapp.cluster.start_node(other)
    tfapp.ok("destroy", "lives")
    wait_for(lambda: tfapp.objects() == [], "end of all objects")


def test_the_master_is_killed(tfapp, tmp_path):
    script = tfapp.program(programs.GOES_ON)
    tfapp.run(script, "orphaned", "-w", 1)
    tfapp.delete("pods", tfapp.pods("orphaned")[""]["metadata"]["name"])
    verdict = tfapp.wait("orphaned", 65)["verdict"]
    assert "its pod was deleted" in verdict["summary"]
    tfapp.left()
    tfapp.ok("destroy", "orphaned")
    assert tfapp.objects() == []


def test_a_user_deletes_the_job_and_the_record(tfapp, namespace):
    script = tfapp.program(programs.GOES_ON)
    names = ("jobless", "unrecorded")
    for name in names:
        tfapp.run(script, name, "-w", 1)
    objects = {name: [one for one in tfapp.objects() if name in one] for name in names}
    (job,) = [one for one in objects["jobless"] if one.startswith("jobs/")]
    jobs = f"/apis/batch/v1/namespaces/{namespace.name}"
    namespace.api.call("DELETE", f"{jobs}/{job}?propagationPolicy=Background")
    (record,) = [one for one in objects["unrecorded"] if one.startswith("configmaps/")]
    tfapp.delete(*record.split("/"))
    verdict = tfapp.wait("jobless", 65)["verdict"]
    # The Job, or first its pod, which the garbage collector deletes.
    assert re.search("its (Job|pod) was deleted", verdict["summary"])
    ended = tfapp("status", "unrecorded")
    assert (ended.code, "there is no application unrecorded" in ended.err) == (69, True)
    tfapp.left()
    tfapp.ok("destroy", "jobless")
    wait_for(lambda: tfapp.objects() == [], "end of all objects")


def test_the_node_of_the_master_crashes(tfapp):
    tfapp.run(tfapp.program(programs.GOES_ON), "beheaded", "-w", 2)
    lost = tfapp.node(tfapp.pods("beheaded")[""])
    tfapp.cluster.kill_node(lost)
    try:
        verdict = tfapp.wait("beheaded", 65)["verdict"]
        assert f"its node node{lost} was lost" in verdict["summary"]
        tfapp.left()
    finally:
        tfapp.cluster.start_node(lost)
    tfapp.ok("destroy", "beheaded")
    wait_for(lambda: tfapp.objects() == [], "end of all objects")


def test_ctrl_c_during_submission_leaves_nothing(tfapp):
    """While it waits for a file to be taken by a master whose image there is not."""
    (tfapp.work / "large").write_bytes(random.Random(1).randbytes(3_000_000))
    words = ("run", tfapp.program(programs.HELLO), "--name", "late", "-i", "localhost/none:1")
    flags = ("--files", tfapp.work / "large", "--detach")
    with tfapp.start(*words, *flags) as running:
        try:
            wait_for(
                lambda: tfapp.names() and "localhost/none:1" in tfapp.ok("status", "late"),
                "a reason",
            )
            running.send_signal(signal.SIGINT)
            _, problems = running.communicate(timeout=300)
        finally:
            running.kill()
    assert running.returncode == 130, problems
    assert tfapp.objects() == []
    assert tfapp.names() == []
