"""Single findings and settings; whole pods are in golden/."""

import signal
import subprocess
import sys

import pytest

from tests.compiler.packages import compile_with, component, options, package, resources
from tests.waiting import wait
from tfapp.engines.kubernetes.pod import names
from tfapp.engines.kubernetes.pod.names import QUEUE_LABEL
from tfapp.engines.kubernetes.pods import PROBE, WORK_PATH, Places, check, master_pod, pods
from tfapp.errors import InvalidPackageError

IMAGE = {"site.global.docker.image": "train:3"}
PREFIX, VOLUMES = "site.global.user.checkpoint.prefix", "site.global.kubernetes.volumes"


def found(built, claims=None, **changes):
    """What `check` says of a package."""
    at = Places.of(options(**changes), "ml")
    compiled = compile_with(built, **changes)
    return sorted(f"{p.severity}: {p.message}" for p in check(compiled.plan, at, claims))


def test_what_docker_containers_have_and_pods_have_not():
    container = {"name": "a", "image": "declared:1", "options": "--ipc host",
                 "mounts": [{"containerMount": "/a", "hostMount": "/b"}]}  # fmt: skip
    built = package(component("worker", docker_containers=(container,)))
    assert found(built) == [
        "error: worker: a pod does not have the mounts of dockerContainers",
        "error: worker: a pod does not have the options of dockerContainers",
    ]
    at = Places.of(options(), "ml")
    pod = pods(compile_with(built).plan, at)["worker"]
    assert pod["spec"]["containers"][0]["image"] == "declared:1"


def test_no_image_at_all():
    assert found(package(settings={"site.global.docker.image": ""})) == [
        "error: worker has no image"
    ]


@pytest.mark.parametrize(
    ("role", "prefix", "volumes", "counts", "expected"),
    [
        ("worker", "gs://bucket/x", "", 2, []),
        ("worker", "file:///mnt/x", "nfs:h:/e:/mnt", 2, []),
        ("worker", "${site.global.user.data.dir}/x", "", 2, []),
        ("worker", "/mnt/x", "", 0, []),
        ("other", "/mnt/x", "", 2, []),
        ("tensorboard", "/mnt/x", "pvc:once:/mnt:ro", 2, []),
        ("tensorboard", "/mnt/x", "", 1, [
            "error: worker: the checkpoint folder /mnt/x is in no volume of its pods",
        ]),
        ("ps", "/mnt/x", "pvc:once:/mnt", 1, []),
        ("evaluator", "/mnt/x", "pvc:once:/mnt", 2, [
            "error: worker: the checkpoint folder is in a volume that does not fit: /mnt of the "
            "pods is the claim once, whose access mode is ReadWriteOnce",
        ]),
        ("chief", "/mnt/x", "emptyDir:/mnt", 1, [
            "warning: worker: the checkpoint folder is in a volume that does not fit: /mnt of the "
            "pods is an emptyDir, which ends with its pod",
        ]),
    ],
)  # fmt: skip
def test_checkpoints(role, prefix, volumes, counts, expected):
    settings = {**IMAGE, PREFIX: prefix, VOLUMES: volumes}
    other = component("chief")
    built = package(component("worker", role), other, counts={"worker": counts},
                    settings=settings, own={"chief": {VOLUMES: "nfs:h:/e:/mnt"}})  # fmt: skip
    if counts < 2:
        built.resources["chief"] = resources("chief", 0 if counts else 1, 2)
    assert found(built, {"once": ["ReadWriteOnce"]}) == expected


@pytest.mark.parametrize(("queue", "label"), [("default", None), ("", None), ("ml", "ml")])
def test_the_queue_is_kueues(queue, label):
    built = package(settings=IMAGE)
    at = Places.of(options(queue=queue), "ml")
    plan = compile_with(built).plan
    assert pods(plan, at)["worker"]["metadata"]["labels"].get(QUEUE_LABEL) == label
    master = master_pod(plan, at, 512, 1, "runtime")
    assert QUEUE_LABEL not in master["metadata"]["labels"], "it waits for nobody"


# Serves for as long as its own parent leaves the line open.
PARENT = """
import os, socket, sys, pathlib
from tfapp.master.parent import Parent
parent = Parent(question=pathlib.Path(sys.argv[1]))
line, end = socket.socketpair()
child = os.fork()
if not child:
    parent.become_master()
    sys.stdin.read()
    os._exit(0)
parent.look_after(child, line, 1000.0)
"""


def test_the_probe_fails_while_the_parent_of_masters_hangs(tmp_path):
    folder = tmp_path / names.PROBE
    text = PROBE.replace(f"{WORK_PATH}/{names.PROBE}", str(folder))
    ask = lambda: subprocess.run(["sh", "-c", text]).returncode == 0  # noqa: E731
    assert (ask(), ask()) == (True, True), "it has not begun"
    folder.mkdir()
    question = folder / names.QUESTION
    command = [sys.executable, "-c", PARENT, str(question)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as parent:
        for _ in range(2):
            assert ask()
            wait(lambda: not question.exists(), "no answer", 60.0)
        parent.send_signal(signal.SIGSTOP)
        assert (ask(), ask(), ask()) == (True, False, False)
        parent.send_signal(signal.SIGCONT)
        wait(ask, "no answer", 60.0)
        parent.stdin.close()
    assert parent.returncode == 0


@pytest.mark.parametrize(("port", "told"), [("0", []), ("9400", ["true", "9400", "/metrics"])])
def test_prometheus_finds_the_master(port, told):
    built = package(settings={**IMAGE, "site.global.metrics.port": port})
    pod = master_pod(compile_with(built).plan, Places.of(options(), "ml"), 512, 1, "runtime")
    found = pod["metadata"]["annotations"]
    keys = [f"prometheus.io/{name}" for name in ("scrape", "port", "path")]
    assert [found[key] for key in keys if key in found] == told


def test_findings_of_the_engine_are_findings_of_the_compilation():
    """With their places, and beside warnings of the compiler's own."""
    at = Places.of(options(), "ml")
    built = package(settings={**IMAGE, VOLUMES: "pvc:data"})
    with pytest.raises(InvalidPackageError) as caught:
        compile_with(built, check=lambda plan: check(plan, at))
    assert [str(problem) for problem in caught.value.problems] == [
        "app/appConfig.yaml:12:20: error: 'pvc:data' is no volume [kubernetes]"
    ]
    warned = package()
    compiled = compile_with(warned, check=lambda plan: check(plan, at))
    (problem,) = compiled.problems
    assert problem.message.startswith("no site.global.docker.image is given")
