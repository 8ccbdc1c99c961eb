"""The control groups of a cluster's pods, of version 1 or 2.

A cluster has one group below the root, with one below it for each node. The group's name tells
which process the cluster stands and falls with, so that anybody can tell a group that was left
behind."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable
from pathlib import Path

from kubernetes_cluster.processes import ClusterError, Process, UnavailableError, wait

ROOT = Path("/sys/fs/cgroup")
# What kubelet cannot do without.
NEEDED = ("cpu", "cpuset", "memory", "pids")
_V1 = (*NEEDED, "cpuacct", "blkio", "devices", "freezer", "hugetlb", "systemd")
_NAME = re.compile(r"tfapp-kubernetes-(\d+)-(\d+)")
LIMIT = 30.0  # seconds


def check() -> None:
    """UnavailableError where there are none for pods."""
    if _is_v2():
        found = (ROOT / "cgroup.controllers").read_text().split()
    else:
        found = [name for name in NEEDED if (ROOT / name).is_dir()]
    lacking = [name for name in NEEDED if name not in found]
    if lacking:
        raise UnavailableError(f"there are no control groups for {', '.join(lacking)} in {ROOT}")
    for place in _hierarchies():
        if not os.access(place, os.W_OK) or os.statvfs(place).f_flag & os.ST_RDONLY:
            raise UnavailableError(f"control groups cannot be made: {place} is read-only")


def name_of(owner: Process) -> str:
    """The group of the cluster whose control plane lives in `owner`."""
    return f"tfapp-kubernetes-{owner.pid}-{owner.started}"


def make(cluster: str, node: str) -> None:
    """The group of a node, below that of the cluster."""
    try:
        for place in _hierarchies():
            _make(place, place / cluster)
            _make(place / cluster, place / cluster / node)
    except OSError as error:
        raise ClusterError(f"control groups for pods cannot be made: {error}") from None


def _make(parent: Path, group: Path) -> None:
    group.mkdir(exist_ok=True)
    if _is_v2():
        # A group's own controllers are those that its parent hands down.
        offered = (parent / "cgroup.controllers").read_text().split()
        wanted = [f"+{name}" for name in offered if name in (*NEEDED, "io", "hugetlb")]
        (parent / "cgroup.subtree_control").write_text(" ".join(wanted))
    elif group.relative_to(ROOT).parts[0] == "cpuset":
        for name in ("cpuset.cpus", "cpuset.mems"):  # else nothing can run in it
            (group / name).write_text((parent / name).read_text())


def remove(cluster: str, node: str) -> None:
    """Deletes the group of a node that has ended: kubelet takes what it finds there for pods."""
    _remove(lambda: [group / node for group in _groups() if group.name == cluster])


def sweep() -> None:
    """Deletes the groups of clusters that have ended, once their processes are gone."""
    _remove(lambda: [group for group in _groups() if _ended(group)])


def _remove(find: Callable[[], list[Path]]) -> None:
    def none_left() -> bool:
        for group in find():
            for folder, _, _ in os.walk(group, topdown=False):
                with contextlib.suppress(OSError):  # a process in it has not quite ended
                    os.rmdir(folder)
        return not any(group.is_dir() for group in find())

    wait(none_left, "end of the control groups", LIMIT)


def _groups() -> list[Path]:
    """Of all clusters, in every hierarchy: runc makes its own in those that it finds."""
    places = [ROOT] if _is_v2() else [place for place in ROOT.iterdir() if place.is_dir()]
    return [group for place in places for group in place.glob("tfapp-kubernetes-*")]


def _ended(group: Path) -> bool:
    match = _NAME.fullmatch(group.name)
    return match is not None and not Process(int(match[1]), int(match[2])).alive()


def _hierarchies() -> list[Path]:
    return [ROOT] if _is_v2() else [ROOT / name for name in _V1 if (ROOT / name).is_dir()]


def _is_v2() -> bool:
    return (ROOT / "cgroup.controllers").is_file()
