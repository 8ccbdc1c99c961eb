"""Applications on a real cluster, by the commands that people use."""

import itertools
import json
import os
import random
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families as families

from benchmarks import kubernetes_startup
from tests import python_environments
from tests.clusters.kubernetes import pod_images
from tests.clusters.kubernetes.command import FRUGAL, OnKubernetes
from tests.clusters.kubernetes.namespace import wait_for
from tests.clusters.yarn import programs
from tests.end_to_end.command_line import STAMP, read_until
from tests.end_to_end.sessions import (
    VERY_LARGE,
    check_commands,
    check_end_of_runner,
    check_terminal,
    check_what_ends,
)
from tests.page.applications import embedded
from tfapp.processes import stat, with_environment

# Ends when its file is there, which all pods see. It writes so much that its node begins new files
# for its log.
CHATTY = """
import os, pathlib, sys, time
print("begins in generation", os.environ["TFAPP_GENERATION"], flush=True)
count = 0
def go_on(lines):
    global count
    for _ in range(lines):
        print("counts", count := count + 1, "." * 200)
    sys.stdout.flush()
further = 100
while further:
    go_on(20)
    time.sleep(0.05)  # a node's file is full in 10 s: that long a slow machine may be behind
    further -= pathlib.Path("{enough}").exists()
print("the last of", count)
"""
SKIPPED = 100
GAP = r"tfapp: lines between \S+ and \S+ may be missing: the node had deleted them"
GENERATION = """
import os, time
print("runs in generation", os.environ["TFAPP_GENERATION"], flush=True)
time.sleep(600)
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
    listed = json.loads(tfapp.asks("list", "--format", "json"))["applications"]
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
    # In processes of their own: what still copies a log ends with each.
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


def lost_lines(shown: str) -> int:
    """How often lines of CHATTY are missing, which has to be said where it is. None is doubled. At
    the moment at which a node begins a new file, its own stream may skip SKIPPED lines."""
    expected, gaps = 0, 0
    lines = shown.splitlines()
    for before, line in zip(["", *lines], lines):
        if line.startswith("begins in generation"):
            expected = 1
        if found := re.match(r"counts (\d+) ", line):
            if expected and int(found[1]) != expected:
                assert int(found[1]) > expected, (before, line)
                if re.fullmatch(GAP, before):
                    gaps += 1
                else:
                    assert int(found[1]) - expected <= SKIPPED, (before, line)
            expected = int(found[1]) + 1
    return gaps


def read_lines(following: subprocess.Popen, count: int) -> str:
    """So many lines of what it shows."""
    together = ("".join(itertools.islice(following.stdout, count)) for _ in range(1))
    return read_until(following, together, "counts ")


def newest_count(shown: str) -> int:
    return int(re.findall(r"^counts (\d+) ", shown, re.MULTILINE)[-1])


def test_pods_and_a_node_are_lost(tfapp, tmp_path):
    """And the API server is away for a while; its log has no gap and no double then."""
    enough = tmp_path / "enough"
    tfapp.run(tfapp.program(CHATTY.format(enough=enough)), "lives", "-w", 2)
    # A user's kubectl.
    tfapp.delete("pods", tfapp.pods("lives")["worker-1"]["metadata"]["name"])
    tfapp.forms("lives", 2)
    master = tfapp.node(tfapp.pods("lives")[""])
    status = tfapp.status("lives")["status"]
    assert (status["restarts"], status["losses"]) == (0, 1)
    assert "its pod was deleted" in tfapp.asks("diagnostics", "lives")
    # The API server: the programs go on, and so does the command that follows.
    with tfapp.start("logs", "lives", "worker/0", "-f") as following:
        try:
            shown = read_until(following, following.stdout, "counts ")
            shown += read_lines(following, 2000)
            tfapp.cluster.kill_api()
            told = tfapp("status", "lives")
            tfapp.cluster.start_api()
            shown += read_lines(following, 7000)  # a node's file of a log has about 4,000
        finally:
            following.kill()
    assert told.code == 53 and "does not answer" in told.err
    assert lost_lines(shown) <= 2  # before it was followed, and while the API server was away
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
        anew = tfapp.elsewhere(tmp_path / "anew")
        with anew.start("logs", "lives", "worker/0", "-f") as following:
            shown = read_until(following, following.stdout, "counts ")
            shown += read_lines(following, 5000)  # more than what was there before it was followed
            enough.touch()
            rest, problems = following.communicate(timeout=300)
        assert (following.returncode, lost_lines(shown + rest) - lost_lines(shown)) == (0, 0), (
            problems
        )
        last = re.findall(r"^the last of (\d+)$", rest, re.MULTILINE)
        assert last == [str(newest_count(rest))], (rest[-1000:], problems)
        tfapp.wait("lives", 0)
    finally:
        tfapp.cluster.start_node(other)
    tfapp.ok("destroy", "lives")
    wait_for(lambda: tfapp.objects() == [], "end of all objects")


def test_the_master_is_killed(tfapp, namespace):
    """Its Job starts another one, in another pod, which goes on with the same programs; no other
    one where that is the end."""
    script = tfapp.program(programs.GOES_ON)
    tfapp.run(script, "orphaned", "-w", 1)
    worker = tfapp.pods("orphaned")["worker-0"]["metadata"]["uid"]
    tfapp.delete("pods", tfapp.pods("orphaned")[""]["metadata"]["name"])
    said = "the application's master was lost and is back; the programs went on"
    wait_for(lambda: said in tfapp.asks("diagnostics", "orphaned"), "another master")
    tfapp.forms("orphaned", 1)
    at = re.compile(r"worker/0 is in .* at program\.py:\d+\n")
    wait_for(lambda: at.match(tfapp.ok("stacks", "orphaned")), "its worker, which finds that one")
    status = tfapp.status("orphaned")["status"]
    assert (status["generation"], status["losses"], status["restarts"]) == (1, 0, 0)
    assert tfapp.pods("orphaned")["worker-0"]["metadata"]["uid"] == worker
    tfapp.ok("stop", "orphaned")
    job = f"/apis/batch/v1/namespaces/{namespace.name}/jobs/tfapp-orphaned-1"

    def ended():
        found = namespace.api.call("GET", job)["status"]
        return "Failed" in [c["type"] for c in found.get("conditions", ())] and found

    wait_for(ended, "end of the Job")
    assert ended()["failed"] == 2
    tfapp.left()
    tfapp.ok("destroy", "orphaned")
    assert tfapp.objects() == []


@pytest.mark.weekly
def test_what_a_pod_uses_is_counted_by_its_control_group(tfapp):
    """With shared memory, which its processes do not show."""
    rows = "open('/dev/shm/rows', 'wb').write(bytes(50 << 20))\n"
    tfapp.run(tfapp.program(rows + programs.GOES_ON), "counted", "-w", 1)

    def memory() -> int:
        (worker,) = tfapp.status("counted")["status"]["instances"]
        return worker["usage"]["memory"] if worker["usage"] else 0

    wait_for(lambda: memory() > 50 << 20, "its memory")
    usage = tfapp.status("counted")["status"]["instances"][0]["usage"]
    assert usage["memory"] < 150 << 20
    assert 0 < usage["cpu_mean"] <= 1
    tfapp.ok("stop", "counted")
    tfapp.ok("destroy", "counted")


@pytest.mark.weekly
def test_the_coordinator_is_killed(tfapp):
    """Another one goes on with the same pods, and nothing is charged."""
    tfapp.run(tfapp.program(programs.GOES_ON), "unled", "-w", 1)
    before, id = tfapp.pods("unled"), tfapp.status("unled")["id"].encode()
    (coordinator,) = with_environment(
        lambda env: b"TFAPP_COORDINATOR" in env and env.get(b"SKEIN_APPLICATION_ID") == id
    )
    os.kill(coordinator.pid, signal.SIGKILL)
    said = "the coordinator was lost, another one goes on"
    wait_for(lambda: said in tfapp.asks("diagnostics", "unled"), "another coordinator")
    status = tfapp.status("unled")["status"]
    assert (status["generation"], status["losses"], status["restarts"]) == (1, 0, 0)
    uids = [
        {pod["metadata"]["uid"] for pod in pods.values()} for pods in (before, tfapp.pods("unled"))
    ]
    assert uids[0] == uids[1]
    tfapp.ok("stop", "unled")
    tfapp.ok("destroy", "unled")


def test_the_process_of_the_master_is_killed(tfapp):
    """Another one goes on in its pod, with the same pods, and nothing is charged. So it is with one
    that hangs."""
    tfapp.run(tfapp.program(programs.GOES_ON), "lonely", "-w", 1)
    before = tfapp.pods("lonely")
    name = before[""]["metadata"]["name"].encode()

    def master():
        found = {
            process.pid: process
            for process in with_environment(
                lambda env: (
                    env.get(b"TFAPP_POD_NAME") == name and b"SKEIN_APPLICATION_ID" not in env
                )
            )
        }
        return next((one for pid, one in found.items() if stat(pid).parent in found), None)

    said = "the application's master was lost and is back; the programs went on"
    for count, number in enumerate((signal.SIGKILL, signal.SIGSTOP), 1):
        lost = master()
        os.kill(lost.pid, number)
        wait_for(lambda lost=lost: master() not in (None, lost), "another master")
        wait_for(
            lambda count=count: tfapp.asks("diagnostics", "lonely").count(said) == count, "its word"
        )
    status = tfapp.status("lonely")["status"]
    assert (status["generation"], status["losses"], status["restarts"]) == (1, 0, 0)
    uids = [
        {pod["metadata"]["uid"] for pod in pods.values()} for pods in (before, tfapp.pods("lonely"))
    ]
    assert uids[0] == uids[1]
    tfapp.ok("stop", "lonely")
    tfapp.left()
    tfapp.ok("destroy", "lonely")


@pytest.mark.weekly
def test_a_user_deletes_the_job_and_the_record(tfapp, namespace):
    script = tfapp.program(programs.GOES_ON)
    names = ("jobless", "unrecorded")
    for name in names:
        tfapp.run(script, name, "-w", 1)
    objects = {name: [one for one in tfapp.objects() if name in one] for name in names}
    (job,) = [one for one in objects["jobless"] if one.startswith("jobs/")]
    jobs = f"/apis/batch/v1/namespaces/{namespace.name}"
    namespace.api.call("DELETE", f"{jobs}/{job}?propagationPolicy=Background")
    (record,) = [one for one in objects["unrecorded"] if one == "configmaps/tfapp-unrecorded"]
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
    """Another one goes on elsewhere, while the pods of the lost node are still there. The worker on
    the other node waits for it for longer than it would without its witness, and keeps its pod."""
    tfapp.run(tfapp.program(programs.GOES_ON), "beheaded", "-w", 2)
    before = tfapp.pods("beheaded")
    lost = tfapp.node(before.pop(""))
    tfapp.cluster.kill_node(lost)
    try:
        tfapp.forms("beheaded", 2)
        status = tfapp.status("beheaded")["status"]
        assert (status["generation"], status["losses"]) == (2, 1)
        assert "is back; the programs went on" in tfapp.asks("diagnostics", "beheaded")
        kept = [pod["metadata"]["uid"] for pod in before.values() if tfapp.node(pod) != lost]
        assert {pod["metadata"]["uid"] for pod in tfapp.pods("beheaded").values()} > set(kept)
        assert len(kept) == 1
    finally:
        tfapp.cluster.start_node(lost)
    tfapp.ok("stop", "beheaded")
    tfapp.left()
    tfapp.ok("destroy", "beheaded")
    wait_for(lambda: tfapp.objects() == [], "end of all objects")


def test_a_job_that_is_suspended_goes_on(tfapp, namespace):
    """As Kueue does it: while the cluster forms, while it runs, and again. No command takes that
    for an end; `stop` ends it in every state, and nothing of it begins again."""
    script = tfapp.program(GENERATION)
    job = f"/apis/batch/v1/namespaces/{namespace.name}/jobs/tfapp-paused-1"

    def suspend(value: bool) -> None:
        kind = "application/merge-patch+json"
        namespace.api.call("PATCH", job, {"spec": {"suspend": value}}, kind)

    def is_suspended() -> None:
        wait_for(lambda: tfapp.status("paused")["status"]["state"] == "SUSPENDED", "SUSPENDED")
        tfapp.left()

    def told() -> list[str]:
        return [moment["text"] for moment in tfapp.status("paused")["status"]["timeline"]]

    def is_refused(*words: str) -> bool:
        refused = tfapp(*words, "paused")
        return refused.code == 73 and "paused is suspended: its Job tfapp-paused-1" in refused.err

    def its_master_ends() -> bool:
        master = tfapp.pods("paused").get("")
        return master is None or "deletionTimestamp" in master["metadata"]

    with tfapp.start("run", script, "-w", 2, "--name", "paused", *FRUGAL) as followed:
        try:
            wait_for(lambda: "paused" in tfapp.names(), "record")
            wait_for(lambda: tfapp.pods("paused").get("worker-0"), "a pod of a worker")
            suspend(True)
            is_suspended()
            assert is_refused("start") and is_refused("destroy")
            suspend(False)
            tfapp.forms("paused", 1)
            first = tfapp.status("paused")["status"]["generation"]
            uids = {pod["metadata"]["uid"] for pod in tfapp.pods("paused").values()}
            assert all(is_drained(pod) for pod in tfapp.pods("paused").values())
            suspend(True)
            wait_for(its_master_ends, "its end")
            suspend(False)  # before the master can look
            tfapp.forms("paused", first + 1)
            assert uids.isdisjoint(pod["metadata"]["uid"] for pod in tfapp.pods("paused").values())
            suspend(True)
            is_suspended()
            # The Job tells the state at once, the master writes why when it has ended its pods.
            wait_for(lambda: told()[-1] == "the application is suspended", "its master's last word")
            report, texts = tfapp.status("paused"), told()
            assert (report["live"], report["run"], report["status"]["losses"]) == (True, 1, 0)
            assert [text for text in texts if text.endswith("begins")] == [
                f"generation {number} begins" for number in (first, first + 1)
            ]
            assert followed.poll() is None
            tfapp.ok("stop", "paused")
            out, problems = followed.communicate(timeout=300)
        finally:
            followed.kill()
    assert (followed.returncode, "SUSPENDED" in problems) == (66, True), problems
    assert f"runs in generation {first + 1}" in out
    tfapp.left()
    assert not [one for one in tfapp.objects() if one.startswith("jobs/")]
    assert tfapp.status("paused")["status"]["verdict"]["state"] == "KILLED"
    tfapp.ok("destroy", "paused")
    assert tfapp.objects() == []


def is_drained(pod: dict[str, Any]) -> bool:
    """Whether `kubectl drain` evicts it (kubectl, pkg/drain/filters.go, unreplicatedFilter): it has
    a controller, of whatever kind."""
    return any(owner.get("controller") for owner in pod["metadata"]["ownerReferences"])


@pytest.mark.parametrize("moment", ["the master's Python starts", "the master is asked for"])
def test_stop_before_the_master_can_be_asked(tfapp, moment):
    """No pod is made any more, and the verdict is KILLED, at once."""
    late = ("--option", "site.global.kubernetes.master.image", "localhost/none:1")
    flags = late if moment == "the master is asked for" else ()
    with tfapp.start(
        "run", tfapp.program(programs.GOES_ON), "--name", "early", *FRUGAL, *flags
    ) as r:
        wait_for(lambda: "early" in tfapp.names() and tfapp.pods("early").get(""), "a master's pod")
        if not flags:
            wait_for(lambda: phase(tfapp.pods("early")[""]) == "Running", "a container")
        r.send_signal(signal.SIGINT)
        _, problems = r.communicate(timeout=300)
    assert r.returncode == 130, problems
    verdict = tfapp.status("early")["status"]["verdict"]
    assert verdict["state"] == "KILLED", verdict
    # A master that could be asked after all has the words.
    assert verdict["cause"] is None or verdict["cause"]["exit"]["reason"] == "stopped", verdict
    tfapp.left()


def phase(pod: dict[str, Any]) -> str:
    return pod["status"].get("phase", "")


def test_ctrl_c_during_submission_leaves_nothing(tfapp):
    """While it waits for a file to be taken by a master whose image there is not."""
    (tfapp.work / "large").write_bytes(random.Random(1).randbytes(3_000_000))
    words = ("run", tfapp.program(programs.HELLO), "--name", "late", "-i", "localhost/none:1")
    flags = ("--files", tfapp.work / "large", "--detach")
    with tfapp.start(*words, *flags) as running:
        try:
            wait_for(
                lambda: tfapp.names() and "localhost/none:1" in tfapp.asks("status", "late"),
                "a reason",
            )
            running.send_signal(signal.SIGINT)
            _, problems = running.communicate(timeout=300)
        finally:
            running.kill()
    assert running.returncode == 130, problems
    assert tfapp.objects() == []
    assert tfapp.names() == []


@pytest.mark.weekly
def test_the_benchmark_of_its_start(tfapp, tmp_path):
    """Its parts: what is compared is measured once, two pods alone are left out."""
    config = yaml.safe_load(tfapp.cluster.kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = tfapp.namespace.name
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    environ = {**os.environ, **tfapp.cluster.variables(), "KUBECONFIG": str(tmp_path / "config")}
    bench = kubernetes_startup.Bench(tmp_path, pod_images.TENSORFLOW, environ)
    assert bench.bare("made") > 0
    assert bench.tfapp() > 0
    wait_for(lambda: tfapp.objects() == [], "end of all objects")


class Beside(OnKubernetes):
    """Its nodes are on this machine, and so are the processes in its pods."""

    def living(self):
        return [p.pid for p in with_environment(lambda env: b"KUBERNETES_SERVICE_HOST" in env)]


@pytest.mark.weekly
def test_commands_beside_a_program(tfapp):
    """Through the API server. Prometheus reads the master meanwhile."""
    (tfapp.work / "sleeps.py").write_text("import time; time.sleep(600)")
    options = {"site.global.exec": "true", "site.global.metrics.port": 9400}
    flags = [word for name, value in options.items() for word in ("--option", name, value)]
    tfapp.run("sleeps.py", "app", *flags)
    beside = Beside(tfapp.work, tfapp.home, tfapp.cluster, tfapp.namespace)
    check_commands(beside, "No such file or directory", VERY_LARGE)
    check_terminal(beside)
    check_what_ends(beside)
    # As the annotations of the master's pod say.
    master = tfapp.pods("app")[""]
    told = master["metadata"]["annotations"]
    port, path = (told[f"prometheus.io/{what}"] for what in ("port", "path"))
    url = f"http://{master['status']['podIP']}:{port}{path}"
    read = f"import urllib.request as web; print(web.urlopen({url!r}, timeout=60).read().decode())"
    text = tfapp.ok("exec", "app", "worker/0", "--", "python3", "-c", read).strip() + "\n"
    assert {one.name: one for one in families(text)}["tfapp_generation"].samples[0].value == 1
    check_end_of_runner(beside)
    tfapp.ok("stop", "app")
