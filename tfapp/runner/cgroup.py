"""Control groups (cgroups), of both versions: which are a process's, and what one has used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

T = TypeVar("T", int, float)

_ROOT = Path("/")


class Used(NamedTuple):
    """`seconds`: of processors. `memory`: bytes that its processes share with no file, and shared
    memory: what the kernel can take back from nobody. None: the kernel does not say."""

    seconds: float | None
    memory: int | None


class Group:
    """The group of a container. `pid`: a process in it, by default this one. `name`: a part of its
    name, which no other group has; without it the group is this process's own. `root`: the root of
    the file system."""

    def __init__(self, pid: int | None = None, name: str = "", root: Path = _ROOT):
        found = [
            [folder for group, folder in folders(controller, pid, root) if name in group]
            for controller in ("cpuacct", "memory")
        ]
        self._processors, self._memory = found
        self._before = _first(_seconds, self._processors) or 0.0

    def used(self) -> Used:
        """What it has used since this was made, and its present memory."""
        seconds = _first(_seconds, self._processors)
        spent = None if seconds is None else max(seconds - self._before, 0.0)
        return Used(spent, _first(_bytes, self._memory))


def folders(
    controller: str, pid: int | None = None, root: Path = _ROOT
) -> Iterator[tuple[str, Path]]:
    """The groups of a process, by default this one, that may have the counters of `controller`:
    their names, and folders, which need not be there."""
    try:
        lines = (root / f"proc/{pid or 'self'}/cgroup").read_text().splitlines()
    except OSError:
        return
    mounted = root / "sys/fs/cgroup"
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if not controllers:  # version 2
            yield group, mounted / group.lstrip("/")
        elif controller in controllers.split(","):
            yield group, mounted / controller / group.lstrip("/")
            # In a container without a cgroup namespace its group is named as the host does, and
            # mounted as if it were the first.
            if pid is None:
                yield group, mounted / controller


def count(file: Path, *names: str) -> int | None:
    """The sum of the counters `names` in a file of lines "name number"; None without any."""
    try:
        lines = map(str.split, file.read_text().splitlines())
    except OSError:
        return None
    found = [int(line[1]) for line in lines if len(line) == 2 and line[0] in names]
    return sum(found) if found else None


def _first(read: Callable[[Path], T | None], places: list[Path]) -> T | None:
    return next((found for place in places if (found := read(place)) is not None), None)


def _seconds(folder: Path) -> float | None:
    microseconds = count(folder / "cpu.stat", "usage_usec")
    if microseconds is not None:
        return microseconds / 1e6
    try:
        return int((folder / "cpuacct.usage").read_text()) / 1e9
    except (OSError, ValueError):
        return None


def _bytes(folder: Path) -> int | None:
    """Of version 2, or of version 1, in which its own counters have not those of groups below."""
    file = folder / "memory.stat"
    old = count(file, "total_rss", "total_shmem")
    return count(file, "anon", "shmem") if old is None else old
