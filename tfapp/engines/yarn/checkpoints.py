"""The checkpoint folder of an application on a cluster: a URL of a Hadoop file system, or a folder
of the nodes that this machine has as well."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tfapp.contract.names import HDFS_SCHEMES, opened_schemes
from tfapp.engines import refusals
from tfapp.engines.base import Checkpoints, StoredFile
from tfapp.engines.checkpoint_folder import is_url, stored_checkpoints
from tfapp.engines.yarn import hadoop_fs
from tfapp.errors import UnavailableError

SPEED = 1 << 18  # bytes a second that a copy must make, after the time that a command may take

_AUTHORITY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")
_PATTERN = re.compile(r"([\\*?\[\]{}])")  # what Hadoop's commands would expand
_COLUMNS = 8  # of `hadoop fs -ls`: mode, replicas, owner, group, bytes, day, time, path


class HadoopCheckpoints:
    """See tfapp.engines.base.Checkpoints. Uses Hadoop's own client, with the user's Kerberos ticket
    if required. `url`: the folder."""

    def __init__(self, environ: Mapping[str, str], url: str):
        self.place = url.rstrip("/")
        self._environ = environ

    def files(self, path: str) -> tuple[StoredFile, ...]:
        """See Checkpoints.files. UnavailableError if the file system does not answer."""
        done = hadoop_fs.run(self._environ, ["-ls", "-R", self._url(path)])
        if done.absent:
            raise refusals.no_stored_file(path, self.place)
        self._check(done)
        return parse_listing(done.out.decode(errors="replace"), self.place)

    def copy(self, path: str, folder: Path) -> None:
        """See Checkpoints.copy; uses a single command. UnavailableError if it fails."""
        size = sum(file.size for file in self.files(path))
        scratch = folder / ".get"
        done = hadoop_fs.run(
            self._environ,
            ["-get", self._url(path), scratch.absolute().as_uri()],
            limit=hadoop_fs.LIMIT + size / SPEED,
        )
        if not done.absent:
            self._check(done)
        if not scratch.exists():
            return
        if path:
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            scratch.rename(target)
        else:
            for child in scratch.iterdir():
                child.rename(folder / child.name)

    def _url(self, path: str) -> str:
        return _PATTERN.sub(r"\\\1", f"{self.place}/{path}" if path else self.place)

    def _check(self, done: hadoop_fs.HdfsDone) -> None:
        if not done.well:
            said = done.complaint or "it gave no reason"
            raise UnavailableError(
                f"{self.place} cannot be read: {said}", "`tfapp doctor --engine yarn` says more."
            )


def parse_listing(text: str, place: str) -> tuple[StoredFile, ...]:
    """The files below the folder `place`, a URL, in the output of `hadoop fs -ls -R`."""
    base = _AUTHORITY.sub("", place, count=1).rstrip("/") + "/"
    found = []
    for line in text.splitlines():
        columns = line.split(None, _COLUMNS - 1)
        if len(columns) == _COLUMNS and columns[0].startswith("-"):
            path = _AUTHORITY.sub("", columns[-1], count=1)
            if path.startswith(base):
                found.append(StoredFile(path[len(base) :], int(columns[4])))
    return tuple(sorted(found, key=lambda file: file.path))


def checkpoints_of(
    name: str, folder: str, environ: Mapping[str, str], schemes: str = ""
) -> Checkpoints:
    """The checkpoints of the application `name` in `folder`, as on the nodes. `schemes`: see
    stored_checkpoints. NotFoundError if there are none, UnavailableError for a folder of the nodes
    that this machine does not have."""
    by_tfapp = {*opened_schemes(schemes)} - {*HDFS_SCHEMES}
    if is_url(folder) and folder.partition("://")[0] not in by_tfapp:
        return HadoopCheckpoints(environ, folder)
    here = stored_checkpoints(name, folder, schemes)
    if not is_url(folder) and not Path(here.place).is_dir():
        raise UnavailableError(
            f"{here.place} is a folder of the cluster's nodes, and this machine does not see it",
            "Call `tfapp fetch` on a machine that mounts it, or let "
            "site.global.user.checkpoint.prefix be a URL, such as hdfs:///checkpoints.",
        )
    return here
