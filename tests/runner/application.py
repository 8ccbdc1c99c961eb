"""A master, a container's folder with a runner in it, and the test in the coordinator's place."""

from __future__ import annotations

import dataclasses
import json
import os
import queue
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import skein

import tfapp
from tests.contract_values import make_component, make_job, make_limits
from tests.runner.driving import PATIENCE, alive, eventually
from tfapp.contract.encoding import encode
from tfapp.contract.job import ExportTemplate, Limits, Private
from tfapp.contract.messages import Answer, Cluster, ExitReport, Member, Order
from tfapp.contract.names import (
    ANSWER_PREFIX,
    BEAT_PREFIX,
    ENV_GENERATION,
    ENV_INSTANCE,
    EXIT_PREFIX,
    FILES_DIR,
    JOB_FILE,
    KEY_CLUSTER,
    KEY_GENERATION,
    KEY_RELEASED,
    ORDER_PREFIX,
    PACKAGE_DIR,
    PRIVATE_FILE,
    REPORT_PREFIX,
    parse_instance,
)
from tfapp.protocol.connection import connect

RUNNER = "import sys; from tfapp.compiler.container_main import start; sys.exit(start(['runner']))"
SMALL_MASTER = Path(__file__).parent.parent / "small_master.py"

# Runs files/program.py with what the configuration says.
SCRIPT = """
from tfapp.runner import tensorflow_env
from tfapp.script import Program, Script

class Own(Script):
    def start(self, context):
        env = tensorflow_env.task_environment(context.instance, context.members)
        argv = (context.python, str(context.files_dir / "program.py"))
        return Program((*argv, *context.words("args")), env)
"""

_PID = re.compile(r"^pid (\d+)\n", re.MULTILINE)
PORT = "${worker.ALLOCATED_PORT}{PER_CONTAINER}"
LIMITS = make_limits(gang=60, heartbeat=0.2, heartbeat_lost=20)


