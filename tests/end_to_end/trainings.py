"""Applications that train while tests disturb them. The same on every engine: `tfapp` decides."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.end_to_end.command_line import LIMIT, PLAIN_PACKAGE, CommandLine
from tests.waiting import wait
from tfapp.shipped import app_packages_dir

COUNTING = PLAIN_PACKAGE.parent / "counting"
TENSORFLOW = app_packages_dir() / "tensorflow"
EXAMPLES = app_packages_dir().parent / "examples"
RUNNER = "tfapp-runtime\0runner"
UNHURRIED = "unhurried.py"
COORDINATOR = "tfapp-runtime\0coordinator"

_BEGINS = re.compile(r"generation (\d+) goes on at step (\d+)")
_EPOCH = re.compile(r"^Epoch (\d+)/", re.MULTILINE)
_READY = re.compile(r"is ready for generation (\d+),")
_ACCURACY = re.compile(r"^test accuracy (0\.\d+)$", re.MULTILINE)


def wait_until(ready: Callable[[], Any], what: Callable[[], object]) -> Any:
    """The first true result of `ready`. After LIMIT seconds it fails, and shows `what`."""
    return wait(ready, what, LIMIT)


def with_policy(package: Path, folder: Path, policy: str) -> Path:
    """A copy of `package` in `folder` with a failurePolicy, which is YAML in one line."""
    shutil.copytree(package, folder, ignore=shutil.ignore_patterns("__pycache__"))
    with (folder / "metainfo.yaml").open("a") as metainfo:
        metainfo.write(f"\n  failurePolicy: {policy}\n")
    return folder


class Application:
    """An application that was created with `--detach`, and runs."""

    def __init__(self, tfapp: CommandLine, name: str, *flags: object, wait: bool = True):
        self.tfapp = tfapp
        self.name = name
        tfapp.ok("create", name, *flags, "--detach", *(("--wait", LIMIT) if wait else ()))

    def status(self) -> dict[str, Any]:
        return self.tfapp.status(self.name)["status"]

    def instances(self) -> dict[str, dict[str, Any]]:
        return {i["instance"]: i for i in self.status()["instances"]}

    def containers(self) -> dict[str, str]:
        return {name: i["container"] for name, i in self.instances().items()}

    def process(self, instance: str, command: str) -> int:
        """The process of an instance with `command` in its command line."""
        return self.tfapp.process(self.name, instance, command)

    def signal(self, instance: str, command: str, number: int = signal.SIGKILL) -> None:
        os.kill(self.process(instance, command), number)

    def log(self, instance: str) -> str:
        """The output of its containers, the oldest first."""
        return self.tfapp.asks("logs", self.name, instance)

    def told(self) -> str:
        return self.tfapp.asks("diagnostics", self.name)

    def forms(self, generation: int) -> dict[str, Any]:
        """The status once all programs of `generation` have started."""

        def formed() -> dict[str, Any] | None:
            status = self.status()
            states = {instance["state"] for instance in status["instances"]}
            if status["generation"] < generation or states != {"RUNNING"}:
                return None
            assert status["generation"] == generation
            return status

        return wait_until(formed, self.told)

    def replaced(self, before: dict[str, str]) -> set[str]:
        """The instances with other containers than `before`."""
        now = self.containers()
        return {name for name in now if now[name] != before.get(name)}

    def ends(self, code: int) -> dict[str, Any]:
        """As `wait_for_end`. Nothing lives then."""
        status = self.wait_for_end(code)
        assert self.tfapp.left() == []
        return status

    def wait_for_end(self, code: int) -> dict[str, Any]:
        """The status after the end, which `tfapp wait` tells with `code`."""
        ended = self.tfapp("wait", self.name)
        status = self.status()
        assert ended.code == code, self.told()
        assert f"{self.name}: {status['verdict']['summary']}" in ended.err.splitlines()
        return status


class Counting(Application):
    """Application "app": chief/0, worker/0, worker/1 and ps/0 count their steps."""

    def __init__(
        self,
        tfapp: CommandLine,
        checkpoints: Path,
        package: Path = COUNTING,
        more: Sequence[object] = (),
    ):
        self.checkpoints = checkpoints / "app"
        prefix = ("--option", "site.global.user.checkpoint.prefix", checkpoints)
        super().__init__(tfapp, "app", "--appdef", package, *prefix, *more)

    def process(self, instance: str, command: str = "program.py") -> int:
        return super().process(instance, command)

    def counted(self, instance: str) -> int:
        """Waits for a first step, and returns how many there are."""
        file = self.checkpoints / instance.replace("/", "-")
        wait_until(file.exists, lambda: f"{instance} has counted nothing")
        return int(file.read_text())

    def beginnings(self, instance: str) -> list[tuple[int, int]]:
        """(generation, step) of each beginning of the program of `instance`."""
        return [(int(g), int(step)) for g, step in _BEGINS.findall(self.log(instance))]

    def begins(self, instance: str, generation: int) -> None:
        """Waits until the program of `instance` counts in `generation`."""
        wait_until(lambda: self.beginnings(instance)[-1][0] == generation, self.told)

    def enough(self) -> str:
        """Lets all programs end. The verdict, after which nothing lives."""
        (self.checkpoints / "enough").touch()
        return self.ends(0)["verdict"]["summary"]


class Digits(Application):
    """An application: an example that trains with TensorFlow until it is enough."""

    def __init__(
        self,
        tfapp: CommandLine,
        checkpoints: Path,
        example: str,
        *flags: object,
        package: Path = TENSORFLOW,
        name: str = "digits",
    ):
        self.checkpoints = checkpoints / name
        folder = EXAMPLES / example
        from sklearn.datasets import load_digits  # slow to import, in each process of the suite

        found, file = load_digits(), tfapp.work / "load_digits.npz"
        np.savez(file, data=found.data, images=found.images, target=found.target)
        called = "--checkpoint-dir ${CHECKPOINT_DIR} --epochs 10000"
        super().__init__(
            tfapp,
            name,
            *("--appdef", package),
            *("--template", folder / "appConfig.yaml", "--resources", folder / "resources.yaml"),
            *("--files", folder / "train.py", "--files", Path(__file__).with_name(UNHURRIED)),
            *("--files", file),
            *("--option", "site.global.user.scripts.entry", UNHURRIED),
            *("--option", "site.global.user.scripts.args", called),
            *("--option", "site.global.user.checkpoint.prefix", checkpoints),
            *flags,
        )

    def process(self, instance: str, command: str = UNHURRIED) -> int:
        return super().process(instance, command)

    def trained(self) -> int:
        """How many epochs were trained and saved."""
        file = self.checkpoints / "epochs"
        return int(file.read_text()) if file.exists() else 0

    def trains(self, epochs: int = 1) -> None:
        """Waits until so many epochs more were trained and saved."""
        before = self.trained()
        wait_until(lambda: self.trained() >= before + epochs, self.told)

    def enough(self) -> dict[str, Any]:
        """Lets it end. Nothing lives then, and the digits are learned. Returns its status."""
        told = self.checkpoints / "told"
        told.write_text(str(max(self.trained() + 5, 12)))
        told.rename(self.checkpoints / "last")
        status = self.ends(0)
        accuracy = _ACCURACY.findall(self.log(status["instances"][0]["instance"]))
        assert float(accuracy[-1]) > 0.9
        return status

    def epochs(self, instance: str) -> dict[int, list[int]]:
        """Each epoch that `instance` has begun, by generation."""
        _, *parts = _READY.split(self.log(instance))
        found: dict[int, list[int]] = {}
        for number, text in zip(parts[::2], parts[1::2]):
            found.setdefault(int(number), []).extend(map(int, _EPOCH.findall(text)))
        return {generation: epochs for generation, epochs in found.items() if epochs}


def assert_continued(epochs: dict[int, list[int]], generations: int) -> None:
    """Each generation went on where the last one was, or at the epoch that it had not saved."""
    assert list(epochs) == list(range(1, generations + 1))
    assert epochs[1][0] == 1
    assert all(begun == list(range(begun[0], begun[-1] + 1)) for begun in epochs.values())
    for earlier, later in zip(epochs.values(), list(epochs.values())[1:]):
        assert 0 <= earlier[-1] + 1 - later[0] <= 2, epochs
