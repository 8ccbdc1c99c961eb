"""A real S3 server for tests: versitygw, built from its Go module once and kept by its version."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.clusters.yarn.conftest import ROOT
from tests.debian import alone
from tests.lacking import lacking
from tests.waiting import wait

MODULE = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
BUILD_LIMIT = 1200.0  # seconds

sys.path.insert(0, str(ROOT / "examples" / "kubernetes-cluster"))
from kubernetes_cluster import programs  # noqa: E402
from kubernetes_cluster.processes import ClusterError  # noqa: E402


def cache_folder() -> Path:
    """Where it is kept."""
    return Path(os.environ.get("TFAPP_TEST_CACHE") or "~/.cache/tfapp").expanduser()


def build(cache: Path) -> Path:
    """The program, from `cache`. Takes two minutes of computing when it is not there."""
    program = cache / "versitygw" / MODULE.rpartition("@")[2] / "versitygw"
    with alone(program.parent):
        if not program.exists():
            try:
                _build(program)
            except (ClusterError, OSError, subprocess.SubprocessError) as error:
                lacking(f"no S3 server: {error}")
    return program


def _build(program: Path) -> None:
    work = program.parent / "build"
    paths = f"{os.environ['PATH']}:/usr/local/go/bin"
    environ = {**os.environ, "PATH": paths}
    go = programs.find_go(environ) or programs.fetch_go(work, environ)
    environ |= {
        "CGO_ENABLED": "0",
        "GOBIN": str(work),
        "GOCACHE": str(work / "compiled"),
        "GOFLAGS": "-modcacherw",
        "GOMODCACHE": str(work / "modules"),
        "GOTOOLCHAIN": "local",
    }
    command = [str(go.command), "install", "-ldflags=-s -w", MODULE]
    log = program.parent / "build.log"
    with log.open("w") as output:
        done = subprocess.run(command, env=environ, stderr=output, timeout=BUILD_LIMIT)
    if done.returncode != 0:
        raise ClusterError(f"{' '.join(command)}: {log.read_text()[-1000:]}")
    (work / "versitygw").rename(program)
    shutil.rmtree(work)


@contextlib.contextmanager
def running(
    folder: Path,
    buckets: tuple[str, ...],
    host: str = "127.0.0.1",
    inside: Sequence[str] = (),
    certificate: Path | None = None,
) -> Iterator[dict[str, str]]:
    """The variables for a program that is to use it. Objects are files in `folder`. `host`: the
    address at which it listens; `inside`: the words before a command that runs where that is.
    `certificate`: with its private key, for https."""
    program = build(cache_folder())
    for bucket in buckets:
        (folder / bucket).mkdir(parents=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1" if inside else host, 0))
        address = f"{host}:{free.getsockname()[1]}"
    command = [*inside, str(program), "--quiet", "--port", address]
    if certificate:
        command += ["--cert", str(certificate), "--key", str(certificate)]
    command += ["posix", str(folder)]
    keys = {"ROOT_ACCESS_KEY": "tests", "ROOT_SECRET_KEY": "secret-of-tests"}
    # Not TFAPP_HOME, by which tests tell what lives of an application.
    environ = {name: value for name, value in os.environ.items() if name != "TFAPP_HOME"}
    with (folder.parent / "versitygw.log").open("w") as log:
        server = subprocess.Popen(command, env={**environ, **keys}, stdout=log, stderr=log)
    try:
        wait(lambda: _answers(address, inside), "the S3 server does not answer", 60)
        yield {
            "S3_ENDPOINT": address,
            "S3_USE_HTTPS": "1" if certificate else "0",
            "S3_ACCESS_KEY": keys["ROOT_ACCESS_KEY"],
            "S3_SECRET_KEY": keys["ROOT_SECRET_KEY"],
        }
    finally:
        server.kill()
        server.wait()


def options(environ: Mapping[str, str]) -> list[str]:
    """The variables as flags of `tfapp create`."""
    words = (("--option", f"env.{name}", value) for name, value in environ.items())
    return [word for three in words for word in three]


def _answers(address: str, inside: Sequence[str]) -> bool:
    host, port = address.split(":")
    look = f"import socket; socket.create_connection(({host!r}, {port}), 1)"
    command = [*inside, sys.executable, "-ISc", look]
    return subprocess.run(command, stderr=subprocess.DEVNULL, timeout=60).returncode == 0


if __name__ == "__main__":  # `.ci/run` builds it outside of pytest's limits
    build(cache_folder())
