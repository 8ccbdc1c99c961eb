"""Containers in namespaces of their own, that have their master's address and its credentials."""

import asyncio
import contextlib
import random
import signal
import subprocess
import sys
from pathlib import Path

import tfapp.standalone.bootstrap
from tfapp.engines.machine.launcher import log_file
from tfapp.master.files import FileServer
from tfapp.master.launcher import Ended

# The container's own disk hides the master's, but for its own log folder; it has no network until
# the bridge is joined.
SCRIPT = """
set -e
mount --bind "$LOGS" /mnt
mount -t tmpfs none "$HIDDEN"
mkdir "$HIDDEN/box" "$HIDDEN/box/logs"
mount --move /mnt "$HIDDEN/box/logs"
export LOG_DIRS="$HIDDEN/box/logs"
printf %s "$CERTIFICATE" > "$HIDDEN/box/crt"
printf %s "$KEY" > "$HIDDEN/box/key"
unset CERTIFICATE KEY LOGS
read -r _
exec "$PYTHON" -c "$BOOTSTRAP" "$MASTER" "$CONTAINER_ID" "$HIDDEN/box/crt" "$HIDDEN/box/key" \\
  "$HIDDEN/box"
"""
NAMESPACES = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


def prepare():
    return open_launcher


@contextlib.contextmanager
def open_launcher(run, config, endpoint, end, parent, begun):
    with FileServer(endpoint) as files:
        yield IsolatedLauncher(run, config, endpoint, files)


class IsolatedLauncher:
    def __init__(self, run, config, endpoint, files):
        self._run = run
        self._config = config
        self._endpoint = endpoint
        self._files = files
        self._processes = {}
        self._unwanted = set()

    async def run(self, task, told) -> Ended:
        if task.id in self._unwanted:
            return Ended(None)
        with self._files.offering(task, told), open(log_file(self._run, task), "ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(*NAMESPACES, "sh", "-c", SCRIPT),
                env=self._environment(task, Path(log.name).parent),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
            self._processes[task.id] = process
            try:
                await asyncio.to_thread(join, self._endpoint.advertise, process.pid)
                process.stdin.write(b"go\n")
                code = await process.wait()
            finally:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                del self._processes[task.id]
            return Ended(code, message="" if code >= 0 else f"ended by signal {-code}")

    async def kill(self, id) -> None:
        self._unwanted.add(id)
        if id in self._processes:
            self._processes[id].send_signal(signal.SIGKILL)

    async def close(self) -> None:
        processes = tuple(self._processes.values())
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await asyncio.gather(*(process.wait() for process in processes))

    def _environment(self, task, logs):
        return {
            "LOGS": str(logs),
            **self._config.environment,
            "PYTHON": sys.executable,
            "BOOTSTRAP": Path(tfapp.standalone.bootstrap.__file__).read_text(),
            "CERTIFICATE": self._endpoint.certificate.decode(),
            "KEY": self._endpoint.key.decode(),
            "MASTER": self._files.address,
            "CONTAINER_ID": task.id,
            "HIDDEN": str(self._run.path.parents[4]),
        }


def join(master: str, pid: int) -> None:
    """Joins the network namespace of a child of `pid`, which may yet be made, to the bridge with
    the address `master`, 10.99.7.1. The child gets an address that no other container has, of any
    master."""
    end = asyncio.run(_child(pid))
    network = master.rpartition(".")[0]
    bridge = f"tfb{network.rpartition('.')[2]}"
    plug, address = _plug_in(bridge, network, end)
    enter = ("nsenter", f"--target={end}", "--net")
    for words in (
        ("ip", "link", "set", plug, "master", bridge, "up"),
        (*enter, "ip", "address", "add", f"{address}/24", "dev", "eth0"),
        (*enter, "ip", "link", "set", "eth0", "up"),
        (*enter, "ip", "link", "set", "lo", "up"),
    ):
        subprocess.run(words, check=True, capture_output=True)


def _plug_in(bridge: str, network: str, pid: int) -> tuple[str, str]:
    """A link between this machine and `pid`'s network: its name here, and the address for there.
    The address is free when the name is: a link may outlive the last process in its namespace,
    and answers until it is gone. Who has an address always has the same hardware address."""
    numbers = range(2, 255)
    for number in random.sample(numbers, len(numbers)):
        plug, address = f"{bridge}x{number}", f"{network}.{number}"
        hardware = "02:00:" + ":".join(f"{int(part):02x}" for part in address.split("."))
        peer = ("peer", "name", "eth0", "address", hardware, "netns", str(pid))
        command = ("ip", "link", "add", plug, "type", "veth", *peer)
        made = subprocess.run(command, capture_output=True, text=True)
        if made.returncode == 0:
            return plug, address
        if "File exists" not in made.stderr:
            raise OSError(made.stderr)
    raise OSError(f"no address of {bridge} is free")


async def _child(pid: int) -> int:
    for _ in range(3000):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if children:
            return int(children[0])
        await asyncio.sleep(0.01)
    raise OSError(f"{pid} starts nothing")
