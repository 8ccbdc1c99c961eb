from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.played_engine import PlayedEngine, shell
from tfapp.launch.commit import commit_of
from tfapp.launch.submission import Request, compile_request
from tfapp.package.overrides import Overrides
from tfapp.shipped import app_packages_dir

ENTRY = "site.global.user.scripts.entry"


def git(folder: Path, *words: str) -> str:
    me = ("-c", "user.name=me", "-c", "user.email=me@example.com")
    done = subprocess.run(("git", *me, *words), cwd=folder, capture_output=True, check=True)
    return done.stdout.decode().strip()


@pytest.fixture
def checkout(tmp_path):
    """A folder `code` with a committed script, in a checkout."""
    root = tmp_path / "checkout"
    (root / "code").mkdir(parents=True)
    (root / "code" / "train.py").write_text("print(1)\n")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first")
    return root


def test_the_commit_and_whether_files_have_changed_since(checkout, tmp_path):
    folder, commit = checkout / "code", git(checkout, "rev-parse", "HEAD")
    environ = {**os.environ, "GIT_DIR": str(tmp_path / "of-a-hook")}
    assert commit_of(folder, environ) == commit
    (checkout / "new.txt").write_text("")
    assert commit_of(folder, environ) == commit
    (checkout / "code" / "train.py").write_text("print(2)\n")
    assert commit_of(folder, environ) == f"{commit} (changed)"


def test_without_a_commit_there_is_none(checkout, tmp_path):
    assert commit_of(tmp_path, os.environ) == ""
    assert commit_of(checkout, {"PATH": str(tmp_path)}) == ""
    git(tmp_path, "init", "-q", "new")
    assert commit_of(tmp_path / "new", os.environ) == ""
    (tmp_path / "new" / ".git" / "HEAD").write_text("broken")
    assert commit_of(tmp_path / "new", os.environ) == ""


@pytest.mark.parametrize(
    ("files", "cwd", "known"),
    [
        ({"x.py": "../elsewhere.py", "train.py": "code/train.py"}, ".", True),
        ({"helper.py": "code/train.py", "tfapp-call/main.py": "../elsewhere.py"}, ".", True),
        (
            {"data.csv": "../elsewhere.py", "tfapp-call/main.py": "../elsewhere.py"},
            *("checkout", True),
        ),
        ({"train.py": "../link.py"}, ".", True),
        ({"train.py": "../elsewhere.py"}, "checkout", False),
    ],
)
def test_it_is_that_of_the_programs_folder(checkout, tmp_path, files, cwd, known):
    (tmp_path / "elsewhere.py").write_text("")
    (tmp_path / "link.py").symlink_to(checkout / "code" / "train.py")
    engine = PlayedEngine(tmp_path, [])
    caller = shell(tmp_path, engine, cwd=tmp_path / cwd, environ={"PATH": os.environ["PATH"]})
    request = Request(
        name="app",
        appdef=app_packages_dir() / "tensorflow",
        overrides=Overrides(options=((ENTRY, [*files][-1]),)),
        files={name: checkout / path for name, path in files.items()},
        programs=False,
    )
    compiled = compile_request(request, caller, engine, dry_run=True)
    assert compiled.job.ran.commit == (git(checkout, "rev-parse", "HEAD") if known else "")
    assert compiled.job.ran.user == caller.user
