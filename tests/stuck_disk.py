"""A disk that does not answer, as a file server does that is gone: who writes to it waits in state
D, and no signal ends that. Freezing a file system does the same."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.lacking import lacking

_SIZE = 16 << 20  # bytes
# Its own processes clear up, also when the test is killed: a frozen disk cannot be unmounted.
_HOLD = 'mount -o loop "$1" "$2" && echo mounted && read -r _; fsfreeze -u "$2"; umount "$2"'


class Disk:
    """A disk at `folder`."""

    def __init__(self, folder: Path):
        self.folder = folder

    def freeze(self) -> None:
        """From now on it does not answer."""
        subprocess.run(["fsfreeze", "--freeze", self.folder], check=True)

    def thaw(self) -> None:
        """It answers again."""
        subprocess.run(["fsfreeze", "--unfreeze", self.folder], check=True)


@contextlib.contextmanager
def stuck_disk(place: Path) -> Iterator[Disk]:
    """One below `place`, which answers at first. It is gone afterwards, and answers before that."""
    for program in ("fsfreeze", "mkfs.ext4"):
        if shutil.which(program) is None:
            lacking(f"this machine has no {program}")
    image, folder = place / "disk.img", place / "disk"
    with image.open("wb") as file:
        file.truncate(_SIZE)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    folder.mkdir()
    with subprocess.Popen(
        ["sh", "-c", _HOLD, "sh", image, folder],
        env={"PATH": os.environ["PATH"]},  # it is no process of the test's application
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as holder:
        said = holder.stdout.readline()  # type: ignore[union-attr]
        try:
            if said != "mounted\n":
                lacking(f"this machine has no disk to mount: {holder.communicate()[1]}")
            yield Disk(folder)
        finally:
            holder.communicate()
    image.unlink()