class Application:
    """One instance, worker/0, of a job with two."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.security = skein.Security.new_credentials()
        self.root = folder / "local" / "container_1_0001_01_000002"
        self.runner: subprocess.Popen | None = None
        self.program = 0  # its pid, from the first line that it prints
        self.events: queue.SimpleQueue = queue.SimpleQueue()
        self._prepare_container()
        self._start_master()

    # -- before it starts --
    def _prepare_container(self) -> None:
        (self.root / PACKAGE_DIR / "scripts").mkdir(parents=True)
        (self.root / FILES_DIR).mkdir()
        (self.root / ".skein.crt").write_bytes(self.security.cert_bytes)
        (self.root / ".skein.pem").write_bytes(self.security.key_bytes)
        self.write_script(SCRIPT)

    def _start_master(self) -> None:
        files = [str(self.root / ".skein.crt"), str(self.root / ".skein.pem")]
        self.master = subprocess.Popen(
            [sys.executable, str(SMALL_MASTER), *files],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.master.stdout is not None
        self.address = f"127.0.0.1:{int(self.master.stdout.readline())}"
        self.connection = connect(self.address, self.security.cert_bytes, self.security.key_bytes)
        self.watch = self.connection.watch(prefixes=[REPORT_PREFIX])

    def write_script(self, text: str) -> None:
        path = self.root / PACKAGE_DIR / "scripts" / "tensorflow.py"
        path.write_text(text)

    def write_program(self, text: str, name: str = "program.py") -> None:
        (self.root / FILES_DIR / name).write_text(text)

    def start(
        self,
        site: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        redact: tuple[str, ...] = (),
        **changes: Any,
    ) -> None:
        """`changes` are fields of Limits and of the component."""
        names = {field.name for field in dataclasses.fields(Limits)}
        limits = {key: value for key, value in changes.items() if key in names}
        component = dataclasses.replace(
            make_component(
                script_timeout=120,
                exports=(
                    ExportTemplate("worker", "host_port", "${worker_HOST}:${site.global.port}"),
                ),
                python=sys.executable,
                site={
                    "site.global.port": "${worker.ALLOCATED_PORT}{PER_CONTAINER}",
                    **(site or {}),
                },
            ),
            **{key: value for key, value in changes.items() if key not in names},
        )
        job = make_job(component, limits=dataclasses.replace(LIMITS, **limits))
        private = Private({"worker": env or {}}, redact)
        (self.root / JOB_FILE).write_bytes(encode(job))
        (self.root / PRIVATE_FILE).write_bytes(encode(private))
        with open(self.folder / "worker.log", "wb") as log:
            self.runner = subprocess.Popen(
                [sys.executable, "-c", RUNNER],
                cwd=self.root,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(Path(tfapp.__file__).parent.parent),
            "CONTAINER_ID": self.root.name,
            "LOCAL_DIRS": str(self.root.parent),
            "LOG_DIRS": str(self.folder),
            "NM_HOST": "127.0.0.1",
            "SKEIN_APPLICATION_ID": "application_1_0001",
            "SKEIN_APPMASTER_ADDRESS": self.address,
            "SKEIN_CONTAINER_ID": "worker_7",
            ENV_INSTANCE: "worker/0",
            ENV_GENERATION: "1",
        }

    # -- the coordinator's part --
    def announce(self, generation: int) -> None:
        self.connection.put(KEY_GENERATION, encode({"generation": generation}))

    def answer(self, generation: int) -> Answer:
        answer = Answer.from_dict(self._report(ANSWER_PREFIX, generation))
        assert answer.generation == generation
        return answer

    def form(
        self,
        answer: Answer,
        held: tuple[str, ...] = (),
        others: Iterable[tuple[str, str]] = (("worker/1", "worker"),),
    ) -> Cluster:
        """Publishes a cluster of the runner and `others`, instances with their roles."""
        found = [
            Member(
                name,
                *parse_instance(name),
                role,
                "10.0.0.9",
                {parse_instance(name)[0]: {"host_port": f"10.0.0.9:{port}"}},
            )
            for port, (name, role) in enumerate(others, 2222)
        ]
        cluster = Cluster(
            answer.generation,
            (
                Member("worker/0", "worker", 0, "worker", answer.host, answer.exports),
                *found,
            ),
            held,
        )
        self.connection.put(KEY_CLUSTER, encode(cluster))
        return cluster

    def release(self, generation: int, *components: str) -> None:
        value = {"generation": generation, "components": list(components)}
        self.connection.put(KEY_RELEASED, encode(value))

    def order(self, action: str, generation: int = 1, grace: float = 0.0, attempt: int = 0) -> None:
        key = f"{ORDER_PREFIX}worker/0"
        self.connection.put(key, encode(Order(generation, action, grace, attempt)))

    def run(self, program: str = "", site: Mapping[str, str] | None = None, **start: Any) -> Answer:
        """Starts it, with this program if any, and does all of generation 1 up to the program's
        start."""
        if program:
            self.write_program(program)
        self.start(site, **start)
        self.announce(1)
        answer = self.answer(1)
        self.form(answer)
        return answer

    def exit_report(self, generation: int = 1, attempt: int = 0) -> ExitReport:
        return ExitReport.from_dict(self._report(EXIT_PREFIX, generation, attempt))

    def beat(self, state: str) -> None:
        """Waits for a heartbeat that tells `state`."""
        key = f"{BEAT_PREFIX}worker/0"
        eventually(
            lambda: f'"state":"{state}"'.encode() in (self.connection.get(key) or b""),
            f"the runner is {state}",
        )

    def _report(self, prefix: str, generation: int, attempt: int = 0) -> dict[str, Any]:
        key = f"{prefix}worker/0"

        def find() -> Any:
            value = self.connection.get(key)
            data = json.loads(value) if value else {}
            found = (data.get("generation"), data.get("attempt", 0)) == (generation, attempt)
            return data if found else None

        return eventually(find, f"{key} of generation {generation}")

    # -- what is to be seen --
    def log(self) -> str:
        return (self.folder / "worker.log").read_text()

    def logged(self, text: str) -> None:
        eventually(lambda: text in self.log(), f"the log has {text!r}")

    def dismissed(self) -> int:
        """Orders the runner to leave; its exit code."""
        assert self.runner is not None
        self.order("exit")
        return self.runner.wait(PATIENCE)

    def program_pid(self) -> int:
        """Of a program that begins by printing "pid N"."""
        found = eventually(lambda: _PID.findall(self.log()), "the program has printed its pid")
        self.program = int(found[-1])
        return self.program

    def end(self) -> None:
        self.watch.close()
        self.connection.close()
        for process in filter(None, (self.runner, self.master)):
            process.kill()
            process.wait(PATIENCE)
        for pipe in (self.master.stdin, self.master.stdout):
            assert pipe is not None
            pipe.close()
        if self.program and alive(self.program):
            os.kill(self.program, signal.SIGKILL)
