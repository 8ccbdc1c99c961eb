"""The application master is lost, or hangs, at the moments of an application's life, with what else
may be lost then. Programs go on wherever docs/failures.md says so."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import pytest
from kubernetes_cluster.api import MERGE

from tests.clusters.kubernetes.command import FRUGAL, OnKubernetes, seeing
from tests.clusters.kubernetes.namespace import wait_for
from tests.clusters.kubernetes.test_disturbances import HALF, library, with_tfapp
from tests.clusters.kubernetes.test_training import flags
from tests.clusters.yarn import programs
from tests.end_to_end.command_line import LIMIT, PLAIN_PACKAGE
from tests.end_to_end.test_deaths import BACK, FOLLOWED, HAS_FILES
from tests.end_to_end.test_saving import IN_STEP, trained
from tests.waiting import wait
from tfapp.engines.kubernetes.api import KubernetesCluster
from tfapp.engines.kubernetes.pod import names
from tfapp.engines.kubernetes.verdict import is_being_deleted, is_of_master
from tfapp.errors import TfappError
from tfapp.processes import Process, environment, is_alive, send, stat, with_environment
from tfapp.runner.container import SAVE_FILE
from tfapp.shipped import app_packages_dir, schemas_dir

pytestmark = pytest.mark.weekly

NAME = "app"
# Each pod waits until it is let go.
HELD = """
apiVersion: v1
kind: Pod
spec:
  schedulingGates: [{name: test/held}]
  containers: [{name: tfapp}]
