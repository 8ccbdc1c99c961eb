"""A machine of the cluster: namespaces of its own on this one."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from kubernetes_cluster.processes import (
    STOP_LIMIT,
    ClusterError,
    Process,
    UnavailableError,
    run,
    tail,
    wait,
)

NAMESPACES = ("--net", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child")
# These places are the machine's own: programs have fixed paths there.
HIDDEN = ("/run", "/var/lib", "/var/log")
LIMIT = 60.0  # seconds

# Process 1 of the machine. All that it does is to collect processes whose parents have ended.
INIT = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
print("up", flush=True)
while True:
    signal.sigwait([signal.SIGCHLD])
    try:
        while os.waitpid(-1, os.WNOHANG)[0]: pass
    except ChildProcessError: pass
"""

# Kubelet sets the kernel's flags, which are those of the whole computer. It finds these in their
# place, as it wants them, and leaves the kernel alone.
KERNEL_FLAGS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}


def check_account() -> None:
    """UnavailableError for who cannot make a machine."""
    if not sys.platform.startswith("linux"):
        raise UnavailableError("the cluster needs Linux")
    if os.geteuid() != 0:
        raise UnavailableError("the cluster needs root, for namespaces and control groups")


def check_namespaces(environ: Mapping[str, str]) -> None:
    """UnavailableError where there can be no machine."""
    links = "ip link add br0 type bridge && ip link add eth0 type veth peer name link1"
    command = ["unshare", *NAMESPACES, "--mount-proc", "sh", "-c", links]
    try:
        run(command, LIMIT, "making namespaces and a bridge", environ)
    except ClusterError as error:
        raise UnavailableError(str(error)) from None


class Machine:
    """Network, mount, process, host name and IPC namespaces. All that runs in it ends with its
    `init`, at once. `folder` is on the computer's disk: its /var/lib, /var/log and logs."""

    def __init__(self, name: str, folder: Path, environ: Mapping[str, str]):
        self.name = name
        self.folder = folder
        self._environ = dict(environ)

    def create(self) -> tuple[Process, Process]:
        """Makes the namespaces; returns the process that holds them, and the init. The latter's
        end is the machine's."""
        self.folder.mkdir(parents=True, exist_ok=True)
        init = [sys.executable, "-I", "-S", "-c", INIT]
        with (self.folder / "init.log").open("ab") as log:
            holder = subprocess.Popen(
                ["unshare", *NAMESPACES, "--mount-proc", "--propagation", "private", *init],
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        holder.returncode = 0  # It outlives this one: `subprocess` is not to warn of that.
        assert holder.stdout is not None
        with holder.stdout:
            if holder.stdout.readline() != b"up\n":
                words = tail(self.folder / "init.log")
                raise ClusterError(f"the namespaces of {self.name} cannot be made: {words}")
        process = Process.of(holder.pid)
        return process, process.children()[0]

    def prepare(self, init: Process) -> None:
        """Gives it a name and places of its own."""
        folder = self.folder
        for name in ("lib", "log", "kernel"):
            (folder / name).mkdir(exist_ok=True)
        script = [
            *("mount -t tmpfs none /run", f"hostname {self.name}"),
            f"mount --bind {shlex.quote(str(folder / 'lib'))} /var/lib",
            f"mount --bind {shlex.quote(str(folder / 'log'))} /var/log",
            *("ip link set lo up", "echo 1 > /proc/sys/net/ipv4/ip_forward"),
        ]
        for flag, value in KERNEL_FLAGS.items():
            file = folder / "kernel" / flag.replace("/", ".")
            file.write_text(f"{value}\n")
            place = f"/proc/sys/{flag}"
            script.append(f"[ ! -e {place} ] || mount --bind {shlex.quote(str(file))} {place}")
        resolver = Path(os.path.realpath("/etc/resolv.conf"))
        if resolver.exists():  # else containerd asks this computer's name server
            own = folder / "resolv.conf"
            own.write_text("nameserver 127.0.0.1\n")
            made = f"mkdir -p {resolver.parent} && touch {resolver}"
            script.append(f"[ -e {resolver} ] || {{ {made}; }}")  # it may have been in /run
            script.append(f"mount --bind {shlex.quote(str(own))} {resolver}")
        script.append("mount --make-rshared /")  # kubelet hands mounts on to pods
        self.run(init, *script)

    def run(self, init: Process, *script: str) -> str:
        """What shell commands in it print. ClusterError when one fails."""
        command = self.command(init, "sh", "-ec", "\n".join(script))
        return run(command, LIMIT, f"setting up {self.name}", self._environ)

    def start(self, init: Process, program: str, *words: str) -> Process:
        """Starts a program in it, which writes to PROGRAM.log. Returns the process that waits for
        it on this side."""
        with (self.folder / f"{program}.log").open("ab") as log:
            child = subprocess.Popen(
                self.command(init, *words),
                env=self._environ,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        child.returncode = 0  # as above
        return Process.of(child.pid)

    def command(self, init: Process, *words: str) -> list[str]:
        """The command that runs `words` in it."""
        if not init.alive():
            raise ClusterError(f"{self.name} does not run")
        return ["nsenter", "-t", str(init.pid), "-n", "-m", "-p", "-u", "-i", *words]


def end(waiting: Process) -> None:
    """SIGKILL for a program that `Machine.start` has started. Returns when its ports are free."""
    ending = [*waiting.children(), waiting]  # where the program is paused, so is what waits for it
    for process in ending:
        process.send(signal.SIGKILL)
    wait(lambda: not any(process.alive() for process in ending), "end of a program", STOP_LIMIT)


def pause(waiting: Process) -> None:
    """SIGSTOP for a program."""
    for process in waiting.children():
        process.send(signal.SIGSTOP)


def resume(waiting: Process) -> None:
    """Lets a paused program go on."""
    for process in (waiting, *waiting.children()):
        process.send(signal.SIGCONT)


def runs(waiting: Process) -> bool:
    """Whether a program has not ended. One that is paused has not."""
    return waiting.alive() and bool(waiting.children())
