"""Runs the programs of this folder, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.end_to_end.command_line import CommandLine
from tests.programs import python

THERE = "storage in a container"
ROOT = Path(__file__).parents[2]
STEPS = (
    "files large_files append mistakes checkpoints records models callbacks summaries "
    "other_libraries forked"
)

# The variables of a worker, for the programs of docs/reading-data.md.
SECOND_OF_TWO = {
    "TF_CONFIG": json.dumps(
        {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}
    ),
}


def run(
    name: str, *words: str, environ: Mapping[str, str], cwd: Path = ROOT, limit: float = 300.0
) -> subprocess.CompletedProcess[str]:
    """Its end. `name`: of a module here; without the variables of AWS that this machine has."""
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    environ = {**quiet, "PYTHONPATH": str(ROOT), **environ}
    words = ("-m", f"tests.storage.{name}", *words)
    return python(*words, environ=environ, without="AWS_", cwd=cwd, limit=limit)


def check_operations(url: str, environ: Mapping[str, str]) -> None:
    """Everything that TensorFlow does with files works below `url`."""
    done = run("operations", url, environ=environ)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == STEPS.split()


def wrong(name: str, *words: str, environ: Mapping[str, str]) -> dict[str, str]:
    """What went wrong in each row of a program; "" where all went well."""
    done = run(name, *words, environ=environ)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check_killed(url: str, environ: Mapping[str, str]) -> None:
    """Nothing half is seen below `url` after a program was killed, and what is restored is the
    newest complete checkpoint."""
    done = run("killed", url, "6", environ=environ)
    expected = ["nothing half", "the newest complete checkpoint"]
    assert (done.returncode, done.stdout.splitlines()) == (0, expected), done.stderr


def check_ends(url: str, environ: Mapping[str, str], times: int) -> None:
    """Of so many programs that end in the middle of a pipeline over files below `url`, in each of 7
    ways, none hangs or loses its exit code."""
    done = run("leaving", url, "all", str(7 * times), environ=environ, limit=1500)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert len(seen) == 7
    assert {how: codes for how, codes in seen.items() if codes != {"right": times}} == {}


def doctor(tfapp: CommandLine, url: str, *flags: object) -> tuple[int, list[dict[str, str]]]:
    """The exit code of `tfapp doctor --storage`, and what was found in a container."""
    ended = tfapp("doctor", "--storage", url, "--format", "json", *flags)
    found = json.loads(ended.out)["findings"]
    return ended.code, [one for one in found if one["subject"].startswith(THERE)]


def check_doctor(tfapp: CommandLine, url: str, *flags: object) -> None:
    """A container of the engine can do at `url` what programs do. Nothing of it is left."""
    _, found = doctor(tfapp, url, *flags)
    steps = ["credentials", "write", "read", "rename", "list", "speed", "delete"]
    expected = [(THERE, "ok"), *((f"{THERE}: {step}", "ok") for step in steps)]
    assert [(one["subject"], one["level"]) for one in found] == expected, found
    assert not [name for name in tfapp.names() if name.startswith("doctor")]


def check_page(base: str, environ: Mapping[str, str], folder: Path) -> None:
    """The programs of docs/reading-data.md run, but for the one with a strategy, which must be the
    first of its process. `environ`: that of worker 1 of 2. `folder`: to run in."""
    done = run("page", base, *["0", "2", "3", "4", "5"], environ=environ, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "worker 1 of 2 has 800 records",
        *(f"epoch {epoch} has 25 batches" for epoch in range(3)),
        "1000 rows, 16 batches",
        "16 batches",
    ]
    assert list((folder / "cache").glob("points*"))