"""
# Of memory that is a file's, and no process's: the kernel ends the others before this one.
FILLS = "import os\nfile = os.memfd_create('x')\nwhile True: os.write(file, b'x' * (1 << 20))"


class Life:
    """One application, and what is done to it. Instances are called as in labels; "" is the
    master."""

    def __init__(self, tfapp: OnKubernetes):
        self.tfapp = tfapp
        self.cluster = tfapp.cluster
        self.api = tfapp.namespace.api

    def begin(self, workers: int, *flags: object, program: str = programs.GOES_ON) -> None:
        with self.beginning(workers, *flags, program=program):
            pass

    @contextlib.contextmanager
    def beginning(self, workers: int, *flags: object, program: str) -> Iterator[None]:
        """While the command sends what it has to."""
        script = self.tfapp.program(program)
        words = ("run", script, "--name", NAME, "-w", workers, *FRUGAL, *seeing(self.tfapp.work))
        with self.tfapp.start(*words, *flags, "--detach") as command:
            yield
            _, problems = command.communicate(timeout=LIMIT)
        assert command.returncode == 0, problems

    def runs(self, workers: int, *flags: object, program: str = programs.GOES_ON) -> None:
        self.begin(workers, *flags, program=program)
        self.tfapp.forms(NAME, 1)

    def is_held(self, workers: int) -> None:
        """Begins one whose pods wait for `let`."""
        template = self.tfapp.work / "pod.yaml"
        template.write_text(HELD)
        self.begin(workers, "--pod-file", template)

    def pod(self, instance: str) -> str:
        """The name of its pod, once there is one."""
        wait_for(lambda: instance in self.tfapp.pods(NAME), f"pod of {instance}")
        return self.tfapp.pods(NAME)[instance]["metadata"]["name"]

    def phase(self, instance: str) -> str:
        return self.tfapp.pods(NAME)[instance]["status"].get("phase", "")

    def let(self, instance: str) -> None:
        path = f"{self.tfapp.namespace.path}/pods/{self.pod(instance)}"
        self.api.call("PATCH", path, {"spec": {"schedulingGates": []}}, MERGE)

    def uids(self) -> dict[str, str]:
        """Of the pods of instances."""
        pods = self.tfapp.pods(NAME).items()
        return {instance: pod["metadata"]["uid"] for instance, pod in pods if instance}

    def log(self, instance: str) -> str:
        """By a process of its own: in this one threads would follow it for a while."""
        return self.tfapp("logs", NAME, instance).out

    def master(self) -> Process:
        found = master_in(self.pod(""))
        assert found is not None
        return found

    def has(self, instance: str, file: str) -> bool:
        """Whether its pod has such a file, in the folder of its container."""
        pods = f"node*/lib/kubelet/pods/{self.uids().get(instance)}"
        work = f"{pods}/volumes/kubernetes.io~empty-dir/tfapp-work/*"
        return any(self.cluster.folder.glob(f"{work}/{file}"))

    def lose(self, *instances: str) -> None:
        for name in [self.pod(instance) for instance in instances]:
            self.tfapp.delete("pods", name)

    def spreads(self, *flags: object) -> None:
        """Two workers run that save when they are asked, on a node each."""
        work, alone = self.tfapp.work, ("--resopt", "yarn.memory", HALF)
        prefix = ("--option", "site.global.user.checkpoint.prefix", work / "checkpoints")
        self.runs(2, *alone, *prefix, *flags, program=with_tfapp(work, IN_STEP))
        takes_part = lambda: self.tfapp.status(NAME)["status"]["stop_grace"] > 30  # noqa: E731
        wait_for(takes_part, "programs that save")

    def node(self, instance: str) -> str:
        return self.tfapp.pods(NAME)[instance]["spec"]["nodeName"]

    def drain(self, node: str, seconds: int) -> str:
        """As a person does who waits so long. Returns what kubectl could not do."""
        if shutil.which("kubectl") is None:
            pytest.skip("this machine has no kubectl")
        limit, mine = f"--timeout={seconds}s", f"--pod-selector=tfapp/application={NAME}"
        drain = ("kubectl", "drain", node, "--delete-emptydir-data", limit, mine)
        environ = {**os.environ, **self.cluster.variables()}
        try:
            done = subprocess.run(drain, env=environ, capture_output=True, text=True)
        finally:
            subprocess.run(("kubectl", "uncordon", node), env=environ, check=True)
        return done.stderr if done.returncode else ""

    def goes_on_where_all_saved(self) -> None:
        self.tfapp.forms(NAME, 2)
        told = self.tfapp.asks("diagnostics", NAME)
        (step,) = re.findall(r"worker/0, worker/1 have saved at step (\d+) before the stop", told)
        for worker in ("worker/0", "worker/1"):
            begins = lambda one=worker: f"goes on at step {step}\n" in self.log(one)  # noqa: E731
            wait_for(begins, f"step {step} of {worker}")

    def is_back(self) -> None:
        wait_for(lambda: BACK in self.tfapp.asks("diagnostics", NAME), "another master")

    def backoff_limit(self) -> int:
        """Of its Job."""
        path = f"/apis/batch/v1/namespaces/{self.tfapp.namespace.name}/jobs/tfapp-{NAME}-1"
        return int(self.api.call("GET", path)["spec"]["backoffLimit"])

    def epoch(self) -> int:
        """The number of pods in which a master has claimed the run."""
        path = f"{self.tfapp.namespace.path}/configmaps/{names.journal_object(NAME)}"
        return int(self.api.call("GET", path)["data"]["epoch"])

    @contextlib.contextmanager
    def hangs(self) -> Iterator[list[Process]]:
        """All processes in the pod of the master are stopped, and then go on."""
        stopped = in_pod(self.pod(""))
        assert len(stopped) >= 3, "its parent, itself, the coordinator"
        for process in stopped:
            send(process, signal.SIGSTOP)
        try:
            yield stopped
        finally:
            for process in stopped:
                send(process, signal.SIGCONT)

    @contextlib.contextmanager
    def is_alone(self) -> Iterator[None]:
        """There is no API server."""
        self.cluster.kill_api()
        try:
            yield
        finally:
            self.cluster.start_api()


def in_pod(name: str) -> list[Process]:
    """The processes in the pod of a master."""
    return with_environment(lambda env: env.get(b"TFAPP_POD_NAME") == name.encode())


def master_in(name: str) -> Process | None:
    """The process of the master: a child of the first one."""
    found = {p.pid: p for p in in_pod(name)}
    for process in found.values():
        now = stat(process.pid)
        is_coordinator = b"SKEIN_APPLICATION_ID" in environment(process.pid)
        if now is not None and now.parent in found and not is_coordinator:
            return process
    return None


# ---- What happens -----------------------------------------------------------------------------


class Lived(NamedTuple):
    """What is to be seen then. `kept`: the pods that are those of before, by their uids.
    `generation`, `losses`: of the status. `masters`: pods in which there was one. `told`: whether
    it says that a master was lost."""

    kept: Mapping[str, str]
    generation: int = 1
    losses: int = 0
    masters: int = 2
    told: bool = True


def lost_while_forming(app: Life) -> Lived:
    app.is_held(2)
    app.let("worker-0")
    is_ready = lambda: app.tfapp.instances(NAME)["worker/0"]["state"] == "WAITING"  # noqa: E731
    wait_for(is_ready, "worker/0, which is ready")
    app.pod("worker-1")
    kept = app.uids()
    app.lose("")
    app.is_back()
    app.let("worker-1")
    return Lived(kept)


def lost_while_flexing(app: Life) -> Lived:
    app.is_held(1)
    app.let("worker-0")
    app.tfapp.forms(NAME, 1)
    app.tfapp.ok("flex", NAME, "--component", "worker", "+1")
    app.pod("worker-1")
    kept = app.uids()
    app.lose("")
    app.is_back()
    app.let("worker-1")
    return Lived(kept, generation=2)


def lost_before_it_is_asked_to_flex(app: Life) -> Lived:
    """The command waits for the next one."""
    app.runs(1)
    kept = app.uids()
    app.lose("")
    app.tfapp.ok("flex", NAME, "--component", "worker", "+1")
    return Lived(kept, generation=2)


def lost_with_a_worker(app: Life) -> Lived:
    app.runs(2)
    kept = app.uids()
    del kept["worker-1"]
    app.lose("worker-1", "")
    return Lived(kept, generation=2, losses=1)


def lost_again_after_it_has_lasted(app: Life) -> Lived:
    """The loss of before counts no more for the Job, which may see one."""
    place = library(app.tfapp.work)
    for folder in (schemas_dir(), app_packages_dir()):
        (place / folder.name).symlink_to(folder)
    parent = place / "tfapp" / "master" / "parent.py"
    text = parent.read_text()
    assert "\nAGAIN = 600.0" in text
    parent.write_text(text.replace("\nAGAIN = 600.0", "\nAGAIN = 20.0"))
    with pytest.MonkeyPatch.context() as shortly:
        shortly.setenv("PYTHONPATH", str(place))
        app.runs(1, "--option", "site.global.master.attempts", 2)
    kept = app.uids()
    assert app.backoff_limit() == 1
    app.lose("")
    app.is_back()
    wait_for(lambda: app.backoff_limit() == 2, "a higher limit")
    app.lose("")
    wait_for(lambda: app.tfapp.asks("diagnostics", NAME).count(BACK) == 2, "another master")
    return Lived(kept, masters=3)


def out_of_memory(app: Life) -> Lived:
    """The kernel ends one process after the other, or all at once."""
    app.runs(1)
    pod = app.pod("")
    login = {"KUBECONFIG": str(app.cluster.kubeconfig)}
    client = KubernetesCluster.open(login, app.tfapp.namespace.name)
    while app.pod("") == pod and app.phase("") == "Running":
        with contextlib.suppress(TfappError):
            for _ in client.exec(pod, names.CONTAINER, ["python3", "-c", FILLS]):
                pass
    return Lived(app.uids())


def killed_without_an_api_server(app: Life) -> Lived:
    """For longer than a runner is patient that has no master."""
    app.runs(1)
    name, before = app.pod(""), app.master()
    with app.is_alone():
        send(before, signal.SIGKILL)
        wait_for(lambda: master_in(name) not in (None, before), "another master")
        time.sleep(40)
    return Lived(app.uids(), masters=1)


def killed_while_pods_fetch_files(app: Life) -> Lived:
    """The next one gives all of them to these pods, and to one that joins."""
    work = app.tfapp.work
    (work / "small").mkdir()
    for number in range(3000):
        (work / "small" / str(number)).write_text(str(number))
    (work / "large").write_bytes(os.urandom(200 << 20))
    flags = ("--files", work / "large", "--files", work / "small")
    with app.beginning(2, *flags, program=HAS_FILES):
        wait(lambda: app.has("worker-0", "files.packed.partial"), "no file", LIMIT, every=0.01)
        send(app.master(), signal.SIGKILL)
    app.is_back()
    app.tfapp.forms(NAME, 1)
    kept = app.uids()
    app.tfapp.ok("flex", NAME, "--component", "worker", "+1")
    app.tfapp.forms(NAME, 2)
    for worker in ("worker/0", "worker/1", "worker/2"):
        wait_for(lambda one=worker: "at work" in app.log(one), f"files of {worker}")
    return Lived(kept, generation=2, masters=1)


def hangs_for_a_minute(app: Life) -> Lived:
    app.runs(1)
    with app.hangs():
        time.sleep(60)
    return Lived(app.uids(), masters=1, told=False)


def hangs_without_an_api_server(app: Life) -> Lived:
    """Nobody can tell the runner that its master is lost: it ends after 30 s."""
    app.runs(1)
    with app.hangs():
        with app.is_alone():
            time.sleep(45)
        time.sleep(10)
    return Lived({}, generation=2, losses=1, masters=1, told=False)


def hangs_until_another_one_has_its_place(app: Life) -> Lived:
    """Its node says nothing either. As it goes on it leaves, and does nothing else."""
    with cordoned(app, "node2"):
        selector = ("--compopt", "worker", "site.global.kubernetes.node.selector")
        app.begin(1, *selector, "kubernetes.io/hostname=node2")
        app.pod("")
        wait_for(lambda: app.tfapp.pods(NAME)[""]["spec"].get("nodeName"), "its node")
    app.tfapp.forms(NAME, 1)
    kept = app.uids()
    app.cluster.pause_node(1)
    try:
        with app.hangs() as stopped:
            app.is_back()
            begun = app.tfapp.namespace.pods()
            (master,) = [p for p in begun if is_of_master(p) and not is_being_deleted(p)]
            assert app.tfapp.node(master) == 2
        wait_for(lambda: not any(map(is_alive, stopped)), "end of the one that hung")
        there = [pod["metadata"]["uid"] for pod in app.tfapp.namespace.pods()]
        assert there == [pod["metadata"]["uid"] for pod in begun]
    finally:
        app.cluster.resume_node(1)
    return Lived(kept)


def hangs_for_good(app: Life) -> Lived:
    """Its node answers: the probe of its pod fails."""
    app.runs(1)
    kept = app.uids()
    with app.hangs():
        app.is_back()
    return Lived(kept)


def its_node_is_drained(app: Life) -> Lived:
    """With the worker there, whose loss is the only one."""
    app.spreads()
    kept, node = app.uids(), app.node("")
    del kept[next(worker for worker in kept if app.node(worker) == node)]
    assert app.drain(node, 240) == ""
    app.goes_on_where_all_saved()
    return Lived(kept, generation=2, losses=1)


def the_node_of_a_worker_is_drained(app: Life) -> Lived:
    app.spreads()
    kept, node = app.uids(), app.node("")
    (there,) = (worker for worker in kept if app.node(worker) != node)
    del kept[there]
    assert app.drain(app.node(there), 240) == ""
    app.goes_on_where_all_saved()
    return Lived(kept, generation=2, losses=1, masters=1, told=False)


def its_node_is_drained_whose_worker_has_to_stay(app: Life) -> Lived:
    app.spreads("--option", "site.global.kubernetes.min.available", 2)
    kept = app.uids()
    assert "violate the pod's disruption budget" in app.drain(app.node(""), 40)
    return Lived(kept)


@contextlib.contextmanager
def cordoned(app: Life, node: str) -> Iterator[None]:
    """No pod is put there."""

    def cordon(value: bool) -> None:
        body = {"spec": {"unschedulable": value}}
        app.api.call("PATCH", f"/api/v1/nodes/{node}", body, MERGE)

    cordon(True)
    try:
        yield
    finally:
        cordon(False)


HAPPENS: tuple[Callable[[Life], Lived], ...] = (
    lost_while_forming,
    lost_while_flexing,
    lost_before_it_is_asked_to_flex,
    lost_with_a_worker,
    lost_again_after_it_has_lasted,
    out_of_memory,
    killed_without_an_api_server,
    killed_while_pods_fetch_files,
    hangs_for_a_minute,
    hangs_without_an_api_server,
    hangs_until_another_one_has_its_place,
    hangs_for_good,
    its_node_is_drained,
    the_node_of_a_worker_is_drained,
    its_node_is_drained_whose_worker_has_to_stay,
)


@pytest.mark.parametrize("what", HAPPENS, ids=lambda what: what.__name__)
def test_the_application_goes_on(tfapp, what):
    app = Life(tfapp)
    lived = what(app)
    if lived.told:
        app.is_back()
    tfapp.forms(NAME, lived.generation)
    status, told = tfapp.status(NAME)["status"], tfapp.asks("diagnostics", NAME)
    found = [status[key] for key in ("generation", "restarts", "losses")]
    assert found == [lived.generation, 0, lived.losses], told
    assert (BACK in told) == lived.told, told
    assert lived.kept.items() <= app.uids().items(), told
    assert app.epoch() == lived.masters
    heard = lambda: re.search(r" (is|are) in .* at program\.py:", tfapp("stacks", NAME).out)  # noqa: E731
    wait_for(heard, "programs, which hear the master that there is")
    tfapp.ok("stop", NAME)
    assert tfapp.status(NAME)["status"]["state"] == "KILLED"
    tfapp.left()


@pytest.mark.parametrize("when", ["before it is asked", "as it hangs", "while programs end"])
def test_lost_while_it_stops(tfapp, when):
    """The programs have their grace."""
    app = Life(tfapp)
    app.runs(1, program=programs.SAVES_FOR.format(seconds=20))
    before = app.uids()
    if when == "before it is asked":
        app.lose("")
    elif when == "as it hangs":
        send(app.master(), signal.SIGSTOP)
    with tfapp.start("stop", NAME) as stopping:
        if when == "while programs end":
            wait_for(lambda: tfapp.status(NAME)["status"]["state"] == "STOPPING", "STOPPING")
            app.lose("")
        _, problems = stopping.communicate(timeout=300)
    assert stopping.returncode == 0, problems
    ended = tfapp.status(NAME)["status"]
    assert (ended["state"], ended["generation"], ended["losses"]) == ("KILLED", 1, 0), problems
    assert "has saved" in tfapp.asks("logs", NAME, "worker/0"), problems
    assert app.uids() == before
    tfapp.left()


@pytest.mark.parametrize("what", ["its process", "its pod"])
def test_lost_while_programs_save(tfapp, monkeypatch, what):
    """Between that they are asked and that all have saved: they do so at one step, what was planned
    follows, and nothing is charged."""
    attempts = ("--option", "site.global.master.attempts", 9)
    program = with_tfapp(tfapp.work, IN_STEP)
    training = trained(tfapp, tfapp.work, program, PLAIN_PACKAGE, *flags(tfapp.work), *attempts)
    app, steps = Life(tfapp), [0]
    monkeypatch.setattr(training, "log", app.log)

    def lose() -> None:
        send(app.master(), signal.SIGKILL) if what == "its process" else app.lose("")

    def is_asked() -> None:
        """Worker 1 does not hear of it for two seconds."""
        wait_for(lambda: app.has("worker-0", f"*/{SAVE_FILE}"), "a request to save")

    training.begins(steps, steps)
    for number, size in ((1, "+1"), (2, "-1")):
        training.announced()
        with tfapp.start("flex", NAME, "--component", "worker", size) as flexing:
            training.saves(number) if number == 2 else is_asked()
            lose()
            _, problems = flexing.communicate(timeout=LIMIT)
        assert flexing.returncode == 0, problems
        steps = [*steps, training.saved(number)]
        training.begins(steps, steps)
    status = training.status()
    assert (status["generation"], status["restarts"], status["losses"]) == (3, 0, 0)
    training.announced()
    with tfapp.start("stop", NAME) as stopping:
        is_asked()
        lose()
        _, problems = stopping.communicate(timeout=LIMIT)
    assert stopping.returncode == 0, problems
    training.saved(3)
    assert training.status()["state"] == "KILLED"
    assert training.told().count(BACK) == 3
    tfapp.left()


def test_the_coordinator_is_lost_while_programs_save_before_a_suspension(tfapp, monkeypatch):
    """Another one goes on with that, though the master leaves; and so does the training later."""
    program = with_tfapp(tfapp.work, IN_STEP)
    training = trained(tfapp, tfapp.work, program, PLAIN_PACKAGE, *flags(tfapp.work))
    app = Life(tfapp)
    monkeypatch.setattr(training, "log", app.log)
    job = f"/apis/batch/v1/namespaces/{tfapp.namespace.name}/jobs/tfapp-{NAME}-1"
    training.begins([0], [0])
    training.announced()
    coordinator = next(
        process
        for process in in_pod(app.pod(""))
        if b"TFAPP_COORDINATOR" in environment(process.pid)
    )
    app.api.call("PATCH", job, {"spec": {"suspend": True}}, MERGE)
    wait_for(lambda: app.has("worker-0", f"*/{SAVE_FILE}"), "a request to save")
    send(coordinator, signal.SIGKILL)
    wait_for(lambda: training.status()["state"] == "SUSPENDED", "SUSPENDED")
    step = training.saved(1)
    assert FOLLOWED in training.told()
    tfapp.left()
    app.api.call("PATCH", job, {"spec": {"suspend": False}}, MERGE)
    goes_on = f"goes on at step {step}\n"
    logs = lambda: [app.log(f"worker/{index}") for index in range(2)]  # noqa: E731
    wait_for(lambda: all(goes_on in log for log in logs()), goes_on)
    assert (training.status()["restarts"], training.status()["losses"]) == (0, 0)
    tfapp.ok("stop", NAME, "--force")
    tfapp.left()


def test_lost_while_it_is_destroyed(tfapp):
    app = Life(tfapp)
    app.runs(1)
    app.lose("")
    tfapp.ok("destroy", NAME, "--force")
    wait_for(lambda: not tfapp.namespace.pods(), "end of all pods")
    assert (tfapp.names(), tfapp.objects()) == ([], [])
