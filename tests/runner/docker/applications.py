"""Applications in run mode docker on the local engine, by the commands that people use."""

import shutil
import subprocess
import sys
from pathlib import Path

from tests import programs
from tests.runner.docker.engine import BASE
from tests.runner.docker.instances import LIMIT, eventually
from tfapp import processes, shipped

REPOSITORY = Path(__file__).resolve().parents[3]
PACKAGE = shipped.app_packages_dir() / "tensorflow"


def tfapp(*words: str) -> subprocess.CompletedProcess:
    return programs.python("-m", "tfapp", *words, cwd=REPOSITORY, limit=2 * LIMIT)


class Submission:
    """An application of one worker that runs a shell script, which may fail `restarts` times."""

    def __init__(self, folder: Path, restarts: int = 0):
        self._folder = folder
        self._package = folder / "package"
        shutil.copytree(PACKAGE, self._package)
        with (self._package / "metainfo.yaml").open("a") as metainfo:
            metainfo.write(f"\n  failurePolicy: {{maxRestarts: {restarts}}}\n")

    def create(self, name: str, script: str, *words: str, mode: str = "docker"):
        return tfapp(*self._words(name, script, *words, mode=mode))

    def follow(
        self, name: str, script: str, *words: str, screen: int = subprocess.PIPE
    ) -> subprocess.Popen:
        """`tfapp create` that goes on. `screen`: where its standard error goes."""
        return subprocess.Popen(
            (sys.executable, "-m", "tfapp", *self._words(name, script, *words)),
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=screen,
            text=True,
        )

    def _words(self, name: str, script: str, *words: str, mode: str = "docker") -> tuple[str, ...]:
        program = self._folder / name / "train.sh"
        program.parent.mkdir()
        program.write_text(script)
        return (
            *("create", name, "--appdef", str(self._package), "--files", str(program)),
            *("--component", "worker", "1", "--option", "site.global.run.mode", mode),
            *("--option", "site.global.user.scripts.entry", "train.sh"),
            *("--option", "site.global.docker.image", BASE),
            *("--option", "site.global.user.checkpoint.prefix", str(self._folder / "ckpt")),
            # No container but that of the program.
            *("--option", "site.global.keras.legacy", "false"),
            *words,
        )

    def start(self, engine, script: str = "echo up; sleep 1000") -> str:
        """Starts `app`; the id of its Docker container once that runs."""
        done = self.create("app", script, "--detach")
        assert done.returncode == 0, done.stderr
        return eventually(lambda: running(engine), "a container")


def running(engine, name: str = "app") -> str:
    """The id of an application's container that runs, "" when none does."""
    own = f"label=tfapp.application={name}"
    return engine.docker("ps", "--quiet", "--no-trunc", "--filter", own).strip()


def program_of(engine, container: str) -> int:
    """The pid of the program in a container, below the container's init."""
    (init,) = engine.docker("inspect", "--format", "{{.State.Pid}}", container).split()
    _, program = eventually(lambda: processes.tree(int(init))[:2], "the program")
    return program.pid
