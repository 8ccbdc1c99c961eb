"""Exit codes and signals in words, memory kills from both versions of cgroups."""

from __future__ import annotations

import pytest

from tfapp.contract import Exit
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
        (-15, True, Exit(None, 15, "signal", "killed by SIGTERM (15)")),
        (-99, False, Exit(None, 99, "signal", "killed by signal (99)")),
    ],
)
def test_decode(returncode, out_of_memory, exit):
    assert exits.decode(returncode, out_of_memory) == exit


@pytest.mark.parametrize(
    ("cgroup", "file", "text", "count"),
    [
        ("0::/job/1\n", "job/1/memory.events", "low 0\noom 2\noom_kill 3\n", 3),
        ("5:cpu:/x\n4:memory:/job\n", "memory/job/memory.oom_control", "oom_kill 4\n", 4),
        ("4:memory:/job\n0::/\n", "memory.events", "oom_kill 5\n", 5),
        ("4:memory:/job\n", "memory/job/memory.oom_control", "under_oom 0\n", 0),
        ("0::/\n", "unrelated", "", 0),
    ],
)
def test_memory_kills(tmp_path, cgroup, file, text, count):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(cgroup)
    counter = tmp_path / "sys/fs/cgroup" / file
    counter.parent.mkdir(parents=True)
    counter.write_text(text)
    assert exits.memory_kills(tmp_path) == count


def test_memory_kills_that_cannot_be_seen_are_none(tmp_path):
    assert exits.memory_kills(tmp_path) == 0
    assert exits.memory_kills() >= 0
