"""TFAPP_HOME on disks that are full or not to be written: each in a mount namespace of its own."""

import contextlib
import errno
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end import trainings
from tests.end_to_end.command_line import LIMIT, PLAIN_PACKAGE, CommandLine
from tests.stuck_disk import stuck_disk
from tests.waiting import wait
from tfapp.runner import stacks

pytestmark = pytest.mark.slow

NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")
CREATE = ("create", "app", "--appdef", PLAIN_PACKAGE, "--component", "worker", 1)


@contextlib.contextmanager
def mounted(options: str, work: Path, disk: Path) -> Iterator[tuple[CommandLine, Path]]:
    """`tfapp` with a TFAPP_HOME on a disk that it alone sees, and that disk as seen from here."""
    if subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode:
        pytest.skip("this system lets nobody make namespaces")
    disk.mkdir()
    script = 'mount -t tmpfs -o "$1" none "$2" && echo mounted && read -r _'
    with subprocess.Popen(
        [*NAMESPACE, "sh", "-c", script, "sh", options, str(disk)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout.readline() == "mounted\n"
        target = f"--target={holder.pid}"
        enter = ("nsenter", target, "--user", "--mount", "--preserve-credentials", f"--wd={work}")
        tfapp = CommandLine(work, disk / "home", enter)
        try:
            yield tfapp, Path(f"/proc/{holder.pid}/root{disk}")
        finally:
            left = tfapp.kill_living()
            holder.stdin.close()
            holder.wait(LIMIT)
        assert left == []


def fill(stone: Path, leave: int) -> None:
    """Makes `stone` so big that `leave` bytes remain free on its disk, or none where somebody
    else writes there at the same time."""
    room = os.statvfs(stone.parent)
    free = room.f_bavail * room.f_frsize
    try:
        stone.write_bytes(b"x" * (free - leave))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise


CACHE_FULL = (
    "error: the disk of HOME/cache is full",
    "  Free some space there, or set TFAPP_HOME to a folder on another disk.",
)
NO_ROOM = (
    "error: the application master cannot start: HOME/apps/app/runs/1/FILE cannot be written: "
    "there is no space left on its disk",
    "  Make room or access, or name another folder with TFAPP_HOME.",
)


def without_note(text: str) -> list[str]:
    """The lines but for the one on checkpoints, which comes once all checks have passed."""
    return [line for line in text.splitlines() if not line.startswith("checkpoints go to ")]


@pytest.mark.parametrize(
    ("cached", "free", "message"),
    [
        (False, 0, CACHE_FULL),
        (False, 64 << 10, CACHE_FULL),
        # Enough for the run's own files, not for what its containers unpack.
        (True, 32 << 10, NO_ROOM),
        (True, 48 << 10, NO_ROOM),
    ],
    ids=("nothing", "a bit", "enough to begin", "a bit more"),
)
def test_a_full_disk(tfapp, tmp_path, cached, free, message):
    with mounted("size=8m", tfapp.work, tmp_path / "disk") as (on_disk, disk):
        others = ["other"] if cached else []
        for name in others:
            on_disk.ok("create", name, *CREATE[2:])
        stone = disk / "stone"
        fill(stone, free)
        ended = on_disk(*CREATE)
        assert (ended.code, ended.out) == (53, "")
        shown = ended.err.replace(str(on_disk.home), "HOME")
        shown = re.sub("(?<=runs/1/)(journal|containers/container_[0-9_]+)", "FILE", shown)
        assert tuple(without_note(shown)) == message
        assert on_disk.names() == others
        assert on_disk.living() == []
        stone.unlink()
        assert on_disk.ok(*CREATE) == "trained\n"


def test_a_disk_that_is_full_once_the_programs_run(tfapp, tmp_path):
    """Their output is lost; the result of the application is not."""
    program = (
        "import os, pathlib\n"
        "stone = pathlib.Path(os.environ['STONE'])\n"
        "with stone.open('wb', buffering=0) as file:\n"
        "    try:\n"
        "        while True:\n"
        "            file.write(b'x' * 4096)\n"
        "    except OSError:\n"
        "        print('full')\n"
    )
    tfapp.program(program)
    with mounted("size=8m", tfapp.work, tmp_path / "disk") as (on_disk, disk):
        flags = ("--files", "program.py", "--option", "env.STONE", tmp_path / "disk" / "stone")
        assert on_disk.ok(*CREATE, *flags) == "full\n"
        assert on_disk.living() == []
        assert on_disk.status("app")["status"]["state"] == "SUCCEEDED"
        assert (disk / "stone").exists()
        on_disk.ok("destroy", "app")
        assert on_disk.names() == []


@pytest.mark.trains
def test_a_disk_that_fills_up_while_tensorflow_trains(tfapp, tmp_path):
    """No checkpoint can be written, in the next generation neither. The verdict can."""
    policy = "{maxRestarts: 1, startupSeconds: 0, endOnRepeatedFailure: false}"
    package = trainings.with_policy(trainings.TENSORFLOW, tmp_path / "package", policy)
    with mounted("size=32m", tfapp.work, tmp_path / "disk") as (on_disk, disk):
        checkpoints = tmp_path / "disk" / "checkpoints"
        digits = trainings.Digits(on_disk, checkpoints, "digits-multiworker", package=package)
        digits.checkpoints = disk / "checkpoints" / "digits"
        digits.trains()
        fill(disk / "stone", 0)
        status = digits.ends(65)
        assert (status["generation"], status["restarts"]) == (2, 1)
        verdict = status["verdict"]
        assert re.fullmatch(
            r"Failed: worker/\d on 127.0.0.1 ended with exit code 1 in generation 2, .* after its "
            "start: .+[.] It was not restarted again: that was done once "
            ".failurePolicy.maxRestarts.[.]",
            verdict["summary"],
        )
        assert "No space left on device" in verdict["cause"]["last_lines"]
        assert "ended with exit code 1 in generation 1" in digits.told()
        assert "Epoch 1/" in digits.log("worker/0")
        on_disk.ok("destroy", "digits")
        assert on_disk.names() == []


def test_a_disk_that_is_read_only(tfapp, tmp_path):
    with mounted("ro", tfapp.work, tmp_path / "disk") as (on_disk, _):
        ended = on_disk(*CREATE)
        assert (ended.code, ended.out) == (53, "")
        assert without_note(ended.err) == [
            f"error: {on_disk.home}/cache cannot be used: Read-only file system",
            "  Make it writable, or set TFAPP_HOME to a folder of your own.",
        ]
        assert on_disk.names() == []


@pytest.mark.parametrize("below", ["home", "home/below"])
def test_a_file_in_the_place_of_home(tfapp, tmp_path, below):
    (tmp_path / "home").write_text("")
    odd = CommandLine(tfapp.work, tmp_path / below)
    ended = odd(*CREATE)
    assert (ended.code, ended.out) == (53, "")
    assert without_note(ended.err) == [
        f"error: {tmp_path}/{below}/cache cannot be used: Not a directory",
        "  Make it writable, or set TFAPP_HOME to a folder of your own.",
    ]
    assert odd("list").code == 53


@pytest.mark.parametrize(
    ("options", "told"),
    [("size=8m", "the disk of {} is full"), ("nr_inodes=2", "the disk of {} has no inode left")],
)
def test_a_full_disk_is_told_with_the_stacks(tmp_path, options, told):
    with mounted(options, tmp_path, tmp_path / "disk") as (_, disk):
        assert stacks.troubles((), (disk,)) == ()
        fill(disk / "stone", 0) if "size" in options else (disk / "stone").touch()
        assert stacks.troubles((), (disk,)) == (told.format(disk),)


WRITES = """
import os
file = open(os.environ["ROWS"], "wb", buffering=0)
print("writes", flush=True)
while True:
    file.write(b"x")
    file.seek(0)
"""


@pytest.mark.weekly
def test_a_program_that_waits_for_a_disk_cannot_be_killed(tfapp, tmp_path):
    """It is told where it waits, and that it lives on."""
    tfapp.program(WRITES)
    with stuck_disk(tmp_path) as disk:
        rows = ("--option", "env.ROWS", disk.folder / "rows")
        limit = ("--option", "site.global.progress.timeout", 10)
        flags = ("--files", "program.py", *rows, *limit, "--detach", "--wait", LIMIT)
        tfapp.ok(*CREATE, *flags)
        wait(lambda: "writes" in tfapp.asks("logs", "app", "worker/0"), "it writes", LIMIT)
        disk.freeze()
        assert tfapp("wait", "app").code == 65
        summary = tfapp.status("app")["status"]["verdict"]["summary"]
        wait(lambda: len(tfapp.living()) == 1, tfapp.living, LIMIT)
        (left,) = tfapp.living()
        disk.thaw()
        wait(lambda: tfapp.living() == [], "it ends at last", LIMIT)
    waits = r"state D: it waits for a disk or a file server( \(\w+\))?"
    assert re.search(rf"; still there after SIGKILL: process {left}, {waits}\. Before", summary)
    assert re.search(rf"Before its end, worker/0 is in {waits}", summary)
