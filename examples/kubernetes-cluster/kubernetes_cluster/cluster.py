"""The cluster: its machines and programs, and what disturbs them."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kubernetes_cluster import cgroups, images, kueue, machine, settings
from kubernetes_cluster.api import MERGE, Api, ApiError
from kubernetes_cluster.certificates import Authority
from kubernetes_cluster.machine import Machine
from kubernetes_cluster.processes import (
    STOP_LIMIT,
    ClusterError,
    Process,
    kill_all,
    locked,
    marked,
    run,
    tail,
    wait,
)
from kubernetes_cluster.programs import Programs, build, prepare

STATE = "cluster.json"
MARK = "TFAPP_KUBERNETES_CLUSTER"  # in the environment of every process of a cluster: its folder
CONTROL_PLANE = "control-plane"
GPU = "nvidia.com/gpu"
GPUS_OF_FIRST_NODE = 2
START_LIMIT = 180.0  # seconds
LOCK_LIMIT = 1.0
IMPORT_LIMIT = 300.0
# Of the programs that Kubernetes calls otherwise.
_BINARIES = {name: f"kube-{name}" for name in ("apiserver", "controller-manager", "scheduler")}


class Cluster:
    """One cluster: everything it has is in `folder`, but for its programs, in `cache`."""

    def __init__(self, folder: Path, cache: Path, environ: Mapping[str, str] = os.environ):
        self.folder = folder.absolute()
        self.cache = cache.absolute()
        self._inherited = dict(environ)
        self._authority = Authority(self.folder / "pki")

    # ---- what clients need -----------------------------------------------------------------------
    @property
    def kubeconfig(self) -> Path:
        """The file that makes a client the cluster's administrator."""
        return self.folder / "kubeconfig"

    def variables(self) -> dict[str, str]:
        """The variables with which clients find this cluster."""
        return {"KUBECONFIG": str(self.kubeconfig)}

    def api(self) -> Api:
        """Calls as the administrator."""
        return Api(self.kubeconfig)

    def inside(self, *words: str) -> list[str]:
        """The command that runs `words` in the cluster's network: pods have addresses there, and
        the API server is https://10.77.0.1, for the certificates of the kubeconfig file."""
        return ["nsenter", "-t", str(self._init(CONTROL_PLANE).pid), "-n", *words]

    def add_user(self, name: str, namespace: str = "default") -> Path:
        """The kubeconfig file of a user who may do nothing until a RoleBinding names them."""
        path = self.folder / "users" / name
        if not path.is_file():
            self._state()
            path.parent.mkdir(exist_ok=True)
            self._authority.issue(f"user-{name}", name)
            self._authority.write_kubeconfig(path, f"user-{name}", self.api().server, namespace)
        return path

    def nodes(self) -> list[int]:
        """The numbers of its nodes, running or not."""
        return list(range(1, self._state()["nodes"] + 1))

    def programs(self) -> dict[str, bool]:
        """Each of its programs, and whether it runs."""
        return {name: machine.runs(p) for name, p in self._processes("programs").items()}

    def require(self) -> list[str]:
        """ClusterError unless all that it cannot do without runs. Returns what does not run of its
        nodes, as "node2"."""
        ended = [name for name, running in self.programs().items() if not running]
        nodes = sorted({name.partition("/")[0] for name in ended if name.startswith("node")})
        others = [name for name in ended if not name.startswith("node")]
        relay = self._state()["relay"]
        if relay is None or not Process(**relay).alive():
            others.append("relay")
        if others:
            raise ClusterError(f"of the cluster in {self.folder}, {', '.join(others)} has ended")
        return nodes

    def memory(self) -> int:
        """Bytes that its processes have in memory, pods apart."""
        return sum(
            process.memory() + sum(child.memory() for child in process.children())
            for process in self._processes("programs").values()
        )

    # ---- start and stop --------------------------------------------------------------------------
    def start(self, nodes: int = 2, folders: Mapping[str, Path] | None = None) -> float:
        """Makes and starts it; returns seconds, the building of its programs apart. ClusterError
        when it runs, or does not come up: then nothing of it is left but its logs.

        `folders`: by their places in every container, folders of this computer that it can read.
        What many images have in common, and is too large to be copied into each, is there."""
        machine.check_account()
        cgroups.check()
        cgroups.sweep()
        programs = prepare(self.cache, self._inherited)
        machine.check_namespaces(programs.environ(self._inherited))
        with locked(self.folder, LOCK_LIMIT):
            self._claim()
            begun = time.monotonic()
            self._save(
                {
                    "nodes": nodes,
                    "machines": {},  # of each the init
                    "programs": {},  # of each the process that waits for it
                    "relay": None,
                    "binaries": str(programs.binaries),
                    "root": str(programs.root),
                    "snapshotter": "",
                    "folders": {place: str(path) for place, path in (folders or {}).items()},
                }
            )
            try:
                self._launch()
            except BaseException:
                self._end_processes()
                raise
        return time.monotonic() - begun

    def stop(self) -> None:
        """Ends every process, those of pods among them; deletes the folder."""
        if self.folder.exists():
            with self._locked():
                self._end_processes()
                shutil.rmtree(self.folder)

    # ---- what disturbs it ------------------------------------------------------------------------
    def kill_node(self, node: int) -> None:
        """Ends a node with all that runs on it, as a power cut does."""
        with self._locked():
            name = settings.node_name(node)
            init = self._init(name)
            init.send(signal.SIGKILL)
            wait(lambda: not init.alive(), f"end of node {node}", STOP_LIMIT)
            for program in ("containerd", "kubelet"):
                machine.end(self._program(f"{name}/{program}"))
            cgroups.remove(cgroups.name_of(self._init(CONTROL_PLANE)), name)

    def start_node(self, node: int) -> None:
        """Starts a node that was killed, with the images that it had; waits until it is ready."""
        with self._locked():
            name = settings.node_name(node)
            if self._init(name).alive():
                raise ClusterError(f"{name} runs already")
            before = self._api_node(name)
            self._launch_nodes([node])
            # Until the new kubelet writes, the API may show what the old one has said.
            self._await(
                lambda: self._ready(name) and self._api_node(name) != before,
                f"{name} to be ready",
            )
            self._offer_gpus()

    def pause_node(self, node: int) -> None:
        """Stops a node's kubelet (not its pods) until `resume_node`: it says nothing more."""
        machine.pause(self._program(f"{settings.node_name(node)}/kubelet"))

    def resume_node(self, node: int) -> None:
        """Lets a paused kubelet go on."""
        machine.resume(self._program(f"{settings.node_name(node)}/kubelet"))

    def cut_node(self, node: int) -> None:
        """Cuts a node with its pods off from the network, until `join_node`. All go on."""
        self._link(node, "down")

    def join_node(self, node: int) -> None:
        """Joins a node that was cut off to the network."""
        self._link(node, "up")

    def kill_api(self) -> None:
        """SIGKILL for the API server: nobody listens at its address until `start_api`."""
        with self._locked():
            machine.end(self._program("apiserver"))

    def start_api(self) -> None:
        """Starts the API server that was killed, and waits until it is ready."""
        with self._locked():
            if machine.runs(self._program("apiserver")):
                raise ClusterError("the API server runs already")
            self._launch_api()
            self._await(self.api().ready, "the API server")

    def pause_api(self) -> None:
        """Stops the API server until `resume_api`: connections to it hang."""
        machine.pause(self._program("apiserver"))

    def resume_api(self) -> None:
        """Lets a paused API server go on."""
        machine.resume(self._program("apiserver"))

    # ---- images ----------------------------------------------------------------------------------
    def load_image(self, archive: Path) -> None:
        """Gives every running node the images of an archive that `docker save` has written, or
        `images.write_archive`."""
        if not archive.is_file():
            raise ClusterError(f"there is no file {archive}")
        running = [n for n in self.nodes() if self._init(settings.node_name(n)).alive()]
        self._import(archive, running)

    def load_python(self, name: str = images.PYTHON) -> None:
        """Gives every running node an image of Debian's Python as `name`."""
        self.load(images.python_image(self.cache, self._inherited, name))

    def load(self, *wanted: images.Image) -> None:
        """Gives every running node images."""
        archive = self.folder / "image.tar"
        try:
            images.write_archive(archive, *wanted)
            self.load_image(archive)
        finally:
            archive.unlink(missing_ok=True)

    def publish(self, image: images.Image) -> str:
        """Puts an image, whose name is as "mine/train:1", into the cluster's registry, from which
        nodes pull it. Returns its whole name. The registry starts with its first image."""
        with self._locked():
            folder = self.folder / "registry"
            images.write_published(folder, image)
            if "registry" not in self._state()["programs"]:
                program = str(Path(__file__).with_name("registry.py"))
                where = (str(folder), settings.CONTROL_PLANE, str(settings.REGISTRY_PORT))
                process = self._machine(CONTROL_PLANE).start(
                    self._init(CONTROL_PLANE),
                    "registry",
                    *(sys.executable, "-I", "-S", program, *where),
                )
                self._note("registry", process)
                self._await(lambda: self._listens(settings.REGISTRY_PORT), "the registry")
        return f"{settings.REGISTRY}/{image.name}"

    # ---- Kueue -----------------------------------------------------------------------------------
    def start_kueue(self) -> None:
        """Starts Kueue, which is built if it is not there. From then on it is asked about each pod
        and Job."""
        place = build(self.cache, self._inherited, kueue.KUEUE)
        with self._locked():
            pki, config = self._authority.folder, self.folder / "kueue.json"
            kubeconfig = self.folder / "kueue.kubeconfig"
            self._authority.issue("kueue", "kueue", ("system:masters",), ("127.0.0.1",))
            self._write_inside(kubeconfig, "kueue")
            config.write_text(json.dumps(kueue.configuration()))
            api = self.api()
            for crd in sorted((place / "crds").glob("*.yaml")):
                api.call("POST", kueue.CRD_PATH, crd.read_bytes(), "application/yaml")
            api.call("POST", "/api/v1/namespaces", {"metadata": {"name": kueue.NAMESPACE}})
            self._await(self._knows_kueue, "Kueue's kinds")
            script = kueue.script(place, pki, "kueue", config, kubeconfig)
            words = ("unshare", "--mount", "sh", "-ec", script)
            plane = self._machine(CONTROL_PLANE)
            self._note("kueue", plane.start(self._init(CONTROL_PLANE), "kueue", *words))
            self._await(lambda: self._listens(kueue.PORT), "Kueue")
            for body in kueue.webhooks((pki / "ca.crt").read_bytes()):
                path = f"/apis/{body['apiVersion']}/{body['kind'].lower()}s"
                api.call("POST", path, body)

    def stop_kueue(self) -> None:
        """Nobody asks it any more, and it ends. Its objects stay."""
        with self._locked():
            for body in kueue.webhooks(b""):
                path = f"/apis/{body['apiVersion']}/{body['kind'].lower()}s/kueue"
                self.api().call("DELETE", path)
            machine.end(self._program("kueue"))

    def add_queue(self, name: str, namespace: str, quota: Mapping[str, str]) -> None:
        """A local queue of Kueue. `quota`: of each resource that pods may request; "pods" counts
        them."""
        for path, body in kueue.queue(name, namespace, quota):
            self._await(lambda path=path, body=body: self._made(path, body), f"{path} of {name}")

    def _made(self, path: str, body: Mapping[str, Any]) -> bool:
        """False while Kueue cannot be asked about it."""
        try:
            self.api().call("POST", path, body)
        except ApiError as error:
            if error.code not in (409, 500):
                raise
            return error.code == 409
        return True

    def _knows_kueue(self) -> bool:
        crds = [crd["spec"] for crd in self.api().call("GET", kueue.CRD_PATH)["items"]]
        paths = [
            f"/apis/{crd['group']}/{version['name']}/{crd['names']['plural']}"
            for crd in crds
            for version in crd["versions"]
            if crd["group"] == kueue.GROUP and version["storage"]
        ]
        try:
            return all(map(self._found, paths))
        except ApiError as error:
            if error.code != 429:  # "storage is (re)initializing"
                raise
            return False

    def _listens(self, port: int) -> bool:
        """In the control plane's network, its tables of TCP's sockets: state 0A is LISTEN."""
        folder = Path(f"/proc/{self._init(CONTROL_PLANE).pid}/net")
        tables = "".join((folder / name).read_text() for name in ("tcp", "tcp6"))
        return re.search(f":{port:04X} [0-9A-F:]+ 0A ", tables) is not None

    def _import(self, archive: Path, nodes: list[int]) -> None:
        with contextlib.ExitStack() as running:
            imports = {}
            for node in nodes:
                command = ["ctr", "--address", settings.CONTAINERD, "--namespace", "k8s.io"]
                command += ["images", "import", "--snapshotter", self._state()["snapshotter"]]
                place = self._machine(settings.node_name(node))
                words = place.command(self._init(place.name), *command, str(archive))
                imports[node] = running.enter_context(
                    subprocess.Popen(
                        words,
                        env=self._environ(),
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT,
                        text=True,
                    )
                )
            end = time.monotonic() + IMPORT_LIMIT
            for node, process in imports.items():
                try:
                    output, _ = process.communicate(timeout=max(0, end - time.monotonic()))
                except BaseException:
                    for each in imports.values():
                        each.kill()
                    raise
                if process.returncode:
                    raise ClusterError(f"node {node} cannot take {archive}: {output.strip()}")

    # ---- in parts --------------------------------------------------------------------------------
    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """For one at a time, with a cluster that was started."""
        self._state()
        with locked(self.folder, LOCK_LIMIT):
            yield

    def _claim(self) -> None:
        for place in machine.HIDDEN:
            for own in (self.folder, self.cache):
                if Path(place) in Path(os.path.realpath(own)).parents:
                    raise ClusterError(f"{own} is below {place}, which its machines do not see")
        if (self.folder / STATE).exists():
            if marked(MARK, str(self.folder)):
                raise ClusterError(f"the cluster in {self.folder} runs already; stop it first")
            for name in os.listdir(self.folder):
                path = self.folder / name
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        elif set(os.listdir(self.folder)) - {f"{STATE}.new"}:
            raise ClusterError(f"{self.folder} is not empty, and not a cluster's; name another")

    def _launch(self) -> None:
        self._save({**self._state(), "snapshotter": self._snapshotter()})
        authority = self._authority
        authority.create()
        hosts = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost")
        addresses = ("127.0.0.1", settings.CONTROL_PLANE, settings.API_SERVICE)
        authority.issue("apiserver", "kube-apiserver", hosts=(*hosts, *addresses))
        authority.issue("admin", "admin", groups=("system:masters",))
        authority.issue("kubelet-client", "kube-apiserver", groups=("system:masters",))
        for name in ("controller-manager", "scheduler"):
            authority.issue(name, f"system:kube-{name}")
            self._write_inside(self.folder / f"{name}.kubeconfig", name)
        self._launch_control_plane()
        self._launch_nodes(self.nodes())
        self._await(self.api().ready, "the API server")
        self._launch_controllers()
        names = list(map(settings.node_name, self.nodes()))
        self._await(lambda: all(map(self._ready, names)), "the nodes to be ready")
        self._offer_gpus()
        # Without these two a pod cannot be made, or waits for minutes.
        for path in ("serviceaccounts/default", "configmaps/kube-root-ca.crt"):
            self._await(
                lambda path=path: self._found(f"/api/v1/namespaces/default/{path}"),
                f"{path} of the namespace default",
            )

    def _launch_control_plane(self) -> None:
        place = self._create(CONTROL_PLANE)
        init = self._init(CONTROL_PLANE)
        place.run(
            init,
            f"ip link add br0 address {settings.BRIDGE_MAC} type bridge",
            f"ip address add {settings.CONTROL_PLANE}/24 dev br0",
            f"ip address add {settings.API_SERVICE}/32 dev lo",
            "ip link set br0 up",
        )
        self._start(CONTROL_PLANE, "etcd", *settings.etcd(self.folder / "etcd"))
        self._launch_api()
        port = self._launch_relay(init)
        server = f"https://127.0.0.1:{port}"
        self._authority.write_kubeconfig(self.kubeconfig, "admin", server, "default")

    def _launch_api(self) -> None:
        flags = settings.api_server(self._authority.folder)
        self._start(CONTROL_PLANE, "apiserver", *flags)

    def _launch_relay(self, init: Process) -> int:
        """The port of this computer at which it listens."""
        words = [str(init.pid), "0", settings.CONTROL_PLANE, "443"]
        program = Path(__file__).with_name("relay.py")
        with (self.folder / "relay.log").open("ab") as log:
            relay = subprocess.Popen(
                [sys.executable, "-I", "-S", str(program), *words],
                env=self._environ(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        relay.returncode = 0  # It outlives this one: `subprocess` is not to warn of that.
        assert relay.stdout is not None
        with relay.stdout:
            port = relay.stdout.readline()
        if not port:
            raise ClusterError(f"the relay has ended:\n{tail(self.folder / 'relay.log')}")
        self._save({**self._state(), "relay": dataclasses.asdict(Process.of(relay.pid))})
        return int(port)

    def _launch_controllers(self) -> None:
        pki, folder = self._authority.folder, self.folder
        flags = settings.controller_manager(pki, folder / "controller-manager.kubeconfig")
        self._start(CONTROL_PLANE, "controller-manager", *flags)
        flags = settings.scheduler(folder / "scheduler.kubeconfig")
        self._start(CONTROL_PLANE, "scheduler", *flags)

    def _launch_nodes(self, nodes: list[int]) -> None:
        for node in nodes:
            place = self._create(settings.node_name(node))
            self._connect(node)
            self._configure(node)
            config = str(place.folder / "containerd.toml")
            self._start(place.name, "containerd", "--config", config, "--log-level", "warn")
        pause = self.folder / "pause.tar"
        if not pause.exists():
            images.write_pause(pause)
        for node in nodes:
            init = self._init(settings.node_name(node))
            socket = f"/proc/{init.pid}/root{settings.CONTAINERD}"
            self._await(lambda socket=socket: os.path.exists(socket), f"containerd of node {node}")
        self._import(pause, nodes)
        for node in nodes:
            name = settings.node_name(node)
            self._start(name, "kubelet", *settings.kubelet(node, self.folder / name))

    def _connect(self, node: int) -> None:
        """A link to the bridge of the control plane, one for pods, the ways to those of others."""
        name, address = settings.node_name(node), settings.node_address(node)
        plane, init = self._init(CONTROL_PLANE), self._init(name)
        # In the process namespace of this computer, which knows both.
        link = f"ip link add link{node} type veth peer name eth0 netns {init.pid}"
        enter = ["nsenter", "-t", str(plane.pid), "-n"]
        run([*enter, *link.split()], machine.LIMIT, f"linking {name}", self._environ())
        self._machine(CONTROL_PLANE).run(
            plane,
            f"ip link set link{node} master br0 up",
            f"ip route replace {settings.pod_network(node)} via {address}",
        )
        self._machine(name).run(
            init,
            f"ip address add {address}/24 dev eth0",
            "ip link set eth0 up",
            f"ip link add {settings.POD_BRIDGE} address {settings.BRIDGE_MAC} type bridge",
            f"ip route add default via {settings.CONTROL_PLANE}",
            *(
                f"ip route add {settings.pod_network(other)} via {settings.node_address(other)}"
                for other in self.nodes()
                if other != node
            ),
        )

    def _configure(self, node: int) -> None:
        name, folder = settings.node_name(node), self.folder / settings.node_name(node)
        cluster = cgroups.name_of(self._init(CONTROL_PLANE))
        cgroups.make(cluster, name)
        if not (folder / "kubeconfig").exists():  # it may have been killed, and start again
            user, hosts = f"system:node:{name}", (name, settings.node_address(node))
            self._authority.issue(name, user, groups=("system:nodes",), hosts=hosts)
            self._write_inside(folder / "kubeconfig", name)
        snapshotter, group = self._state()["snapshotter"], f"{cluster}/{name}"
        settings.write_node(
            node, folder, self._authority, self._tools(), snapshotter, group, self._spec()
        )

    def _spec(self) -> dict[str, Any]:
        """What every container begins with: containerd's own, and the folders that all have."""
        asked = ["ctr", "oci", "spec"]
        text = run(asked, machine.LIMIT, "asking ctr for its specification", self._environ())
        spec = json.loads(text)
        for place, path in self._state()["folders"].items():
            mount = {"destination": place, "type": "bind", "source": path}
            spec["mounts"].append({**mount, "options": ["rbind", "ro"]})
        return spec

    def _offer_gpus(self) -> None:
        """They are counted; there is no device."""
        path = f"/api/v1/nodes/{settings.node_name(1)}/status"
        body = {"status": {"capacity": {GPU: str(GPUS_OF_FIRST_NODE)}}}
        self.api().call("PATCH", path, body, MERGE)

    def _write_inside(self, path: Path, file: str) -> None:
        server = f"https://{settings.CONTROL_PLANE}:443"
        self._authority.write_kubeconfig(path, file, server, "default")

    def _link(self, node: int, state: str) -> None:
        self._init(settings.node_name(node))
        plane = self._machine(CONTROL_PLANE)
        plane.run(self._init(CONTROL_PLANE), f"ip link set link{node} {state}")

    def _create(self, name: str) -> Machine:
        place = self._machine(name)
        holder, init = place.create()
        state = self._state()
        state["machines"][name] = dataclasses.asdict(init)
        state["programs"] = {
            key: value for key, value in state["programs"].items() if not key.startswith(f"{name}/")
        }
        self._save(state)
        place.prepare(init)
        return place

    def _start(self, name: str, program: str, *words: str) -> None:
        """Starts a program on a machine; `words` are its flags."""
        binary = self._tools().binaries / _BINARIES.get(program, program)
        command = str(binary) if binary.exists() else program
        process = self._machine(name).start(self._init(name), program, command, *words)
        self._note(program if name == CONTROL_PLANE else f"{name}/{program}", process)

    def _end_processes(self) -> None:
        """Without grace: what they would put in order is about to be deleted."""
        kill_all(lambda: marked(MARK, str(self.folder)), "the cluster's processes")
        cgroups.sweep()

    def _await(self, ready: Callable[[], bool], what: str) -> None:
        """Waits for `ready`. ClusterError with the log's end when a program ends meanwhile."""

        def check() -> bool:
            for name, process in self._processes("programs").items():
                if not process.alive() and self._machine_runs(name):
                    place, _, program = name.rpartition("/")
                    log = self.folder / (place or CONTROL_PLANE) / f"{program}.log"
                    raise ClusterError(f"{name} has ended; the end of {log}:\n{tail(log)}")
            with contextlib.suppress(OSError, http.client.HTTPException):
                return ready()
            return False

        wait(check, what, START_LIMIT)

    def _machine_runs(self, program: str) -> bool:
        return self._init(program.rpartition("/")[0] or CONTROL_PLANE).alive()

    def _ready(self, name: str) -> bool:
        node = self._api_node(name)
        conditions = node["status"].get("conditions", ()) if node else ()
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    def _api_node(self, name: str) -> dict[str, Any]:
        """{} until it is there."""
        try:
            return self.api().call("GET", f"/api/v1/nodes/{name}")
        except ApiError as error:
            if error.code != 404:
                raise
            return {}

    def _found(self, path: str) -> bool:
        try:
            self.api().call("GET", path)
        except ApiError as error:
            if error.code != 404:
                raise
            return False
        return True

    def _snapshotter(self) -> str:
        """Containerd's: "native", which copies, where the folder's file system takes no overlay."""
        trial = self.folder / "overlay"
        for name in ("lower", "upper", "work", "merged"):
            (trial / name).mkdir(parents=True)
        options = f"lowerdir={trial}/lower,upperdir={trial}/upper,workdir={trial}/work"
        mount = ["mount", "-t", "overlay", "-o", options, "overlay", f"{trial}/merged"]
        command = ["unshare", "--mount", "--propagation", "private", *mount]
        try:
            run(command, machine.LIMIT, "mounting an overlay", self._environ())
        except ClusterError:
            return "native"
        finally:
            shutil.rmtree(trial)
        return "overlayfs"

    # ---- state -----------------------------------------------------------------------------------
    def _environ(self) -> dict[str, str]:
        """Of its programs: nothing of a user's, a proxy for example."""
        path = self._inherited.get("PATH", os.defpath)
        own = {"PATH": path, "HOME": "/root", "LC_ALL": "C", MARK: str(self.folder)}
        return self._tools().environ(own)

    def _tools(self) -> Programs:
        state = self._state()
        return Programs(Path(state["binaries"]), Path(state["root"]))

    def _machine(self, name: str) -> Machine:
        return Machine(name, self.folder / name, self._environ())

    def _state(self) -> dict[str, Any]:
        try:
            return json.loads((self.folder / STATE).read_text())
        except FileNotFoundError:
            raise ClusterError(f"there is no cluster in {self.folder}; start one") from None

    def _save(self, state: Mapping[str, Any]) -> None:
        new = self.folder / f"{STATE}.new"
        new.write_text(json.dumps(state, indent=1))
        new.replace(self.folder / STATE)

    def _note(self, program: str, process: Process) -> None:
        state = self._state()
        state["programs"][program] = dataclasses.asdict(process)
        self._save(state)

    def _processes(self, kind: str) -> dict[str, Process]:
        return {name: Process(**value) for name, value in self._state()[kind].items()}

    def _program(self, name: str) -> Process:
        try:
            return self._processes("programs")[name]
        except KeyError:
            raise ClusterError(f"there is no {name}") from None

    def _init(self, name: str) -> Process:
        try:
            return self._processes("machines")[name]
        except KeyError:
            raise ClusterError(f"there is no {name}") from None
