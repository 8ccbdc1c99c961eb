"""The cluster that users start for themselves, and what disturbs it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from kubernetes_cluster import cgroups, machine, settings
from kubernetes_cluster.api import Api, ApiError
from kubernetes_cluster.cluster import CONTROL_PLANE as PLANE
from kubernetes_cluster.cluster import MARK, Cluster
from kubernetes_cluster.processes import ClusterError, Process, UnavailableError, all_pids, marked
from kubernetes_cluster.programs import codename

from tests.clusters.kubernetes import EXAMPLE
from tests.clusters.kubernetes.namespace import LIMIT, wait_for
from tests.runner.docker.engine import processes_with

PROGRAM = EXAMPLE / "cluster.py"
RBAC = "rbac.authorization.k8s.io/v1"

# A process whose first thread ends, and another one once it is told so.
THREADS = """
import ctypes, os, threading
threading.Thread(target=lambda: (os.read(0, 1), os._exit(0))).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
"""
# Lists the pods of the namespaces that it is told, as any program in a pod may ask for them.
IN_CLUSTER = """
import os, ssl, urllib.error, urllib.request
place = "/var/run/secrets/kubernetes.io/serviceaccount"
server = f"https://{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ['KUBERNETES_SERVICE_PORT']}"
context = ssl.create_default_context(cafile=f"{place}/ca.crt")
headers = {"Authorization": "Bearer " + open(f"{place}/token").read()}
for name in os.environ["NAMESPACES"].split():
    request = urllib.request.Request(f"{server}/api/v1/namespaces/{name}/pods", headers=headers)
    try: print(urllib.request.urlopen(request, context=context, timeout=60).status)
    except urllib.error.HTTPError as error: print(error.code)
