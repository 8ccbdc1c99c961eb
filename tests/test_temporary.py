"""Each row: what lies in the parent, and whether the next folder's maker deletes it."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tfapp.temporary import PREFIX, TemporaryFolder, sweep

MAKER = """
import sys
from pathlib import Path
from tfapp.temporary import TemporaryFolder
made = TemporaryFolder(sys.argv[1])
(made.path / "large").write_text("left")
(made.path / "closed").mkdir(0o500)
print(made.path, flush=True)
sys.stdin.read()
made.delete()
"""


@contextlib.contextmanager
def maker(parent: Path) -> Iterator[tuple[subprocess.Popen, Path]]:
    words = [sys.executable, "-c", MAKER, str(parent)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as made:
        try:
            yield made, Path(made.stdout.readline().strip())
        finally:
            made.kill()


@pytest.mark.parametrize("how", [signal.SIGKILL, None], ids=["killed", "ended"])
def test_nothing_is_left_of_a_process(tmp_path, how):
    with maker(tmp_path) as (made, folder):
        assert (folder / "large").exists()
        sweep(str(tmp_path))
        assert (folder / "large").exists()  # it is in use
        if how is None:
            made.communicate("")
            assert not folder.exists()
        else:
            made.send_signal(how)
            made.wait()
            assert (folder / "large").exists()
    own = TemporaryFolder(str(tmp_path))
    assert list(tmp_path.iterdir()) == [own.path]
    own.delete()
    assert list(tmp_path.iterdir()) == []


def test_a_child_of_the_program_does_not_keep_it(tmp_path):
    folder = TemporaryFolder(str(tmp_path))
    with subprocess.Popen(["sleep", "60"], close_fds=False) as child:
        try:
            os.close(folder._lock)  # as if this process had ended
            sweep(str(tmp_path))
            assert not folder.path.exists()
        finally:
            child.kill()


@pytest.mark.parametrize("kind", ["a file", "a link", "another name", "being made"])
def test_what_is_not_a_left_folder_stays(tmp_path, kind):
    other = tmp_path / "other"
    other.mkdir()
    place = tmp_path / f"{PREFIX}x"
    if kind == "a file":
        place.write_text("mine")
    elif kind == "a link":
        place.symlink_to(other)
    elif kind == "another name":
        place = tmp_path / "tfapp-x"
        place.mkdir()
    else:
        place = tmp_path / "tfapp-new-x"
        place.mkdir()
    sweep(str(tmp_path))
    assert place.exists() and other.exists()


def test_another_users_folder_stays(tmp_path, monkeypatch):
    (tmp_path / f"{PREFIX}x").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    sweep(str(tmp_path))
    assert (tmp_path / f"{PREFIX}x").exists()


def test_no_parent_is_no_error(tmp_path):
    sweep(str(tmp_path / "missing"))
    with pytest.raises(OSError):
        TemporaryFolder(str(tmp_path / "missing"))
