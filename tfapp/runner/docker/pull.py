"""Gets a program's image, as the pull policy says, with progress and a deadline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tfapp import threads
from tfapp.contract.job import Docker
from tfapp.runner.docker.engine import DockerEngine, EngineError

TOLD_EVERY = 30.0  # seconds between lines of progress in a log

_MEBIBYTE = 1 << 20


def ensure_image(
    engine: DockerEngine,
    docker: Docker,
    login: Mapping[str, str] | None,
    progress: PullProgress,
    say: Callable[[str], None],
    clock: Callable[[], float],
) -> None:
    """Returns when the image is there. EngineError when it is not: the policy forbids to pull
    it, the registry refuses, or the deadline is over. `say` gets the progress now and then."""
    if docker.pull != "always" and engine.has_image(docker.image):
        return
    if docker.pull == "never":
        raise EngineError(
            f"image {docker.image} is not on this machine, and site.global.docker.pull is never; "
            f"`docker pull {docker.image}` here, or set it to missing"
        )
    progress.begin()
    say(progress.words)
    outcome: list[str] = []

    def pull() -> None:
        outcome.append(_pull(engine, docker.image, login, progress))

    # In a thread that is left behind when it takes too long: nothing cuts a silent stream.
    thread = threads.start_surely("tfapp-pull", pull)
    left, end = docker.pull_timeout, clock() + docker.pull_timeout
    while left > 0:
        thread.join(min(left, TOLD_EVERY))
        left = end - clock() if thread.is_alive() else 0.0
        if left > 0:
            say(progress.words)
    if not outcome:
        so_far = f": {progress.share}" if progress.share else ""
        raise EngineError(
            f"image {docker.image} was not there within {docker.pull_timeout:g} s "
            f"(site.global.docker.pull.timeout){so_far}"
        )
    if outcome[0]:
        raise EngineError(f"image {docker.image} cannot be pulled: {outcome[0]}")
    say(f"image {docker.image} is there")


def login_of(secret: str) -> Mapping[str, str]:
    """A registry's login from "USER:PASSWORD". EngineError for another shape, without a word
    of it."""
    user, colon, password = secret.partition(":")
    if not (user and colon and password):
        raise EngineError("the credential for the registry is not of the form USER:PASSWORD")
    return {"username": user, "password": password}


def _pull(
    engine: DockerEngine, image: str, login: Mapping[str, str] | None, progress: PullProgress
) -> str:
    """Pulls the image. Returns the error, "" for none."""
    try:
        return progress.follow(engine.pull(image, login))
    except EngineError as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


class PullProgress:
    """The progress of an image's pull, by the engine's reports. For any thread to read."""

    def __init__(self, image: str):
        self.words = ""  # "pulling image X: 2 of 5 layers, 30 of 120 MiB" once it has begun
        self.share = ""  # "2 of 5 layers, 30 of 120 MiB" once there are any
        self._image = image
        self._layers: dict[str, tuple[int, int]] = {}  # id -> bytes so far, bytes in all
        self._done: set[str] = set()

    def begin(self) -> None:
        self.words = f"pulling image {self._image}"

    def follow(self, reports: Iterable[Mapping[str, Any]]) -> str:
        """Reads all reports. The error they end in, "" when they do not."""
        for report in reports:
            if "error" in report:
                return str(report["error"])
            self._note(report)
            if self._layers:
                self.share = self._count()
                self.words = f"pulling image {self._image}: {self.share}"
        return ""

    def _count(self) -> str:
        got = sum(so_far for so_far, _ in self._layers.values())
        size = sum(total for _, total in self._layers.values())
        return (
            f"{len(self._done)} of {len(self._layers)} layers, "
            f"{got // _MEBIBYTE} of {size // _MEBIBYTE} MiB"
        )

    def _note(self, report: Mapping[str, Any]) -> None:
        layer, status = report.get("id"), report.get("status", "")
        detail = report.get("progressDetail") or {}
        if not layer or status.startswith("Pulling from"):
            return
        so_far, total = self._layers.get(layer, (0, 0))
        if status == "Downloading":
            total = detail.get("total") or total
            so_far = detail.get("current") or so_far
        if status in ("Download complete", "Pull complete", "Already exists"):
            so_far = total
        if status in ("Pull complete", "Already exists"):
            self._done.add(layer)
        self._layers[layer] = (so_far, total)