"""


def condition(found: dict, kind: str) -> dict:
    """Of a pod or a node, {} where there is none."""
    conditions = found["status"].get("conditions", ())
    return next((each for each in conditions if each["type"] == kind), {})


def is_ready(api: Api, node: int) -> bool:
    return condition(api.call("GET", f"/api/v1/nodes/node{node}"), "Ready")["status"] == "True"


def test_two_nodes_are_ready(cluster):
    found = cluster.api().call("GET", "/api/v1/nodes")["items"]
    nodes = {node["metadata"]["name"]: node for node in found}
    assert {n: condition(node, "Ready")["status"] for n, node in nodes.items()} == {
        "node1": "True",
        "node2": "True",
    }
    gpus = {n: node["status"]["capacity"].get("nvidia.com/gpu") for n, node in nodes.items()}
    assert gpus == {"node1": "2", "node2": None}
    zone = "topology.kubernetes.io/zone"
    zones = {n: node["metadata"]["labels"][zone] for n, node in nodes.items()}
    assert zones == {"node1": "zone1", "node2": "zone2"}
    assert cluster.api().call("GET", "/version")["gitVersion"] == "v1.37.2"


def test_a_pod_that_asks_for_a_gpu_is_on_the_node_that_has_some(namespace):
    limits = {"resources": {"limits": {"nvidia.com/gpu": "2"}}}
    namespace.run("one", "pass", container=limits)
    assert namespace.wait("one", "Succeeded")["spec"]["nodeName"] == "node1"
    too_many = {"resources": {"limits": {"nvidia.com/gpu": "3"}}}
    namespace.run("two", "pass", container=too_many)
    wait_for(lambda: condition(namespace.pod("two"), "PodScheduled"), "verdict of the scheduler")
    verdict = condition(namespace.pod("two"), "PodScheduled")
    assert verdict["reason"] == "Unschedulable"
    assert "Insufficient nvidia.com/gpu" in verdict["message"]


def test_a_claim_is_bound_to_a_volume_that_both_nodes_have(namespace, shared_volume):
    namespace.claim("data", shared_volume)
    mounted = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
    mounted["securityContext"] = {"runAsUser": 1000}
    container = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    write = "open('/data/file', 'w').write('of node 1')"
    namespace.run("writes", write, node=1, container=container, **mounted)
    namespace.wait("writes", "Succeeded")
    assert (shared_volume / "file").stat().st_uid == 1000
    mounted["volumes"] = [{"name": "data", "hostPath": {"path": str(shared_volume)}}]
    read = "print(open('/data/file').read())"
    namespace.run("reads", read, node=2, container=container, **mounted)
    namespace.wait("reads", "Succeeded")
    assert namespace.log("reads") == "of node 1\n"


def test_a_token_of_a_service_account_is_good_for_what_its_role_says(namespace):
    role = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
    namespace.add(RBAC, "roles", {"metadata": {"name": "list"}, "rules": [role]})
    account = {"kind": "ServiceAccount", "name": "default", "namespace": namespace.name}
    reference = {"kind": "Role", "name": "list", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": "list"}, "subjects": [account], "roleRef": reference}
    namespace.add(RBAC, "rolebindings", binding)
    container = {"env": [{"name": "NAMESPACES", "value": f"{namespace.name} default"}]}
    namespace.run("asks", IN_CLUSTER, container=container)
    namespace.wait("asks", "Succeeded")
    assert namespace.log("asks") == "200\n403\n"


def test_a_user_may_do_nothing_until_a_role_is_theirs(cluster, namespace):
    user = Api(cluster.add_user("colleague", namespace.name))
    with pytest.raises(ApiError, match='pods is forbidden: User "colleague" cannot list') as caught:
        user.call("GET", f"{namespace.path}/pods")
    assert caught.value.code == 403
    reference = {"kind": "ClusterRole", "name": "view", "apiGroup": "rbac.authorization.k8s.io"}
    subject = {"kind": "User", "name": "colleague", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": "view"}, "subjects": [subject], "roleRef": reference}
    namespace.add(RBAC, "rolebindings", binding)

    def allowed() -> bool:
        try:
            return user.call("GET", f"{namespace.path}/pods")["items"] == []
        except ApiError:
            return False

    wait_for(allowed, "rights of the user")


def test_bridges_keep_their_hardware_address_when_nodes_and_pods_come_and_go(cluster):
    """Who knows another one hears nothing from behind it for minutes."""
    addresses = set()
    for process in marked(MARK, str(cluster.folder)):
        command = ["nsenter", "-t", str(process.pid), "-n", "ip", "-br", "link", "show", "type"]
        found = subprocess.run([*command, "bridge"], capture_output=True, text=True, check=False)
        links = [line.split() for line in found.stdout.splitlines()]
        addresses |= {(name, address) for name, _, address, *_ in links}
    assert addresses == {(name, settings.BRIDGE_MAC) for name in ("br0", settings.POD_BRIDGE)}


@pytest.mark.weekly
@pytest.mark.parametrize(
    ("disturb", "repair"),
    [(Cluster.pause_node, Cluster.resume_node), (Cluster.cut_node, Cluster.join_node)],
)
def test_a_silent_node_is_lost_and_comes_back(cluster, namespace, disturb, repair):
    """For one that is killed see tests/clusters/kubernetes/test_engine.py."""
    api = cluster.api()
    sleeps = f"import time; time.sleep(3600)  # {namespace.name}"
    namespace.run("lost", sleeps, node=2)
    namespace.run("other", sleeps, node=1)
    for name in ("lost", "other"):
        namespace.wait(name, "Running")
    before = processes_with(namespace.name)
    disturb(cluster, 2)
    try:
        wait_for(lambda: not is_ready(api, 2), "loss of the node")
        wait_for(lambda: condition(namespace.pod("lost"), "DisruptionTarget"), "mark of its pod")
        lost = namespace.pod("lost")
        assert condition(lost, "DisruptionTarget")["reason"] == "DeletionByTaintManager"
        assert lost["status"]["phase"] == "Running"
        assert lost["metadata"]["deletionTimestamp"]
        assert condition(namespace.pod("other"), "DisruptionTarget") == {}
        assert len(processes_with(namespace.name)) == len(before)
    finally:
        repair(cluster, 2)
    wait_for(lambda: is_ready(api, 2), "return of the node")
    wait_for(lambda: not namespace.found("pods/lost"), "end of the lost pod")
    namespace.run("again", "print('here')", node=2)  # with the image that the node has kept
    namespace.wait("again", "Succeeded")
    assert namespace.log("again") == "here\n"
    assert namespace.pod("other")["status"]["phase"] == "Running"


@pytest.mark.weekly
def test_pods_go_on_while_the_api_server_is_away(cluster, namespace):
    namespace.run("counts", "import time\nfor i in range(3600): print(i); time.sleep(1)")
    before = namespace.wait("counts", "Running")["status"]
    cluster.pause_api()
    try:
        with pytest.raises(TimeoutError):
            namespace.pods()
    finally:
        cluster.resume_api()
    wait_for(cluster.api().ready, "API server")
    wait_for(lambda: all(is_ready(cluster.api(), node) for node in (1, 2)), "nodes")
    after = namespace.pod("counts")["status"]
    assert after["containerStatuses"] == before["containerStatuses"]
    wait_for(lambda: "\n20\n" in namespace.log("counts"), "its log")


# ---- the command line ----------------------------------------------------------------------------
class Second:
    """A cluster of one node that the command line makes beside the session's."""

    def __init__(self, folder: Path, cache: Path):
        self.folder = folder
        self.cluster = Cluster(folder, cache)
        self._where = ["--dir", str(folder), "--cache", str(cache)]

    def words(self, *words: str) -> list[str]:
        return [sys.executable, str(PROGRAM), *words, *self._where]

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.words(*words), capture_output=True, text=True, timeout=2 * LIMIT)

    def ok(self, *words: str) -> str:
        done = self.call(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout


def network_namespaces(pids: Iterable[int]) -> set[str]:
    """Of processes."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended
            found.add(os.readlink(f"/proc/{pid}/ns/net"))
    return found


def processes_of(cluster: Cluster) -> list[int]:
    """Its programs, and those of its pods."""
    plane = Process(**json.loads((cluster.folder / "cluster.json").read_text())["machines"][PLANE])
    group = cgroups.name_of(plane)
    found = [process.pid for process in marked(MARK, str(cluster.folder))]
    for pid in all_pids():
        with contextlib.suppress(OSError):
            if group in Path(f"/proc/{pid}/cgroup").read_text():
                found.append(pid)
    return found


@pytest.fixture
def second(cluster, cache, tmp_path) -> Second:
    made = Second(tmp_path / "second", cache)
    cgroups.sweep()  # what somebody's killed cluster has left is not of this one
    yield made
    if made.folder.exists():
        made.call("stop")


def traces(folder: Path) -> dict[str, object]:
    """What the cluster in `folder` changes of this computer while it runs, and must not leave
    changed. The Docker engines, Spark clusters and networks of tests beside this one are theirs."""
    flags = [Path("/proc/sys", name) for name in machine.KERNEL_FLAGS]
    places = (str(folder), *machine.HIDDEN, "/opt", "/proc", "/sys", "/usr")
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    return {
        "mounts": sorted(line for line in mounts if line.split()[1].startswith(places)),
        "links": sorted(
            name for name in os.listdir("/sys/class/net") if not name.startswith(("tfb", "tfspark"))
        ),
        # Those of other clusters come and go with them.
        "control groups": sorted(str(each) for each in cgroups._groups() if cgroups._ended(each)),
        "kernel": {flag.name: flag.read_text() for flag in flags if flag.exists()},
        "places": [
            Path(place).exists() for place in ("/opt/containerd", "/usr/libexec/kubernetes")
        ],
    }


@pytest.mark.weekly
def test_a_second_cluster_runs_beside_it_and_leaves_nothing(second):
    before = traces(second.folder)
    exports = second.ok("start", "--nodes", "1")
    assert exports == f"export KUBECONFIG={second.folder}/kubeconfig\n"
    again = second.call("start")
    assert again.returncode == 1
    assert again.stderr == (
        f"cluster.py: the cluster in {second.folder} runs already; stop it first\n"
    )
    assert second.ok("env") == exports
    status = [line.split(maxsplit=1) for line in second.ok("status").splitlines()]
    assert {name: text for name, text in status if name != "memory"} == dict.fromkeys(
        (
            *("etcd", "apiserver", "controller-manager", "scheduler"),
            *("node1/containerd", "node1/kubelet"),
        ),
        "runs",
    )
    second.ok("image", "python")
    api = Api(second.folder / "kubeconfig")
    container = {"name": "main", "image": "localhost/tfapp/python:1", "command": ["sleep", "3600"]}
    pod = {"metadata": {"name": "sleeps"}, "spec": {"containers": [container]}}
    pods = "/api/v1/namespaces/default/pods"
    api.call("POST", pods, pod)
    wait_for(lambda: api.call("GET", f"{pods}/sleeps")["status"]["phase"] == "Running", "pod")
    networks = network_namespaces(processes_of(second.cluster)) - {os.readlink("/proc/self/ns/net")}
    assert len(networks) == 3  # of the control plane, the node and the pod
    user = Api(Path(second.ok("user", "colleague").strip()))
    with pytest.raises(ApiError, match="403"):
        user.call("GET", pods)
    second.ok("node", "1", "kill")
    done = second.call("env")
    assert (done.returncode, done.stdout) == (0, exports)
    assert done.stderr == "cluster.py: node1 has ended; `node 1 start`\n"
    second.ok("node", "1", "start")
    second.ok("api", "kill")
    done = second.call("env")
    assert done.returncode == 1
    assert done.stderr.endswith("apiserver has ended\n")
    second.ok("stop")
    assert marked(MARK, str(second.folder)) == []
    assert processes_with(str(second.folder)) == []
    assert not second.folder.exists()
    assert traces(second.folder) == before
    assert not network_namespaces(all_pids()) & networks


@pytest.mark.weekly
def test_nothing_is_left_of_a_start_that_was_killed(second):
    before = traces(second.folder)
    start = subprocess.Popen(
        second.words("start", "--nodes", "1"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    with start:
        wait_for((second.folder / "node1" / "containerd.log").exists, "containerd")
        start.send_signal(signal.SIGKILL)
    networks = network_namespaces(processes_of(second.cluster)) - {os.readlink("/proc/self/ns/net")}
    assert len(networks) == 2  # of the control plane and the node
    second.ok("stop")
    assert marked(MARK, str(second.folder)) == []
    assert processes_with(str(second.folder)) == []
    assert not second.folder.exists()
    assert traces(second.folder) == before
    assert not network_namespaces(all_pids()) & networks


# ---- without one ---------------------------------------------------------------------------------
def test_a_folder_that_is_not_a_cluster_is_left_alone(tmp_path, monkeypatch):
    (tmp_path / "thesis.tex").write_text("precious")
    cluster = Cluster(tmp_path, tmp_path)
    with pytest.raises(ClusterError, match="not a cluster's"):
        cluster._claim()
    for command in (cluster.stop, cluster.kill_api, lambda: cluster.kill_node(1)):
        with pytest.raises(ClusterError, match="there is no cluster in"):
            command()
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_folder_that_the_machines_would_hide_is_refused(tmp_path):
    cluster = Cluster(Path("/var/lib/tfapp-cluster"), tmp_path)
    with pytest.raises(ClusterError, match="/var/lib/tfapp-cluster is below /var/lib, which"):
        cluster._claim()


def test_a_process_has_ended_with_its_last_thread():
    """Until then it has its ports."""
    with subprocess.Popen([sys.executable, "-c", THREADS], stdin=subprocess.PIPE) as process:
        found = Process.of(process.pid)
        stat = Path(f"/proc/{process.pid}/stat")
        wait_for(lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z", "a thread's end")
        assert found.alive()
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        wait_for(lambda: not found.alive(), "the other thread's end")


def test_it_needs_root(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UnavailableError, match="the cluster needs root"):
        Cluster(tmp_path / "cluster", tmp_path).start()
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_had_is_said_in_a_sentence(tmp_path):
    """No namespaces: the machine's `unshare` fails."""
    unshare = tmp_path / "unshare"
    unshare.write_text("#!/bin/sh\necho 'unshare failed: Operation not permitted'\nexit 1\n")
    unshare.chmod(0o755)
    with pytest.raises(UnavailableError) as caught:
        machine.check_namespaces({"PATH": str(tmp_path)})
    assert str(caught.value) == (
        "making namespaces and a bridge failed:\nunshare failed: Operation not permitted"
    )


@pytest.mark.parametrize("interrupt", [signal.SIGINT, signal.SIGTERM])
def test_a_build_that_is_broken_off_ends_what_it_has_started(tmp_path, interrupt):
    """Here a `go` that never ends, and an apt-get as well."""
    for name in ("go", "apt-get"):
        program = tmp_path / name
        program.write_text(
            "#!/bin/sh\n"
            'if [ "$1" = env ]; then echo go99.0; exit; fi\n'
            f"echo $$ > {tmp_path}/begun.{name} && exec sleep 600\n"
        )
        program.chmod(0o755)
    words = [sys.executable, PROGRAM, "build", "--cache", tmp_path / "cache"]
    begun = [tmp_path / "begun.go"]
    if codename():
        begun.append(tmp_path / "begun.apt-get")
    build = subprocess.Popen(
        list(map(str, words)),
        env={**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with build:
        wait_for(lambda: all(path.exists() and path.read_text() for path in begun), "both")
        os.killpg(build.pid, interrupt)
        said = build.stderr.read()
    assert build.returncode == 128 + interrupt
    assert all(line.startswith("cluster.py: ") for line in said.splitlines()), said
    assert not [path.name for path in begun if Path("/proc", path.read_text().strip()).exists()]
