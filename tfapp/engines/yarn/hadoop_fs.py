"""Hadoop's file system client, which supports every file system and Kerberos. It is a Java program
that takes one or two seconds, and is used only for what Skein's driver cannot do."""

from __future__ import annotations

import dataclasses
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from tfapp import tools
from tfapp.engines.yarn.hadoop_client import find_java, read_class_path
from tfapp.engines.yarn.kerberos import java_options
from tfapp.frozen import frozen

LIMIT = 60.0  # seconds

_JAVA = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_OWNER_ONLY = "-Dfs.permissions.umask-mode=077"
_OPTIONS = (
    # A NameNode that does not listen is tried again each second, by default ten times.
    "-Dipc.client.connect.max.retries=2",
    "-Dipc.client.connect.max.retries.on.timeouts=2",
)
_EXISTS = ": File exists"
_ABSENT = re.compile(r"No such file or directory\Z")
_CUT_OFF = re.compile(
    r"failed on (connection exception|socket timeout)|NoRouteToHostException|\Ano answer within"
)


@frozen
class HdfsDone:
    """The result of a command. `complaint`: its error message; "" on success."""

    well: bool
    out: bytes
    complaint: str

    @property
    def cut_off(self) -> bool:
        """Whether the server of the file system cannot be reached in time."""
        return _CUT_OFF.search(self.complaint) is not None

    @property
    def absent(self) -> bool:
        return _ABSENT.search(self.complaint) is not None


def java(environ: Mapping[str, str]) -> list[str]:
    """The first words of the command line for a small program of Hadoop. UnavailableError if Hadoop
    is not installed."""
    return [find_java(environ), *_JAVA, *java_options(environ), "-cp", read_class_path(environ)]


def run(
    environ: Mapping[str, str],
    words: Sequence[str],
    limit: float = LIMIT,
    folder: Path | None = None,
    beside: bool = False,
    private: bool = True,
) -> HdfsDone:
    """Runs `hadoop fs WORDS`, in `folder` if given. `beside`: with low priority on this machine.
    `private`: new files and folders are accessible for their owner only. UnavailableError if Hadoop
    is not installed."""
    nice = shutil.which("nice", path=environ.get("PATH")) if beside else None
    command = [nice, "-n", "5"] if nice else []
    command += [*java(environ), "org.apache.hadoop.fs.FsShell", *_OPTIONS]
    command += [_OWNER_ONLY, *words] if private else words
    try:
        done = tools.run(command, environ, limit, folder)
    except tools.ToolError as error:
        return HdfsDone(False, b"", error.reason)
    own = (f"{words[0][1:]}:", f"{words[0]}:")
    complaints = [line.strip() for line in done.err.splitlines() if line.startswith(own)]
    # "File exists" is the reason of a failure only where there is no other.
    complaints.sort(key=lambda line: line.endswith(_EXISTS))
    return HdfsDone(done.code == 0, done.out, next(iter(complaints), ""))


def make_folders(environ: Mapping[str, str], home: str, folders: Sequence[str]) -> HdfsDone:
    """Creates `folders`, each below the one before it, for their owner only. If the folder `home`
    does not exist, it and its parents are created first, with the default mode of the cluster:
    /user is public. Folders that exist already are no error."""
    done = run(environ, ["-mkdir", *folders])
    if done.absent:
        done = run(environ, ["-mkdir", "-p", home], private=False)
        if done.well:
            done = run(environ, ["-mkdir", *folders])
    return dataclasses.replace(done, well=done.well or done.complaint.endswith(_EXISTS))
