"""Exit codes and signals in words, memory kills from both versions of cgroups."""

import pytest

from tfapp.contract.exit import Exit
from tfapp.runner import exits


@pytest.mark.parametrize(
    ("returncode", "out_of_memory", "exit"),
    [
        (0, False, Exit(0, None, "exit", "exit code 0")),
        (3, True, Exit(3, None, "exit", "exit code 3")),
        (137, False, Exit(137, None, "exit", "exit code 137 (a shell's word for SIGKILL)")),
        (255, False, Exit(255, None, "exit", "exit code 255")),
        (-6, False, Exit(None, 6, "signal", "killed by SIGABRT (6)")),
        (-9, False, Exit(None, 9, "signal", "killed by SIGKILL (9)")),
        (-9, True, Exit(None, 9, "memory", "killed by SIGKILL (9): out of memory")),
        (-9, None, Exit(None, 9, "signal", "killed by SIGKILL (9), perhaps for memory")),
        (-15, True, Exit(None, 15, "signal", "killed by SIGTERM (15)")),
        (-99, False, Exit(None, 99, "signal", "killed by signal (99)")),
    ],
)
def test_decode(returncode, out_of_memory, exit):
    assert exits.decode(returncode, out_of_memory) == exit


def test_decode_names_the_limit():
    words = "its limit is 1Gi, by pod.yaml:18; raise it there"
    assert exits.decode(-9, True, words).text == f"killed by SIGKILL (9): out of memory ({words})"
    assert exits.decode(-9, None, words).text == "killed by SIGKILL (9), perhaps for memory"


CONTAINER = "container_1_0001_01_000002"
OWN = f"yarn/{CONTAINER}"


@pytest.mark.parametrize(
    ("cgroup", "file", "before", "after", "happened"),
    [
        (f"0::/{OWN}\n", f"{OWN}/memory.events", "oom 2\noom_kill 3\n", "oom_kill 4\n", True),
        (f"0::/{OWN}\n", f"{OWN}/memory.events", "oom 2\noom_kill 3\n", "oom_kill 3\n", False),
        (f"5:cpu:/x\n4:memory:/{OWN}\n", f"memory/{OWN}/memory.oom_control", *"01", True),
        (f"4:memory:/{OWN}\n0::/{OWN}\n", f"{OWN}/memory.events", *"01", True),
        (f"4:memory:/{OWN}\n", f"memory/{OWN}/memory.oom_control", "under_oom 0\n", "", False),
        ("0::/user\n", "user/memory.events", *"01", None),
        ("0::/user\n", "user/memory.events", *"11", False),
        (f"0::/{OWN}0\n", f"{OWN}0/memory.events", *"01", None),
        ("4:memory:/job\n", "memory/job/memory.oom_control", *"01", None),
        (f"0::/{OWN}\n", "unrelated", *"01", False),
    ],
)
def test_memory_kills(tmp_path, cgroup, file, before, after, happened):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(cgroup)
    counter = tmp_path / "sys/fs/cgroup" / file
    counter.parent.mkdir(parents=True)
    counter.write_text(f"oom_kill {before}\n" if before.isdigit() else before)
    kills = exits.MemoryKills(CONTAINER, root=tmp_path)
    counter.write_text(f"oom_kill {after}\n" if after.isdigit() else after)
    assert kills.happened() is happened


def test_memory_kills_in_a_container_that_sees_its_own_cgroup_alone(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("4:memory:/kubepods/pod1/main\n")
    counter = tmp_path / "sys/fs/cgroup/memory/memory.oom_control"
    counter.parent.mkdir(parents=True)
    counter.write_text("oom_kill 0\n")
    kills = [exits.MemoryKills(CONTAINER, alone, tmp_path) for alone in (True, False)]
    counter.write_text("oom_kill 1\n")
    assert [each.happened() for each in kills] == [True, None]


def test_memory_kills_that_cannot_be_seen_are_none(tmp_path):
    assert exits.MemoryKills(CONTAINER, root=tmp_path).happened() is False
    assert exits.MemoryKills(CONTAINER).happened() is False
