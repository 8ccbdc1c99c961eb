"""Hadoop's own file system client, which knows every file system and Kerberos. It is a Java
program and takes a second or two: it is called for what Skein's driver cannot do."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tfapp.engines.yarn.surroundings import find_java, read_class_path

LIMIT = 60.0  # seconds

_JAVA = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_OPTIONS = (
    "-Dfs.permissions.umask-mode=077",
    # A NameNode that does not listen is tried again each second, by default ten times.
    "-Dipc.client.connect.max.retries=2",
    "-Dipc.client.connect.max.retries.on.timeouts=2",
)
_ABSENT = re.compile(r"No such file or directory\Z")
_CUT_OFF = re.compile(
    r"failed on (connection exception|socket timeout)|NoRouteToHostException|\Ano answer within"
)


@dataclasses.dataclass(frozen=True)
class Done:
    """A command that has ended. `complaint`: its own words when it was not well, "" for none."""

    well: bool
    out: bytes
    complaint: str

    @property
    def cut_off(self) -> bool:
        """Whether nobody listens where the file system is to be, or answers in time."""
        return _CUT_OFF.search(self.complaint) is not None

    @property
    def absent(self) -> bool:
        """Whether there is nothing of the name that was asked for."""
        return _ABSENT.search(self.complaint) is not None


def java(environ: Mapping[str, str]) -> list[str]:
    """How a command begins that runs a small program of Hadoop's. UnavailableError when there is
    no Hadoop here."""
    return [find_java(environ), *_JAVA, "-cp", read_class_path(environ)]


def run(
    environ: Mapping[str, str],
    words: Sequence[str],
    limit: float = LIMIT,
    folder: Path | None = None,
    beside: bool = False,
) -> Done:
    """Runs `hadoop fs WORDS`, in `folder` if one is given. What it makes is for its owner alone.
    `beside`: what goes on at the same time on this machine goes before. UnavailableError when
    there is no Hadoop here."""
    nice = shutil.which("nice", path=environ.get("PATH")) if beside else None
    command = [nice, "-n", "5"] if nice else []
    command += [*java(environ), "org.apache.hadoop.fs.FsShell", *_OPTIONS, *words]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        return Done(False, b"", f"no answer within {limit:g} s")
    said = done.stderr.decode(errors="replace").splitlines()
    own = (f"{words[0][1:]}:", f"{words[0]}:")
    complaints = [line.strip() for line in said if line.startswith(own)]
    # What is there already is no hindrance, unless it is the only one.
    complaints.sort(key=lambda line: line.endswith(": File exists"))
    return Done(done.returncode == 0, done.stdout, next(iter(complaints), ""))
