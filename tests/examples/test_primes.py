"""The package that write-a-package.md makes from nothing: what the page shows is what there is, its
commands run, and its author's tests pass."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests import programs
from tests.readme import README

pytestmark = pytest.mark.slow

ROOT = README.parent
PACKAGE = ROOT / "examples" / "primes"
BLOCK = re.compile(r"(?ms)^```(\w+)\n(.*?)^```$")
PATIENCE = 600  # seconds


def blocks() -> list[tuple[str, str]]:
    return BLOCK.findall((ROOT / "docs" / "write-a-package.md").read_text(encoding="utf-8"))


def run(command: list[str], cwd: Path, home: Path) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environ = {"PATH": path, "TFAPP_HOME": str(home)}
    done = programs.run(*command, cwd=cwd, environ=environ, limit=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_each_file_is_shown_as_it_is():
    shown = {code for language, code in blocks() if language not in ("sh", "text")}
    texts = {
        path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8")
        for path in PACKAGE.rglob("*")
        if path.suffix in (".py", ".json", ".yaml")
    }
    del texts["files/primes.py"]  # the page tells what matters of it
    assert shown == set(texts.values())


def test_its_commands_run(tmp_path):
    tries, tests = [code for language, code in blocks() if language == "sh"]
    said = run(["bash", "-euc", tries], ROOT, tmp_path)
    assert "there are 17984 primes below 200000" in said
    said = run(["bash", "-euc", f"exec 2>&1\n{tests}"], ROOT, tmp_path)
    assert "It was restarted twice before." in said
    left = run(["tfapp", "list"], ROOT, tmp_path)
    kept = [folder.name for folder in (tmp_path / "checkpoints").iterdir()]
    assert (left.count("\n"), kept) == (1, ["primes"]), "the test's are gone"


def test_the_tests_of_its_author_pass(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "primes", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "primes"]
    assert " 3 passed " in run(command, tmp_path, tmp_path / "home")
