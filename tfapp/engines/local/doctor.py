"""Checks the requirements of the local engine."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

from tfapp import tools
from tfapp.engines.diagnosis import (
    OK,
    PROBLEM,
    WARNING,
    Finding,
    examine_here,
    tensorflow_version,
)
from tfapp.engines.machine.gpus import visible_gpus
from tfapp.errors import UnavailableError

LIMIT = 10.0  # seconds for Docker's answer

_DOCKER = "unix:///var/run/docker.sock"
_UNIX = "unix://"

_LACKING = 3
_QUESTION = f"""\
import importlib.util, sys
print("Python " + sys.version.split()[0])
sys.exit(0 if importlib.util.find_spec("tensorflow") else {_LACKING})
"""


def examine(home: Path, environ: Mapping[str, str], python: str | None = None) -> Iterator[Finding]:
    """All checks, in the order of `tfapp doctor`."""
    yield from examine_here(home)
    yield examine_tensorflow()
    yield examine_gpus(environ)
    yield examine_docker(environ.get("DOCKER_HOST") or _DOCKER)
    if python is not None:
        yield examine_interpreter(python)


def examine_tensorflow() -> Finding:
    """Checks that TensorFlow is installed, without importing it."""
    version = tensorflow_version()
    if not version:
        hint = "Install it, or name an interpreter that has it with site.global.python.executable."
        return Finding("tensorflow", WARNING, "not installed beside tfapp", hint)
    return Finding("tensorflow", OK, version)


def examine_interpreter(python: str) -> Finding:
    """Checks that an interpreter starts and has TensorFlow, without importing TensorFlow."""
    try:
        done = tools.run([python, "-c", _QUESTION], None, LIMIT)
    except tools.ToolError as error:
        return Finding("interpreter", PROBLEM, f"{python} does not start: {error.reason}")
    version = tools.last_line(done.text)
    if done.code == 0:
        return Finding("interpreter", OK, f"{version}, {python}")
    if done.code == _LACKING:
        hint = "Install it there, for programs that use it."
        return Finding("interpreter", WARNING, f"{version} without TensorFlow, {python}", hint)
    return Finding("interpreter", PROBLEM, f"{python} does not run: {done.reason}")


def examine_gpus(environ: Mapping[str, str]) -> Finding:
    gpus = visible_gpus(environ)
    if not gpus:
        return Finding("gpus", OK, "none: components ask for yarn.gpus 0")
    return Finding("gpus", OK, f"{len(gpus)}: {', '.join(gpus)}")


def examine_docker(host: str) -> Finding:
    """Checks that Docker's engine answers, which run mode docker needs."""
    if not host.startswith(_UNIX):
        return Finding("docker", OK, f"DOCKER_HOST is {host}, which is not asked")
    path = host[len(_UNIX) :]
    try:
        version = _docker_version(path)
    except (OSError, http.client.HTTPException) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        text = f"no engine answers at {path}: {reason or error}"
        hint = "Only run mode docker needs it: start it, and let this user use it."
        return Finding("docker", WARNING, text, hint)
    return Finding("docker", OK, f"{path}, API version {version}")


def check_docker(host: str) -> None:
    """UnavailableError if no Docker engine answers at `host`; "" is that of this machine."""
    finding = examine_docker(host or _DOCKER)
    if finding.level != OK:
        raise UnavailableError(
            f"run mode docker needs a Docker engine: {finding.text}",
            "Start it, let this user use it, or name another one by DOCKER_HOST; without "
            "site.global.run.mode docker, programs run as processes.",
        )


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str):
        super().__init__("localhost", timeout=LIMIT)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(LIMIT)
        self.sock.connect(self._path)


def _docker_version(path: str) -> str:
    connection = _UnixConnection(path)
    try:
        connection.request("GET", "/_ping")
        answer = connection.getresponse()
        answer.read()
        if answer.status != http.HTTPStatus.OK:
            raise OSError(0, f"it answers {answer.status}")
        return answer.getheader("Api-Version", "unknown")
    finally:
        connection.close()
