"""Docker containers belong to a runner, which a label names. Containers whose runner was killed
together with its guard are removed by

    python -m tfapp.runner.docker.ownership

at the engine that the environment names. Each runner in run mode docker begins with it, too.
 A number alone names no process: numbers are used again, after each boot
and in each pid namespace.
"""

from __future__ import annotations

import os
import sys

from tfapp.processes import PROC, Process, boot_id, identify, is_alive, stat
from tfapp.runner.docker.engine import DockerEngine, EngineError

LABEL = "tfapp"  # on every container, with the run mode's version
LABEL_RUNNER = "tfapp.runner"  # runner_name of the runner: its end is the container's


def of_container(pid: int, container: str) -> Process | None:
    """The process `pid` if it is one of this machine and of the Docker container with this id,
    else None: the number may be one of another pid namespace, or of another machine."""
    process = identify(pid)
    try:
        groups = (PROC / str(pid) / "cgroup").read_text()
    except OSError:
        return None
    return process if container in groups else None


def shares_network(pid: int) -> bool:
    """Whether a process has this one's network; so it is, too, where that cannot be seen."""
    try:
        return os.readlink(PROC / str(pid) / "ns/net") == os.readlink(PROC / "self/ns/net")
    except OSError:
        return True


def runner_name(pid: int) -> str:
    """ "BOOT:NAMESPACE:PID:STARTED" of a process of this machine that lives."""
    process = identify(pid)
    started = process.started if process is not None else 0
    return f"{_place()}:{pid}:{started}"


def is_dead(name: str) -> bool:
    """Whether `name`, as `runner_name` made it, is known to be of a process that has ended.
    Not known of one that another machine or pid namespace has named, or that /proc hides."""
    place, _, rest = name.rpartition(":")
    place, _, pid = place.rpartition(":")
    if not (pid.isdigit() and rest.isdigit()):
        return False
    if place.partition(":")[0] != boot_id():
        return False
    if place != _place() or is_alive(Process(int(pid), int(rest))):
        return False
    return not _is_hidden(int(pid))


def sweep(engine: DockerEngine) -> None:
    """Removes the containers of all applications whose runner is known to be dead. EngineError if
    the engine refuses."""
    for container, labels in engine.labelled(LABEL).items():
        if is_dead(labels.get(LABEL_RUNNER, "")):
            engine.remove(container)


def main() -> int:
    try:
        sweep(DockerEngine(os.environ))
    except EngineError as error:
        sys.stderr.write(f"tfapp: a container may remain: {error}\n")
        return 1
    return 0


def _is_hidden(pid: int) -> bool:
    """Whether there is a process of another user that /proc, mounted with hidepid, hides."""
    if stat(pid) is not None:
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except ProcessLookupError:
        pass
    return False


def _place() -> str:
    namespace = os.readlink(PROC / "self/ns/pid")
    return f"{boot_id()}:{namespace.strip('pid:[]')}"


if __name__ == "__main__":
    sys.exit(main())
