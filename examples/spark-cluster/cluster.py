#!/usr/bin/env python3
"""A real Spark standalone cluster on one Linux machine: a master and workers, every one a process
with an address of its own.

    python cluster.py build            fetch Spark, once, where this Python has no pyspark
    python cluster.py start            make and start it; prints what to export
    eval "$(python cluster.py env)"    SPARK_MASTER, SPARK_HOME, SPARK_CONF_DIR, PATH and others
    python cluster.py worker 2 kill    kill, start, pause, resume, cut or join a worker
    python cluster.py stop             end every process of it and delete its folder

It needs Java 17. For root, master and workers are in network namespaces; else, or with
`--network loopback`, they are at 127.0.0.x. Each worker offers 2 GPUs, which are counted and not
there. With `--secure`, Spark's authentication and encryption are on.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import http.client
import importlib.util
import json
import os
import random
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

STATE = "cluster.json"
# Spark 4.3 needs Python 3.11.
VERSION = "4.3.0" if sys.version_info >= (3, 11) else "3.5.9"
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
EXECUTOR = b"CoarseGrainedExecutorBackend"
# In the environment of every process of a cluster: its folder, and the program it belongs to.
MARK = "TFAPP_SPARK_CLUSTER"
NAMESPACES, LOOPBACK = "namespaces", "loopback"
BRIDGE_MAC = "02:00:0a:4d:00:01"
ACTIONS = ("kill", "start", "pause", "resume", "cut", "join")

FETCH_LIMIT = 1800.0  # seconds
START_LIMIT = 120.0
STOP_LIMIT = 60.0
SILENCE = 10  # seconds; the master looks for silent workers that often. Spark's own value is 60
# For JVMs that do little: compiled quickly, not thoroughly.
SMALL = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"
PORTS = ("master", "master_web", "worker_web")
# Below the range from which Linux takes ports for outgoing connections.
PORT_RANGE = range(20000, 32000)
MOST_WORKERS = 200


class ClusterError(Exception):
    """The cluster cannot be made, started or found; the message says why."""


@dataclasses.dataclass(frozen=True)
class Size:
    """How many workers, and what each offers. `memory` in MiB."""

    workers: int = 2
    cores: int = 3
    memory: int = 3072
    gpus: int = 2


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

    def memory(self) -> int:
        """Resident memory in bytes, 0 once it has ended."""
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        except OSError:
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE")


class Cluster:
    """One cluster: everything it has is in `folder`, but for Spark itself, which may be in
    `cache`."""

    def __init__(self, folder: Path, cache: Path, environ: Mapping[str, str] = os.environ):
        self.folder = folder.absolute()
        self.cache = cache.absolute()
        self._inherited = dict(environ)

    # ---- what clients need ---------------------------------------------------------------------
    @property
    def master(self) -> str:
        """Its URL, as "spark://198.18.7.2:7077"."""
        return f"spark://{self.address('master')}:{self._state()['ports']['master']}"

    @property
    def library(self) -> Path:
        """The folder in which Python finds the package pyspark."""
        return Path(self._state()["spark"]).parent

    def address(self, name: str) -> str:
        """The IP address of "master", of "worker1" and so on, or of "driver": that of this
        machine, by which executors reach a driver."""
        last = {"driver": 1, "master": 2}.get(name) or 10 + int(name[6:])
        return f"{self._state()['prefix']}.{last}"

    def variables(self) -> dict[str, str]:
        """The variables of a driver, PATH apart. `SparkSession.builder.getOrCreate()` is then a
        session on this cluster."""
        state = self._state()
        path = [self._inherited.get("PYTHONPATH", "")]
        if state["fetched"]:
            path.insert(0, str(self.library))
        variables = {
            "JAVA_HOME": str(java_home(self._inherited)),
            "SPARK_HOME": state["spark"],
            "SPARK_CONF_DIR": str(self.folder / "conf"),
            "SPARK_MASTER": self.master,
            "PYSPARK_PYTHON": sys.executable,
        }
        return {**variables, "PYTHONPATH": os.pathsep.join(filter(None, path))}

    def environ(self) -> dict[str, str]:
        """The whole environment of a driver: this process's, `variables()`, and PATH."""
        path = f"{self.commands}{os.pathsep}{self._inherited.get('PATH', os.defpath)}"
        return {**self._inherited, **self.variables(), "PATH": path}

    @property
    def commands(self) -> Path:
        """The folder of `spark-submit` and `pyspark`, for PATH."""
        return Path(self._state()["spark"], "bin")

    def programs(self) -> dict[str, bool]:
        """Each of its programs, and whether it runs."""
        return {name: process.alive() for name, process in self._processes("processes").items()}

    def require(self) -> list[str]:
        """ClusterError unless all that it cannot do without runs. Returns the workers that do not
        ("worker2")."""
        workers = [name for name, running in self.programs().items() if not running]
        if "master" in workers:
            raise ClusterError(f"of the cluster in {self.folder}, {', '.join(workers)} has ended")
        return workers

    def memory(self) -> int:
        """Bytes that its programs have in memory, executors apart."""
        return sum(process.memory() for process in self._processes("processes").values())

    def web(self) -> dict[str, Any]:
        """What the master tells about workers and applications. OSError when it does not answer."""
        port = self._state()["ports"]["master_web"]
        # Past the proxy that the environment may name.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://{self.address('master')}:{port}/json/", timeout=10) as answer:
            try:
                return json.load(answer)
            except (ValueError, http.client.HTTPException) as error:
                raise OSError(f"the master's page is not whole: {error}") from None  # it starts

    def registered(self) -> dict[str, str]:
        """The ids of the workers that the master counts on, by their names ("worker2")."""
        names = {self.address(name): name for name in self._workers()}
        alive = [worker for worker in self.web()["workers"] if worker["state"] == "ALIVE"]
        return {names[worker["host"]]: worker["id"] for worker in alive}

    def executors(self, worker: int) -> list[Process]:
        """The executors' JVMs that a worker has started."""
        found = []
        for process in self.processes(worker):
            with contextlib.suppress(OSError):
                if EXECUTOR in Path(f"/proc/{process.pid}/cmdline").read_bytes():
                    found.append(process)
        return found

    def processes(self, worker: int) -> list[Process]:
        """All processes of a worker: its own, executors, the Python of tasks, and what tasks have
        started."""
        return self._belonging(self._known(worker))

    # ---- start and stop ------------------------------------------------------------------------
    def start(
        self,
        size: Size = Size(),
        *,
        secure: bool = False,
        network: str = "",
        version: str = "",
        settings: Mapping[str, str] | None = None,
    ) -> float:
        """Makes and starts it; returns seconds, the fetching of Spark apart. ClusterError when it
        runs, or does not come up: then nothing of it is left but its logs.

        `network`: NAMESPACES or LOOPBACK; "": the former where it can be. `version`: a Spark to
        be fetched; "": that of this Python's pyspark, else VERSION. `settings`: Spark's, of every
        driver that has `variables()`."""
        if not 1 <= size.workers <= MOST_WORKERS:
            raise ClusterError(f"{size.workers} workers: it can have 1 to {MOST_WORKERS}")
        java_home(self._inherited)
        spark, fetched = find_spark(self.cache, self._inherited, version)
        reason = "" if network == LOOPBACK else why_no_namespaces(self._path())
        if network == NAMESPACES and reason:
            raise ClusterError(f"there can be no network namespaces: {reason}")
        self._claim()
        begun = time.monotonic()
        self._save(
            {
                "size": dataclasses.asdict(size),
                "spark": str(spark),
                "fetched": fetched,
                "prefix": "127.0.0",
                "ports": {},
                "namespaces": {},  # of master and workers the process that holds theirs
                "processes": {},
            }
        )
        try:
            if network == LOOPBACK or reason:
                hosts = [self.address(name) for name in ("master", *self._workers())]
                self._save({**self._state(), "ports": free_ports(hosts)})
            else:
                self._make_network()
            self._configure(secure, settings or {})
            self._launch()
        except BaseException:
            self._end_processes()
            raise
        return time.monotonic() - begun

    def stop(self) -> None:
        """Ends every process, executors and what tasks have started among them; deletes the
        folder. Drivers live on: they are their users'."""
        if self.folder.exists():
            self._state()
            self._end_processes()
            shutil.rmtree(self.folder)

    # ---- what disturbs it ----------------------------------------------------------------------
    def kill_worker(self, worker: int) -> None:
        """SIGKILL for a worker. Its executors hear of it, and end by themselves."""
        process = self._worker(worker)
        process.send(signal.SIGKILL)
        _wait(lambda: not process.alive(), f"end of worker {worker}", STOP_LIMIT)

    def start_worker(self, worker: int) -> None:
        """Starts a worker that has ended, and waits until it is registered. Ends what the old one
        has left behind."""
        if self._worker(worker).alive():
            raise ClusterError(f"worker {worker} runs already")
        name = self._known(worker)
        self._sweep(lambda: self._belonging(name), f"what {name} has left")
        before = self.registered().get(name)
        self._launch_worker(name)
        self._await(lambda: self.registered().get(name, before) != before, name, [name])

    def pause_worker(self, worker: int) -> None:
        """Stops a worker (not its executors) until `resume_worker`: it says nothing more."""
        self._worker(worker).send(signal.SIGSTOP)

    def resume_worker(self, worker: int) -> None:
        """Lets a paused worker go on."""
        self._worker(worker).send(signal.SIGCONT)

    def cut_worker(self, worker: int) -> None:
        """Cuts a worker with its executors off from the network, until `join_worker`. All go
        on."""
        self._link(worker, "down")

    def join_worker(self, worker: int) -> None:
        """Joins a worker that was cut off to the network."""
        self._link(worker, "up")

    # ---- network -------------------------------------------------------------------------------
    def _make_network(self) -> None:
        """A network namespace for the master and for each worker. The master's has the bridge,
        to which this machine has a link, too. With the namespaces their links disappear."""
        hub = self._make_namespace("master")
        link, prefix = self._link_to(hub)
        self._save({**self._state(), "prefix": prefix, "ports": dict.fromkeys(PORTS, 8080)})
        self._save({**self._state(), "ports": {**self._state()["ports"], "master": 7077}})
        self._run("ip", "addr", "add", f"{self.address('driver')}/24", "dev", link)
        self._run("ip", "link", "set", link, "up")
        script = [
            "ip link set lo up",
            # Without an address of its own a bridge takes the lowest of its links', which changes.
            f"ip link add br0 address {BRIDGE_MAC} type bridge",
            f"ip addr add {self.address('master')}/24 dev br0",
            *("ip link set br0 up", "ip link set driver master br0 up"),
        ]
        for name in self._workers():
            holder = self._make_namespace(name)
            script.append(f"ip link add {name} type veth peer name eth0 netns {holder.pid}")
            script.append(f"ip link set {name} master br0 up")
        self._run(*self._inside("master"), "sh", "-ec", "\n".join(script))
        for name in self._workers():
            script = [
                *("ip link set lo up", f"ip addr add {self.address(name)}/24 dev eth0"),
                "ip link set eth0 up",
            ]
            self._run(*self._inside(name), "sh", "-ec", "\n".join(script))

    def _make_namespace(self, name: str) -> Process:
        """A process that holds it."""
        holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo up; exec sleep infinity 2> /dev/null"],
            env={**self._inherited, "PATH": self._path(), MARK: f"{self.folder}/{name}"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        holder.returncode = 0  # It outlives this one: `subprocess` is not to warn of that.
        assert holder.stdout is not None
        with holder.stdout:
            if holder.stdout.readline() != b"up\n":
                raise ClusterError(f"the network namespace of {name} cannot be made")
        process = Process.of(holder.pid)
        self._note("namespaces", name, process)
        return process

    def _link_to(self, hub: Process) -> tuple[str, str]:
        """A new link of this machine to the namespace of `hub`: its name, which no other cluster
        has, and the beginning of the addresses that belong to it. They are of 198.18.0.0/15, which
        is kept for tests of networks: https://www.rfc-editor.org/rfc/rfc2544#appendix-C.2.2"""
        for index in random.SystemRandom().sample(range(512), 512):
            link = f"tfspark{index}"
            peer = ("peer", "name", "driver", "netns", str(hub.pid))
            try:
                self._run("ip", "link", "add", link, "type", "veth", *peer)
            except ClusterError:
                if not Path("/sys/class/net", link).exists():
                    raise
            else:
                return link, f"198.{18 + index // 256}.{index % 256}"
        raise ClusterError("512 clusters run already")

    def _link(self, worker: int, state: str) -> None:
        name = self._known(worker)
        if not self._processes("namespaces"):
            raise ClusterError("workers at 127.0.0.x cannot be cut off; see --network")
        self._run(*self._inside("master"), "ip", "link", "set", name, state)

    def _inside(self, name: str) -> list[str]:
        """The beginning of a command that runs at the address of master or worker."""
        holder = self._processes("namespaces").get(name)
        if holder is None:
            return []
        if not holder.alive():
            raise ClusterError(f"the network namespace of {name} is gone; stop the cluster")
        return ["nsenter", f"--net=/proc/{holder.pid}/ns/net"]

    def _path(self) -> str:
        return f"{self._inherited.get('PATH', os.defpath)}:/usr/sbin:/sbin"

    def _run(self, *command: str) -> None:
        _call(command, {**self._inherited, "PATH": self._path()}, START_LIMIT)

    # ---- in parts ------------------------------------------------------------------------------
    def _claim(self) -> None:
        state = self.folder / STATE
        if state.exists():
            if self._belonging():
                raise ClusterError(f"the cluster in {self.folder} runs already; stop it first")
            shutil.rmtree(self.folder)
        elif self.folder.exists() and any(self.folder.iterdir()):
            raise ClusterError(f"{self.folder} is not empty, and not a cluster's; name another")
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _configure(self, secure: bool, settings: Mapping[str, str]) -> None:
        """Writes conf/, which the daemons read and every driver."""
        driver = self.address("driver")
        values = {
            "spark.master": self.master,
            "spark.driver.host": driver,
            "spark.driver.bindAddress": driver,
            "spark.worker.timeout": str(SILENCE),
            "spark.master.rest.enabled": "false",  # it knows of no authentication
        }
        if secure:
            values["spark.authenticate"] = "true"
            values["spark.authenticate.secret"] = secrets.token_hex(32)
            values["spark.network.crypto.enabled"] = "true"
            values["spark.io.encryption.enabled"] = "true"
        conf = self.folder / "conf"
        conf.mkdir(mode=0o700)
        lines = (f"{key} {value}\n" for key, value in {**values, **settings}.items())
        (conf / "spark-defaults.conf").write_text("".join(lines))
        script = conf / "gpus.sh"
        addresses = [str(number) for number in range(self._state()["size"]["gpus"])]
        found = shlex.quote(json.dumps({"name": "gpu", "addresses": addresses}))
        script.write_text(f"#!/bin/sh\necho {found}\n")
        script.chmod(0o700)

    def _launch(self) -> None:
        names, ports = self._workers(), self._state()["ports"]
        places = ("--port", str(ports["master"]), "--webui-port", str(ports["master_web"]))
        (self.folder / "log").mkdir()
        self._start_program("master", MASTER, *places)
        for name in names:  # they ask until the master answers
            self._launch_worker(name)
        self._await(lambda: set(self.registered()) == set(names), "the workers", ["master", *names])

    def _launch_worker(self, name: str) -> None:
        state = self._state()
        size = Size(**state["size"])
        words = ["--cores", str(size.cores), "--memory", f"{size.memory}m"]
        words += ["--work-dir", str(self.folder / "work" / name)]
        words += ["--webui-port", str(state["ports"]["worker_web"]), self.master]
        gpus = f"-Dspark.worker.resource.gpu.amount={size.gpus}"
        script = f"-Dspark.worker.resource.gpu.discoveryScript={self.folder / 'conf' / 'gpus.sh'}"
        options = f"{gpus} {script}" if size.gpus else ""
        self._start_program(name, WORKER, *words, SPARK_WORKER_OPTS=options)

    def _start_program(self, name: str, main: str, *words: str, **variables: str) -> None:
        address = self.address(name)
        # Without what is meant for the drivers of another Spark.
        kept = {k: v for k, v in self._inherited.items() if not k.startswith(("SPARK_", "PYSPARK"))}
        own = {
            **self.variables(),
            "PATH": self._path(),
            "SPARK_LOCAL_IP": address,
            "SPARK_LOCAL_HOSTNAME": address,
            "SPARK_LOCAL_DIRS": str(self.folder / "local" / name),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": SMALL,
            "SPARK_LAUNCHER_OPTS": SMALL,
            MARK: f"{self.folder}/{name}",
        }
        command = [str(self.commands / "spark-class"), main, "--host", address, *words]
        with (self.folder / "log" / f"{name}.log").open("ab") as log:
            child = subprocess.Popen(
                [*self._inside(name), *command],
                cwd=self.folder,
                env={**kept, **own, **variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._note("processes", name, Process.of(child.pid))
        child.returncode = 0  # as above

    def _await(self, ready: Callable[[], bool], what: str, running: list[str]) -> None:
        """Waits for `ready`. ClusterError with the log's end when one of `running` ends
        meanwhile."""

        def check() -> bool:
            for name in running:
                if not self._processes("processes")[name].alive():
                    log = self.folder / "log" / f"{name}.log"
                    raise ClusterError(f"{name} has ended; the end of {log}:\n{_tail(log)}")
            with contextlib.suppress(OSError):
                return ready()
            return False

        _wait(check, what, START_LIMIT)

    def _end_processes(self) -> None:
        """Without grace: what they would put in order is about to be deleted."""
        self._sweep(self._belonging, "the cluster's processes")

    def _sweep(self, find: Callable[[], list[Process]], what: str) -> None:
        """SIGKILL for all that `find` finds, until it finds nothing, twice: a process that is
        between two programs (exec) has no environment for a moment."""
        seen: set[Process] = set()
        nothing = 0

        def none_left() -> bool:
            nonlocal nothing
            found = find()
            for process in found:
                process.send(signal.SIGKILL)
            seen.update(found)
            nothing = 0 if found else nothing + 1
            return nothing > 1 and not any(process.alive() for process in seen)

        _wait(none_left, f"end of {what}", STOP_LIMIT)

    def _belonging(self, name: str = "") -> list[Process]:
        """The processes of master or worker `name`, but for the one that holds its namespace; or
        all of the cluster. A process is told by its environment or its network namespace: what
        tasks start may have neither of them of its own accord, but has one."""
        holders = self._processes("namespaces")
        mark = os.fsencode(f"{MARK}={self.folder}/{name}")
        networks = {
            _network(holder.pid)
            for each, holder in holders.items()
            if name in ("", each) and holder.alive()
        } - {None}
        spared = {os.getpid(), holders[name].pid if name in holders else 0}
        found = []
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            with contextlib.suppress(OSError):
                variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                marked = any(v == mark or (not name and v.startswith(mark)) for v in variables)
                if pid not in spared and (marked or _network(pid) in networks):
                    found.append(Process.of(pid))
        return found

    # ---- state ---------------------------------------------------------------------------------
    def _state(self) -> dict[str, Any]:
        try:
            return json.loads((self.folder / STATE).read_text())
        except FileNotFoundError:
            raise ClusterError(f"there is no cluster in {self.folder}; start one") from None

    def _save(self, state: Mapping[str, Any]) -> None:
        new = self.folder / f"{STATE}.new"
        new.write_text(json.dumps(state, indent=1))
        new.replace(self.folder / STATE)

    def _note(self, kind: str, name: str, process: Process) -> None:
        state = self._state()
        state[kind][name] = dataclasses.asdict(process)
        self._save(state)

    def _processes(self, kind: str) -> dict[str, Process]:
        return {name: Process(**value) for name, value in self._state()[kind].items()}

    def _workers(self) -> list[str]:
        return [f"worker{number}" for number in range(1, self._state()["size"]["workers"] + 1)]

    def _known(self, worker: int) -> str:
        if f"worker{worker}" not in self._workers():
            raise ClusterError(f"there is no worker {worker}")
        return f"worker{worker}"

    def _worker(self, worker: int) -> Process:
        return self._processes("processes")[self._known(worker)]


def _network(pid: int) -> int | None:
    """What tells its network namespace from others."""
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    except OSError:
        return None


def why_no_namespaces(path: str) -> str:
    """Why this machine cannot have network namespaces for a cluster, or ""."""
    if os.geteuid() != 0:
        return "they need root"
    for program in ("ip", "unshare", "nsenter"):
        if shutil.which(program, path=path) is None:
            return f"there is no {program} on PATH (iproute2, util-linux)"
    links = "ip link add br0 type bridge && ip link add eth0 type veth peer name link1"
    try:
        _call(["unshare", "--net", "sh", "-ec", links], {"PATH": path}, START_LIMIT)
    except ClusterError as error:
        return str(error)
    return ""


def java_home(environ: Mapping[str, str]) -> Path:
    """The Java to use: JAVA_HOME, or that of `java` on PATH. ClusterError when there is none."""
    if environ.get("JAVA_HOME"):
        return Path(environ["JAVA_HOME"])
    java = shutil.which("java", path=environ.get("PATH"))
    if java is None:
        raise ClusterError("there is no Java: set JAVA_HOME, or put java on PATH (Java 17)")
    return Path(java).resolve().parent.parent


def folder_in(cache: Path, version: str = VERSION) -> Path:
    """Where a fetched Spark is: a folder for PYTHONPATH."""
    return cache / "pyspark" / f"{version}-{sys.implementation.cache_tag}"


def find_spark(cache: Path, environ: Mapping[str, str], version: str = "") -> tuple[Path, bool]:
    """The folder of the package pyspark, and whether it was fetched into the cache: this Python's
    own, unless a version is asked for. It is fetched when it is needed first. ClusterError."""
    own = None if version else importlib.util.find_spec("pyspark")
    folder = folder_in(cache, version or VERSION)
    if own is not None and own.origin is not None:
        spark = Path(own.origin).parent
        return spark, spark.parent == folder
    if not folder.is_dir():
        _fetch(folder, environ, version or VERSION)
    return folder / "pyspark", True


def _fetch(folder: Path, environ: Mapping[str, str], version: str) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        made = Path(scratch, "library")
        words = ["install", "--quiet", "--no-compile", "--no-cache-dir", "--target", str(made)]
        words += ["--disable-pip-version-check", f"pyspark=={version}"]
        _call([sys.executable, "-m", "pip", *words], environ, FETCH_LIMIT)
        try:
            made.rename(folder)
        except OSError:
            if not folder.is_dir():  # Another one was faster: what it has made is the same.
                raise


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


def _call(command: list[str] | tuple[str, ...], environ: Mapping[str, str], limit: float) -> None:
    """Runs a command. ClusterError with its last words when it fails or takes too long."""
    what = " ".join(command)
    try:
        done = subprocess.run(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        raise ClusterError(f"{what}: took longer than {limit:.0f} s") from None
    except OSError as error:
        raise ClusterError(f"{what}: {error}") from None
    if done.returncode:
        raise ClusterError(f"{what} failed:\n{done.stdout[-4000:].rstrip()}")


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
    args = make_parser().parse_args(argv)
    cache = args.cache.expanduser()
    cluster = Cluster(args.dir or cache / "spark-cluster", cache)
    try:
        _execute(args, cluster)
    except ClusterError as error:
        print(f"cluster.py: {error}", file=sys.stderr)
        return 1
    return 0


def make_parser() -> argparse.ArgumentParser:
    """Of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default_cache = os.environ.get("TFAPP_TEST_CACHE") or "~/.cache/tfapp"
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--cache", metavar="DIR", type=Path, default=Path(default_cache))
    shared.add_argument("--dir", metavar="DIR", type=Path, help="default: CACHE/spark-cluster")
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", parents=[shared], help="fetch Spark, once")
    start = commands.add_parser("start", parents=[shared], help="make and start it")
    for command in (build, start):
        command.add_argument(
            "--spark",
            metavar="VERSION",
            default="",
            help=f"fetch this one; default: that of this Python's pyspark, else {VERSION}",
        )
    for field in dataclasses.fields(Size):
        start.add_argument(f"--{field.name}", metavar="N", type=int, default=field.default)
    start.add_argument(
        "--secure", action="store_true", help="turn Spark's authentication and encryption on"
    )
    start.add_argument(
        "--network",
        choices=(NAMESPACES, LOOPBACK),
        default="",
        help="default: namespaces for root, else loopback",
    )
    start.add_argument(
        "--conf",
        metavar="KEY=VALUE",
        type=_setting,
        action="append",
        default=[],
        help="a setting of all drivers; can be given several times",
    )
    commands.add_parser("stop", parents=[shared], help="end it and delete its folder")
    commands.add_parser("env", parents=[shared], help="print the variables to export")
    commands.add_parser("status", parents=[shared], help="what of it runs")
    worker = commands.add_parser("worker", parents=[shared], help="disturb one worker")
    worker.add_argument("worker", metavar="N", type=int)
    worker.add_argument("action", choices=ACTIONS)
    return parser


def _setting(words: str) -> tuple[str, str]:
    key, mark, value = words.partition("=")
    if not (key and mark):
        raise argparse.ArgumentTypeError(f"{words!r} is not KEY=VALUE")
    return key, value


def _execute(args: argparse.Namespace, cluster: Cluster) -> None:
    if args.command == "build":
        spark, _ = find_spark(cluster.cache, os.environ, args.spark)
        print(spark)
    elif args.command == "start":
        size = Size(**{field.name: getattr(args, field.name) for field in dataclasses.fields(Size)})
        seconds = cluster.start(
            size,
            secure=args.secure,
            network=args.network,
            version=args.spark,
            settings=dict(args.conf),
        )
        print(f"up after {seconds:.1f} s in {cluster.folder}", file=sys.stderr)
        _print_exports(cluster)
    elif args.command == "stop":
        cluster.stop()
    elif args.command == "env":
        for name in cluster.require():
            print(f"cluster.py: {name} has ended; `worker {name[6:]} start`", file=sys.stderr)
        _print_exports(cluster)
    elif args.command == "status":
        for name, running in cluster.programs().items():
            print(f"{name:24}{'runs' if running else 'has ended'}")
        print(f"{'memory':24}{cluster.memory() / 2**20:.0f} MiB, without executors")
    else:
        getattr(cluster, f"{args.action}_worker")(args.worker)


def _print_exports(cluster: Cluster) -> None:
    for name, value in cluster.variables().items():
        print(f"export {name}={shlex.quote(value)}")
    print(f'export PATH={shlex.quote(str(cluster.commands))}:"$PATH"')


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
