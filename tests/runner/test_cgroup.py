"""What a control group has used, of both versions of cgroups, by written files."""

from pathlib import Path

import pytest

from tfapp.runner.cgroup import Group, Used

MIB = 1 << 20
NEW = "anon 5242880\nfile 99999999\nshmem 2097152\nanon_thp 4\n"
OLD = "cache 9\nrss 1\nshmem 1\nrss_huge 0\ntotal_cache 9\ntotal_rss 5242880\ntotal_shmem 2097152\n"
KNOWN = Used(1.5, 7 * MIB)


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def new(folder: str, microseconds: int) -> dict[str, str]:
    """The files of version 2."""
    folder = f"sys/fs/cgroup/{folder}"
    cpu = f"usage_usec {microseconds}\nuser_usec 3\nsystem_usec 4\n"
    return {f"{folder}/cpu.stat": cpu, f"{folder}/memory.stat": NEW}


def old(folder: str, microseconds: int) -> dict[str, str]:
    """The files of version 1."""
    mounted = "sys/fs/cgroup"
    return {
        f"{mounted}/cpuacct/{folder}/cpuacct.usage": f"{microseconds * 1000}\n",
        f"{mounted}/memory/{folder}/memory.stat": OLD,
    }


OF_SYSTEMD = "4:memory:/docker/c0ffee\n3:cpu,cpuacct:/docker/c0ffee\n0::/docker/c0ffee\n"


@pytest.mark.parametrize(
    ("groups", "folder", "make"),
    [
        ("0::/docker/c0ffee\n", "docker/c0ffee", new),
        ("0::/system.slice/docker-c0ffee.scope\n", "system.slice/docker-c0ffee.scope", new),
        (OF_SYSTEMD, "docker/c0ffee", old),
        ("0::/\n4:memory:/docker/c0ffee\n2:cpuacct:/docker/c0ffee\n", "docker/c0ffee", old),
    ],
    ids=["2", "2 with systemd", "both", "1"],
)
def test_a_docker_container(tmp_path, groups, folder, make):
    write(tmp_path, {"proc/17/cgroup": groups, **make(folder, 500_000)})
    group = Group(17, "c0ffee", tmp_path)
    write(tmp_path, make(folder, 2_000_000))
    assert group.used() == KNOWN


@pytest.mark.parametrize(
    ("groups", "make"),
    [("0::/\n", new), ("4:memory:/kubepods/pod1/c\n3:cpu,cpuacct:/kubepods/pod1/c\n", old)],
    ids=["2", "1, without a namespace"],
)
def test_a_pod_whose_group_is_mounted_as_if_it_were_the_first(tmp_path, groups, make):
    write(tmp_path, {"proc/self/cgroup": groups, **make(".", 500_000)})
    group = Group(root=tmp_path)
    write(tmp_path, make(".", 2_000_000))
    assert group.used() == KNOWN


@pytest.mark.parametrize(
    "groups",
    [
        pytest.param("0::/../c0ffee\n", id="out of sight, in a namespace of the runner's own"),
        pytest.param("0::/user.slice\n", id="another"),
        pytest.param("4:memory:/x/c0ffee\n2:cpuacct:/x/c0ffee\n", id="1, out of sight"),
        pytest.param("3:cpu:/docker/c0ffee\n", id="1, other counters"),
        pytest.param("", id="none"),
    ],
)
def test_what_is_not_seen_is_not_that_of_others(tmp_path, groups):
    files = {**new(".", 1), **new("user.slice", 1), **old(".", 1), **old("user.slice", 1)}
    write(tmp_path, {"proc/17/cgroup": groups, **files})
    assert Group(17, "c0ffee", tmp_path).used() == Used(None, None)


def test_a_container_that_has_ended_has_none(tmp_path):
    assert Group(17, "c0ffee", tmp_path).used() == Used(None, None)


def test_a_kernel_that_counts_processors_alone(tmp_path):
    files = new("docker/c0ffee", 1_000_000)
    del files["sys/fs/cgroup/docker/c0ffee/memory.stat"]
    write(tmp_path, {"proc/17/cgroup": "0::/docker/c0ffee\n", **files})
    assert Group(17, "c0ffee", tmp_path).used() == Used(0.0, None)
