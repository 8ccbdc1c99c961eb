#!/usr/bin/env python3
"""A real Hadoop cluster on one Linux machine: HDFS and YARN, every daemon a process of its own.

    python cluster.py start          make and start it; prints what to export
    eval "$(python cluster.py env)"  JAVA_HOME, HADOOP_CONF_DIR, PATH
    python cluster.py node 2 kill    kill, pause, resume or start a NodeManager
    python cluster.py manager kill   kill or start the ResourceManager, which keeps what it knows
    python cluster.py stop           end every process of it and delete its folder

It listens on loopback addresses, on ports that were free when it started, and needs Java 17 and
Maven: the jars named in pom.xml are fetched once. NodeManager i is the host 127.0.0.(i+1); the
first offers 2 GPUs (counted, not there), the last alone has the node label "special", and ends
containers that use more memory than they asked for. Queues: default; batch, whose containers get at
most half a node's memory, and which lends to default and borrows of it; labelled, whose
applications go to the labelled node; closed, which takes nothing; private, which nobody but an
administrator may use.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
import json
import os
import pwd
import random
import shlex
import shutil
import signal
import socket
import string
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
STATE = "cluster.json"
LABEL = "special"
GPUS_OF_FIRST_NODE = 2
START_LIMIT = 120.0  # seconds
STOP_LIMIT = 60.0

# Hadoop 3.4's own list for Java 17.
OPENED = (
    *("java.io", "java.lang", "java.lang.reflect", "java.math", "java.net", "java.text"),
    *("java.util", "java.util.concurrent", "java.util.zip"),
    *("sun.security.util", "sun.security.x509"),
)
# For JVMs that do little: compiled quickly, not thoroughly.
SMALL = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
NAMENODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
DATANODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
MANAGER = "resourcemanager"
RESOURCE_MANAGER = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
MASTER_EXPIRY = "yarn.am.liveness-monitor.expiry-interval-ms"
NODE_MANAGER = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"

PORTS = (
    *("namenode", "namenode_web", "datanode", "datanode_ipc", "datanode_web"),
    *("manager", "manager_scheduler", "manager_tracker", "manager_admin", "manager_web"),
    *("node", "node_localizer", "node_web", "node_collector"),
)
# Below the range from which Linux takes ports for outgoing connections.
PORT_RANGE = range(20000, 32000)


class ClusterError(Exception):
    """The cluster cannot be made, started or found; the message says why."""


@dataclasses.dataclass(frozen=True)
class Size:
    """How many NodeManagers, and what each offers. `memory` in MiB. HDFS keeps a replica of each
    block on each DataNode."""

    nodes: int = 3
    memory: int = 8192
    vcores: int = 8
    datanodes: int = 1


@dataclasses.dataclass(frozen=True)
class Process:
    """A process, told from a later one of the same id by when it started (clock ticks)."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> Process:
        """ProcessLookupError when there is no such process, or it has ended."""
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            raise ProcessLookupError(pid) from None
        if fields[0] in "ZX":
            raise ProcessLookupError(pid)
        return cls(pid, int(fields[19]))

    def alive(self) -> bool:
        """Whether this very process still runs (or is stopped by a signal)."""
        try:
            return Process.of(self.pid) == self
        except ProcessLookupError:
            return False

    def send(self, number: int) -> None:
        """Sends a signal, unless it has ended."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


class Cluster:
    """One cluster: everything it has is in `folder`, but for the jars, in `cache`."""

    def __init__(self, folder: Path, cache: Path, environ: Mapping[str, str] = os.environ):
        self.folder = folder.absolute()
        self.cache = cache.absolute()
        self._inherited = dict(environ)

    # ---- what clients need ---------------------------------------------------------------------
    @property
    def commands(self) -> Path:
        """The folder of the cluster's own `yarn` and `hdfs`, for PATH."""
        return self.folder / "bin"

    def variables(self) -> dict[str, str]:
        """The variables with which Hadoop's commands and Skein find this cluster."""
        conf = str(self.folder / "conf")
        java = str(java_home(self._inherited))
        return {"JAVA_HOME": java, "HADOOP_CONF_DIR": conf, "YARN_CONF_DIR": conf}

    def environ(self) -> dict[str, str]:
        """The whole environment of a client: this process's, `variables()`, and PATH."""
        path = f"{self.commands}{os.pathsep}{self._inherited.get('PATH', os.defpath)}"
        return {**self._inherited, **self.variables(), "PATH": path}

    @property
    def storage(self) -> str:
        """The URL of its HDFS."""
        return f"hdfs://127.0.0.1:{self._ports()['namenode']}"

    def require(self) -> list[str]:
        """ClusterError unless all that it cannot do without runs. Returns the NodeManagers that
        do not ("node2")."""
        ended = [name for name, process in self._processes().items() if not process.alive()]
        nodes = [name for name in ended if name[4:].isdigit()]
        if len(nodes) < len(ended):
            raise ClusterError(f"of the cluster in {self.folder}, {', '.join(ended)} has ended")
        return nodes

    def host(self, node: int) -> str:
        """The address of NodeManager `node`, counted from 1."""
        return f"127.0.0.{node + 1}"

    def web(self, path: str, data: object = None, who: str = "") -> bytes:
        """Answer of the ResourceManager's REST service to `who`, else to the administrator.
        OSError when there is none."""
        url = f"http://127.0.0.1:{self._ports()['manager_web']}/ws/v1/cluster/{path}"
        return self._http(f"{url}{'&' if '?' in path else '?'}user.name={who or user()}", data)

    def metric(self, name: str) -> int:
        """One of the ResourceManager's numbers about the whole cluster."""
        return json.loads(self.web("metrics"))["clusterMetrics"][name]

    # ---- start and stop ------------------------------------------------------------------------
    def start(self, size: Size = Size()) -> float:
        """Makes and starts it; returns seconds, the fetching of jars apart. ClusterError when it
        runs, or does not come up: then nothing of it is left but its logs."""
        self._claim()
        jars = fetch_jars(self.cache, self._inherited)
        begun = time.monotonic()
        ports = free_ports([self.host(node) for node in range(size.nodes + 1)])
        self._write(size, ports, jars)
        try:
            self._launch(size)
        except BaseException:
            self._end_processes()
            raise
        return time.monotonic() - begun

    def stop(self) -> None:
        """Ends every process, containers of lost NodeManagers among them; deletes the folder."""
        if self.folder.exists():
            self._state()
            self._end_processes()
            shutil.rmtree(self.folder)

    def kill_node(self, node: int) -> None:
        """SIGKILL for a NodeManager. Its containers live on, as on a host that is cut off."""
        self._node(node).send(signal.SIGKILL)
        _wait(lambda: not self._node(node).alive(), f"end of NodeManager {node}", STOP_LIMIT)

    def pause_node(self, node: int) -> None:
        """Stops a NodeManager (not its containers) until `resume_node`."""
        self._node(node).send(signal.SIGSTOP)

    def resume_node(self, node: int) -> None:
        """Lets a paused NodeManager go on."""
        self._node(node).send(signal.SIGCONT)

    def kill_manager(self) -> None:
        """SIGKILL for the ResourceManager. All else goes on."""
        manager = self._processes()[MANAGER]
        manager.send(signal.SIGKILL)
        _wait(lambda: not manager.alive(), "end of the ResourceManager", STOP_LIMIT)

    def start_manager(self, master_expiry: int = 600_000) -> None:
        """Starts the ResourceManager that has ended, and waits until it knows the NodeManagers
        again. `master_expiry`: milliseconds after which it gives up a silent master."""
        nodes = {n for n, p in self._processes().items() if n[4:].isdigit() and p.alive()}
        self._launch_manager(master_expiry)
        self._await_nodes(lambda found: len(found) == len(nodes))

    def container_processes(self, node: int | None = None) -> list[Process]:
        """All processes of the containers of a NodeManager, or of all."""
        data = self.folder / "data"
        return _of_containers(data if node is None else data / f"node{node}")

    def start_node(self, node: int) -> None:
        """Starts a NodeManager that has ended, and waits until it is registered."""
        if self._node(node).alive():
            raise ClusterError(f"NodeManager {node} runs already")
        self._sweep(self.folder / "data" / f"node{node}")
        self._launch_node(node)
        self._await_nodes(lambda found: self.host(node) in found)

    # ---- in parts ------------------------------------------------------------------------------
    def _claim(self) -> None:
        state = self.folder / STATE
        if state.exists() and any(p.alive() for p in self._processes().values()):
            raise ClusterError(f"the cluster in {self.folder} runs already; stop it first")
        if self.folder.exists() and any(self.folder.iterdir()) and not state.exists():
            raise ClusterError(f"{self.folder} is not empty, and not a cluster's; name another")
        if state.exists():
            self.stop()

    def _write(self, size: Size, ports: Mapping[str, int], jars: Path) -> None:
        for name in ("conf", "data/tmp", "log"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        state = {"size": dataclasses.asdict(size), "ports": dict(ports), "processes": {}}
        self._save(state)
        (self.folder / "jars").symlink_to(jars)
        shutil.copytree(HERE / "bin", self.folder / "bin")
        values = {**ports, **state["size"], "folder": self.folder, "label": LABEL, "user": user()}
        values["half_memory"] = size.memory // 2
        for template in (HERE / "conf").iterdir():
            text = template.read_text()
            if template.suffix == ".xml":
                text = string.Template(text).substitute(values)
            (self.folder / "conf" / template.name).write_text(text)
        # Daemons refuse to start without folders of these names on their class path.
        for name in ("hdfs", "datanode", "secondary"):
            (self.folder / "conf" / "webapps" / name).mkdir(parents=True, exist_ok=True)

    def _launch(self, size: Size) -> None:
        self._launch_manager()
        self._format()
        self._run("namenode", NAMENODE)
        self._await(self._manager_answers, "the ResourceManager")
        self.web("add-node-labels", {"nodeLabelInfo": [{"name": LABEL, "exclusivity": "true"}]})
        for node in range(1, size.nodes + 1):
            self._launch_node(node)
        for number in range(1, size.datanodes + 1):
            self._launch_datanode(number)
        self._await_nodes(lambda found: len(found) == size.nodes)
        labelled = f"{self.host(size.nodes)}:{self._ports()['node']}"
        self.web(f"nodes/{labelled}/replace-labels?labels={LABEL}", {})
        self._await(self._storage_answers, "HDFS")

    def _launch_manager(self, master_expiry: int = 600_000) -> None:
        expiry = f"{MASTER_EXPIRY}={master_expiry}"  # yarn-site.xml has another for Skein
        self._run(MANAGER, RESOURCE_MANAGER, "-D", expiry, heap=512)

    def _launch_datanode(self, number: int) -> None:
        """The first as hdfs-site.xml has it, each other with ports and a folder of its own."""
        if number == 1:
            self._run("datanode", DATANODE)
            return
        name, host, ports = f"datanode{number}", self.host(0), free_ports([self.host(0)])
        settings = {
            "data.dir": f"file://{self.folder / 'data' / name}",
            "address": f"{host}:{ports['datanode']}",
            "ipc.address": f"{host}:{ports['datanode_ipc']}",
            "http.address": f"{host}:{ports['datanode_web']}",
        }
        options = (f"dfs.datanode.{key}={value}" for key, value in settings.items())
        self._run(name, DATANODE, *(word for option in options for word in ("-D", option)))

    def _launch_node(self, node: int) -> None:
        host, ports = self.host(node), self._ports()
        data = self.folder / "data" / f"node{node}"
        settings = {
            "yarn.nodemanager.hostname": host,
            "yarn.nodemanager.address": f"{host}:{ports['node']}",
            "yarn.nodemanager.localizer.address": f"{host}:{ports['node_localizer']}",
            "yarn.nodemanager.webapp.address": f"{host}:{ports['node_web']}",
            "yarn.nodemanager.collector-service.address": f"{host}:{ports['node_collector']}",
            "yarn.nodemanager.local-dirs": data / "local",
            "yarn.nodemanager.log-dirs": data / "log",
        }
        if node == 1:
            settings["yarn.nodemanager.resource-type.yarn.io/gpu"] = GPUS_OF_FIRST_NODE
        if node == self._state()["size"]["nodes"]:
            # Where cgroups are to enforce it, and there are none, nothing does.
            settings["yarn.nodemanager.resource.memory.enforced"] = "false"
            settings["yarn.nodemanager.container-monitor.interval-ms"] = 500
        options = [word for key, value in settings.items() for word in ("-D", f"{key}={value}")]
        self._run(f"node{node}", NODE_MANAGER, *options)

    def _format(self) -> None:
        command = self._java(NAMENODE, 256) + ["-format", "-force", "-nonInteractive"]
        log = self.folder / "log" / "format.log"
        with log.open("wb") as output:
            done = subprocess.run(command, env=self.environ(), stdout=output, stderr=output)
        if done.returncode:
            raise ClusterError(f"HDFS was not formatted:\n{_tail(log)}")

    def _run(self, name: str, main: str, *options: str, heap: int = 256) -> None:
        with (self.folder / "log" / f"{name}.log").open("ab") as output:
            child = subprocess.Popen(
                [*self._java(main, heap), *options],
                cwd=self.folder,
                # Application masters inherit it of NodeManagers: they start in half the time.
                env={**self.environ(), "JDK_JAVA_OPTIONS": " ".join(SMALL)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        state = self._state()
        state["processes"][name] = dataclasses.asdict(Process.of(child.pid))
        self._save(state)
        child.returncode = 0  # It outlives this one: `subprocess` is not to warn of that.

    def _java(self, main: str, heap: int) -> list[str]:
        return [
            str(java_home(self._inherited) / "bin" / "java"),
            *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in OPENED),
            *(f"-Xmx{heap}m", *SMALL),
            f"-Djava.io.tmpdir={self.folder / 'data' / 'tmp'}",
            "-Dhadoop.root.logger=INFO,console",
            *("-cp", f"{self.folder / 'conf'}:{self.folder / 'jars' / '*'}"),
            main,
        ]

    def _await(self, ready: Callable[[], bool], what: str) -> None:
        """Waits for `ready`. ClusterError with the log's end when a daemon ends meanwhile."""

        def check() -> bool:
            for name, process in self._processes().items():
                if not process.alive():
                    log = self.folder / "log" / f"{name}.log"
                    raise ClusterError(f"{name} has ended; the end of {log}:\n{_tail(log)}")
            with contextlib.suppress(OSError):
                return ready()
            return False

        _wait(check, what, START_LIMIT)

    def _await_nodes(self, enough: Callable[[list[str]], bool]) -> None:
        def ready() -> bool:
            found = json.loads(self.web("nodes?states=RUNNING"))["nodes"] or {"node": []}
            return enough([node["nodeHostName"] for node in found["node"]])

        self._await(ready, "the NodeManagers")

    def _manager_answers(self) -> bool:
        return json.loads(self.web("info"))["clusterInfo"]["state"] == "STARTED"

    def _storage_answers(self) -> bool:
        query = "jmx?qry=Hadoop:service=NameNode,name=NameNodeInfo"
        found = json.loads(self._http(f"http://127.0.0.1:{self._ports()['namenode_web']}/{query}"))
        beans = found["beans"]  # none in its first moment
        wanted = self._state()["size"]["datanodes"]
        return any(
            not info["Safemode"] and len(json.loads(info["LiveNodes"])) == wanted for info in beans
        )

    def _http(self, url: str, data: object = None) -> bytes:
        """Answer to a GET, or to a POST of `data`."""
        body = None if data is None else json.dumps(data).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        request = urllib.request.Request(url, body, headers)
        # Past the proxy that the environment may name.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=10) as answer:
            return answer.read()

    def _end_processes(self) -> None:
        """Without grace: what the daemons would put in order is about to be deleted."""
        processes = self._processes().values()
        for process in processes:
            process.send(signal.SIGKILL)
        _wait(lambda: not any(p.alive() for p in processes), "end of the daemons", STOP_LIMIT)
        self._sweep(self.folder / "data")

    def _sweep(self, folder: Path) -> None:
        """Kills containers whose NodeManager is gone."""

        def none_left() -> bool:
            for process in _of_containers(folder):
                process.send(signal.SIGKILL)
            return not _of_containers(folder)

        _wait(none_left, f"end of the containers below {folder}", STOP_LIMIT)

    # ---- state ---------------------------------------------------------------------------------
    def _state(self) -> dict:
        try:
            return json.loads((self.folder / STATE).read_text())
        except FileNotFoundError:
            raise ClusterError(f"there is no cluster in {self.folder}; start one") from None

    def _save(self, state: dict) -> None:
        new = self.folder / f"{STATE}.new"
        new.write_text(json.dumps(state, indent=1))
        new.replace(self.folder / STATE)

    def _ports(self) -> dict[str, int]:
        return self._state()["ports"]

    def _processes(self) -> dict[str, Process]:
        return {name: Process(**value) for name, value in self._state()["processes"].items()}

    def _node(self, node: int) -> Process:
        try:
            return self._processes()[f"node{node}"]
        except KeyError:
            raise ClusterError(f"there is no NodeManager {node}") from None


def _of_containers(folder: Path) -> list[Process]:
    """Processes of containers below `folder`: YARN tells each where its own folders are."""
    mark = f"LOCAL_DIRS={folder}/".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(v.startswith(mark) for v in (path / "environ").read_bytes().split(b"\0")):
                found.append(Process.of(int(path.name)))
    return found


def java_home(environ: Mapping[str, str]) -> Path:
    """The Java to use: JAVA_HOME, or that of `java` on PATH. ClusterError when there is none."""
    if environ.get("JAVA_HOME"):
        return Path(environ["JAVA_HOME"])
    java = shutil.which("java", path=environ.get("PATH"))
    if java is None:
        raise ClusterError("there is no Java: set JAVA_HOME, or put java on PATH (Java 17)")
    return Path(java).resolve().parent.parent


def fetch_jars(cache: Path, environ: Mapping[str, str], pom: Path = HERE / "pom.xml") -> Path:
    """The folder of the jars that `pom` names. Maven fetches them when the file is new."""
    folder = cache / f"hadoop-{hashlib.sha256(pom.read_bytes()).hexdigest()[:16]}"
    if folder.is_dir():
        return folder
    maven = shutil.which("mvn", path=environ.get("PATH"))
    if maven is None:
        raise ClusterError("there is no Maven: put mvn on PATH; it fetches Hadoop's jars")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        jars = Path(scratch, "jars")
        command = [maven, "-B", "-q", "-f", str(pom), "dependency:copy-dependencies"]
        done = subprocess.run(
            [*command, f"-DoutputDirectory={jars}", "-DincludeScope=runtime"],
            env={**environ, "JAVA_HOME": str(java_home(environ))},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode:
            raise ClusterError(f"Maven could not fetch Hadoop's jars:\n{done.stdout[-4000:]}")
        try:
            jars.rename(folder)
        except OSError:
            if not folder.is_dir():  # Another one was faster: its jars are the same.
                raise
    return folder


def free_ports(hosts: list[str]) -> dict[str, int]:
    """A port for each of PORTS that is free on every one of `hosts`."""
    found: dict[str, int] = {}
    candidates = iter(random.SystemRandom().sample(PORT_RANGE, len(PORT_RANGE)))
    with contextlib.ExitStack() as held:
        for name in PORTS:
            found[name] = next(port for port in candidates if _hold(hosts, port, held))
    return found


def _hold(hosts: list[str], port: int, held: contextlib.ExitStack) -> bool:
    for host in hosts:
        taken = held.enter_context(socket.socket())
        try:
            taken.bind((host, port))
        except OSError:
            return False
    return True


def user() -> str:
    """Who HDFS and YARN take this process for."""
    return pwd.getpwuid(os.getuid()).pw_name


def _wait(ready: Callable[[], bool], what: str, limit: float) -> None:
    deadline = time.monotonic() + limit
    while not ready():
        if time.monotonic() > deadline:
            raise ClusterError(f"waited {limit:.0f} s for {what}")
        time.sleep(0.1)


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-20:])


def main(argv: list[str]) -> int:
    """Runs one command; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default_cache = os.environ.get("TFAPP_TEST_CACHE") or "~/.cache/tfapp"
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--cache", metavar="DIR", type=Path, default=Path(default_cache))
    shared.add_argument("--dir", metavar="DIR", type=Path, help="default: CACHE/yarn-cluster")
    commands = parser.add_subparsers(dest="command", required=True)
    start = commands.add_parser("start", parents=[shared], help="make and start it")
    for field in dataclasses.fields(Size):
        start.add_argument(f"--{field.name}", metavar="N", type=int, default=field.default)
    commands.add_parser("stop", parents=[shared], help="end it and delete its folder")
    commands.add_parser("env", parents=[shared], help="print the variables to export")
    node = commands.add_parser("node", parents=[shared], help="disturb one NodeManager")
    node.add_argument("node", metavar="I", type=int)
    node.add_argument("action", choices=("kill", "pause", "resume", "start"))
    manager = commands.add_parser("manager", parents=[shared], help="disturb the ResourceManager")
    manager.add_argument("action", choices=("kill", "start"))
    args = parser.parse_args(argv)
    cache = args.cache.expanduser()
    cluster = Cluster(args.dir or cache / "yarn-cluster", cache)
    try:
        _execute(args, cluster)
    except ClusterError as error:
        print(f"cluster.py: {error}", file=sys.stderr)
        return 1
    return 0


def _execute(args: argparse.Namespace, cluster: Cluster) -> None:
    if args.command == "start":
        names = [field.name for field in dataclasses.fields(Size)]
        seconds = cluster.start(Size(**{name: getattr(args, name) for name in names}))
        print(f"up after {seconds:.1f} s in {cluster.folder}", file=sys.stderr)
        _print_exports(cluster)
    elif args.command == "stop":
        cluster.stop()
    elif args.command == "env":
        for name in cluster.require():
            print(f"cluster.py: {name} has ended; `node {name[4:]} start`", file=sys.stderr)
        _print_exports(cluster)
    elif args.command == "manager":
        getattr(cluster, f"{args.action}_manager")()
    else:
        getattr(cluster, f"{args.action}_node")(args.node)


def _print_exports(cluster: Cluster) -> None:
    for name, value in cluster.variables().items():
        print(f"export {name}={shlex.quote(value)}")
    print(f'export PATH={shlex.quote(str(cluster.commands))}:"$PATH"')


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
