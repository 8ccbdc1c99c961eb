"""The folder for files that applications share on the cluster: `.tfapp` in the user's home folder.

    cache/NAME         archives, named by their content, and definitions (.bundle.Bundle)
    destroyed/ID/      marks of destroyed runs, for other machines

Files are created atomically and never modified: YARN refuses a file that has changed since the
submission. A local record lists the uploaded files, so that unchanged files cost nothing. The
folder is listed again after a failed submission.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from tfapp.contract.encoding import Coded
from tfapp.disk import make_private, write_json, writing
from tfapp.engines.refusals import read_if_whole
from tfapp.engines.yarn import hadoop_fs
from tfapp.engines.yarn.configuration import manager_addresses, read_configuration
from tfapp.engines.yarn.hadoop_client import fingerprint
from tfapp.engines.yarn.layout import YarnHome
from tfapp.errors import UnavailableError
from tfapp.frozen import frozen

USER_HOME = "/user/{user}"
# Where Skein's driver puts what it submits, below the user's home folder.
STAGING = ".skein/{application}"

CHECKPOINTS = "tfapp/checkpoints"  # below the user's home folder

UPLOAD_LIMIT = 120.0  # seconds, and more for what is large:
KEEP_LIMIT = 30.0
SLOWEST = 2 << 20  # bytes per second
LOOK_LIMIT = 15.0  # seconds
IN_USE = 90 * 24 * 3600.0  # seconds since a cluster was last looked at, for it to be in use

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
# Skein keeps no more of a file system's address than this, in lower case.
_FILE_SYSTEM = re.compile(r"(?!file:)[a-z][a-z0-9+.-]*://[a-z0-9._-]+(:[0-9]+)?\Z")
_APPLICATION = re.compile(r"application_[0-9]+_[0-9]+\Z")


@frozen
class FolderListing:
    """The content of the folder: the upload time of each file, in seconds since 1970, the destroyed
    runs, and the bytes of all files."""

    files: Mapping[str, float] = dataclasses.field(default_factory=dict)
    destroyed: frozenset[str] = frozenset()
    size: int = 0


@frozen
class SharedRecord(Coded):
    """The local record of the folder: its URL; for each uploaded file its local copy ("" for
    none); the files that were deleted since; and the times of the last listing and of the last
    sweep, in seconds since 1970."""

    url: str = ""
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    gone: tuple[str, ...] = ()
    looked: float = 0.0
    swept: float = 0.0

    @classmethod
    def read(cls, path: Path) -> SharedRecord:
        """The record; an empty one if there is none that can be read."""
        return read_if_whole(path, cls.from_dict) or cls()

    def write(self, path: Path) -> None:
        """Writes the record. UnavailableError if that fails."""
        with writing(path):
            make_private(path.parent)
            write_json(path, self)

    def brought(self, copies: Mapping[str, str]) -> SharedRecord:
        """A record with these uploaded files added."""
        gone = tuple(name for name in self.gone if name not in copies)
        return dataclasses.replace(self, files={**self.files, **copies}, gone=gone)

    def only(self, names: Collection[str]) -> SharedRecord:
        return dataclasses.replace(self, gone=tuple(n for n in self.files if n not in names))


class SharedFolder:
    """The folder of `user` on the cluster that `environ` selects. `clock`: seconds since 1970."""

    def __init__(
        self, home: YarnHome, environ: Mapping[str, str], user: str, clock: Callable[[], float]
    ):
        self._home = home
        self._environ = environ
        self._clock = clock
        self._user_home = USER_HOME.format(user=user)
        self._folder = f"{self._user_home}/.tfapp"
        self._cache = f"{self._folder}/cache"
        self._destroyed = f"{self._folder}/destroyed"
        managers = manager_addresses(read_configuration(environ))
        self.cluster = " ".join((user, *managers))  # identifies the YARN, and the user on it
        self._path = home.shared_record(f"{fingerprint(environ)}-{user}")
        self._listing: FolderListing | None = None

    def url(self) -> str:
        """The URL of the folder of files; "" if there is none, so that files are uploaded with each
        application. Determined once, by a Java program."""
        record = SharedRecord.read(self._path)
        if not record.url:
            record = dataclasses.replace(record, url=self._find())
            if record.url:
                record.write(self._path)
        return record.url

    def checkpoints(self) -> str:
        """The URL of the folder for checkpoints, "" if there is none."""
        url = self.url()
        return f"{url[: -len(self._cache)]}{self._user_home}/{CHECKPOINTS}" if url else ""

    # -- files --
    def put(self, files: Mapping[str, Path], along: Mapping[str, bytes] | None = None) -> None:
        """Uploads new files, by one Java program. `along`: further files, uploaded with them if the
        program runs anyway. Names identify the content. UnavailableError if that fails."""
        new = self._new(files)
        if new:
            self._bring({**new, **self._new(along or {})})

    def keep(self, texts: Mapping[str, bytes]) -> None:
        """As `put`, for content in memory, with low priority."""
        self._bring(self._new(texts), beside=True)

    def restore(self, urls: Iterable[str]) -> bool:
        """Uploads those of `urls` again that were deleted; returns whether there were any. Other
        missing files are removed from the record. UnavailableError if there is no local copy of a
        file."""
        # Others may lie under the same path of another file system.
        near = [url for url in urls if f"{self._cache}/" in url]
        head = f"{self.url()}/" if near else ""
        wanted = {url[len(head) :] for url in near if url.startswith(head)}
        there = self._names() if wanted else set()
        lost, record = wanted - there, SharedRecord.read(self._path)
        gone = sorted(name for name in lost if not Path(record.files.get(name, "")).is_file())
        if gone:
            raise UnavailableError(
                f"{head}{gone[0]} was deleted on the cluster, and there is no copy of it here",
                "Create the application again from its package.",
            )
        if lost:
            self._upload({name: Path(record.files[name]) for name in lost})
            record.only(there | lost).write(self._path)
        return bool(lost)

    def read(self, names: Collection[str]) -> bytes:
        """The concatenated content of those files that exist, by one Java program. UnavailableError
        if the file system does not answer."""
        if not names:
            return b""
        done = hadoop_fs.run(self._environ, ["-cat", *self._files(sorted(names))])
        if done.cut_off:
            raise _silent(done)
        return done.out

    def note(self, names: Iterable[str]) -> None:
        record = SharedRecord.read(self._path)
        new = {name: record.files.get(name, "") for name in self._new(dict.fromkeys(names))}
        if new:
            record.brought(new).write(self._path)

    def delete(self, names: Collection[str], destroyed: Collection[str]) -> None:
        """Deletes files and marks of runs, by one Java program. Errors are ignored."""
        if names:
            record = SharedRecord.read(self._path)
            left = {name: path for name, path in record.files.items() if name not in names}
            dataclasses.replace(record, files=left).write(self._path)
        paths = [*self._files(sorted(names)), *self._marks(sorted(destroyed))]
        if paths:
            hadoop_fs.run(self._environ, ["-rm", "-r", "-f", "-skipTrash", *paths])

    def delete_staging(self, application: str) -> None:
        """Deletes the folder that Skein's driver made for a run, by one Java program.
        UnavailableError if the file system does not answer."""
        folder = f"{self._user_home}/{STAGING.format(application=application)}"
        done = hadoop_fs.run(self._environ, ["-rm", "-r", "-f", "-skipTrash", folder])
        if done.cut_off:
            raise _silent(done)

    # -- runs that were destroyed --
    def mark(self, runs: Iterable[str]) -> None:
        """Marks `runs` as destroyed for all machines, by one Java program. UnavailableError if that
        fails."""
        done = hadoop_fs.run(self._environ, ["-mkdir", "-p", *self._marks(runs)])
        if done.cut_off:
            raise _silent(done)
        if not done.well:
            raise UnavailableError(
                f"the cluster does not take note of it: {done.complaint or 'it gave no reason'}",
                f"The folder {self._folder} must be writable.",
            )

    def looked(self) -> float:
        """The time of the last listing, in seconds since 1970."""
        return SharedRecord.read(self._path).looked

    def swept(self) -> float:
        """The time of the last `note_sweep`, in seconds since 1970."""
        return SharedRecord.read(self._path).swept

    def note_sweep(self) -> None:
        """Records that superfluous files were searched for now."""
        with contextlib.suppress(UnavailableError):  # then it is looked for again
            dataclasses.replace(SharedRecord.read(self._path), swept=self._clock()).write(
                self._path
            )

    def of_other_clusters(self) -> set[str]:
        """The files that this machine has uploaded for recently used applications of other
        clusters: clusters may share a user's home folder."""
        records = [
            SharedRecord.read(path) for path in self._path.parent.glob("*") if path != self._path
        ]
        used = (record for record in records if self._clock() - record.looked < IN_USE)
        return {name for record in used for name in record.files}

    def look(self) -> FolderListing | None:
        """The content of the folder, None when it cannot be listed: by one Java program, the first
        time that a command asks."""
        if self._listing is None:
            words = ["-stat", "%Y %b %n", f"{self._folder}/*/*"]
            done = hadoop_fs.run(self._environ, words, LOOK_LIMIT)
            if done.well or done.absent:
                self._listing = _listing(done.out.decode(errors="replace"))
            record = SharedRecord.read(self._path)
            if self._listing is not None:
                record = record.only(self._listing.files)
            with contextlib.suppress(UnavailableError):  # a full disk here is no reason to fail
                dataclasses.replace(record, looked=self._clock()).write(self._path)
        return self._listing

    def size(self) -> int | None:
        """Bytes of all files, each counted once whatever its replication; None when the file
        system does not tell. By one Java program."""
        done = hadoop_fs.run(self._environ, ["-du", "-s", self._cache])
        if done.absent:
            return 0
        size = done.out.split(maxsplit=1)[:1]
        return int(size[0]) if done.well and size and size[0].isdigit() else None

    # -- inside --
    def _find(self) -> str:
        system = hadoop_fs.run(self._environ, ["-df"]).out.decode(errors="replace").split("\n")
        # A table of one file system: its address begins the line below the head.
        address = system[1].partition(" ")[0].rstrip("/") if len(system) > 1 else ""
        return f"{address}{self._cache}" if _FILE_SYSTEM.match(address) else ""

    def _make_folder(self) -> None:
        folders = (self._folder, self._cache)
        done = hadoop_fs.make_folders(self._environ, self._user_home, folders)
        if not done.well:
            raise self._refused(done)

    def _refused(self, done: hadoop_fs.HdfsDone) -> UnavailableError:
        if done.cut_off:
            return _silent(done)
        return UnavailableError(
            f"files cannot be brought to {SharedRecord.read(self._path).url or self._cache}: "
            + (done.complaint or "it gave no reason"),
            "The folder must be writable, and the file system of the cluster up.",
        )

    def _new(self, files: Mapping[str, Any]) -> dict[str, Any]:
        record = SharedRecord.read(self._path)
        known = record.files.keys() - set(record.gone)
        return {name: content for name, content in files.items() if name not in known}

    def _bring(self, new: Mapping[str, Path | bytes], beside: bool = False) -> None:
        if new:
            self._upload(new, beside)
            copies = {n: str(c.absolute()) if isinstance(c, Path) else "" for n, c in new.items()}
            SharedRecord.read(self._path).brought(copies).write(self._path)

    def _upload(self, files: Mapping[str, Path | bytes], beside: bool = False) -> None:
        """Uploads files. Hadoop's client writes to a temporary name and renames; existing files are
        kept. It is tried twice, because the folder may have been deleted."""
        with tempfile.TemporaryDirectory(prefix="tfapp-") as folder:
            size = sum(_lay(content, Path(folder, name)) for name, content in files.items())
            words = ["-put", *files, f"{self._cache}/"]
            limit = (KEEP_LIMIT if beside else UPLOAD_LIMIT) + size / SLOWEST
            if not SharedRecord.read(self._path).files:
                self._make_folder()
            for _ in range(2):
                done = hadoop_fs.run(self._environ, words, limit, Path(folder), beside)
                if done.cut_off:
                    break
                # One that is there already is a complaint as well.
                if done.well or self._names().issuperset(files):
                    return
                self._make_folder()
        raise self._refused(done)

    def _names(self) -> set[str]:
        listed = hadoop_fs.run(self._environ, ["-ls", "-C", f"{self._cache}/"])
        return {line.rpartition("/")[2] for line in listed.out.decode().splitlines()}

    def _files(self, names: Iterable[str]) -> list[str]:
        return [f"{self._cache}/{name}" for name in names]

    def _marks(self, runs: Iterable[str]) -> list[str]:
        return [f"{self._destroyed}/{run}" for run in runs]


def _lay(content: Path | bytes, path: Path) -> int:
    """Makes the content of a file available at `path`. Returns its size in bytes."""
    assert _NAME.match(path.name), path.name
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        os.symlink(content.absolute(), path)
    return path.stat().st_size


def _listing(text: str) -> FolderListing:
    """Parses lines with a time in milliseconds, a size in bytes and a name."""
    lines = [line.split(" ", 2) for line in text.splitlines()]
    times = {name: int(time) / 1000 for time, _, name in lines}
    destroyed = frozenset(filter(_APPLICATION.match, times))
    files = {name: time for name, time in times.items() if name not in destroyed}
    return FolderListing(
        files, destroyed, sum(int(size) for _, size, name in lines if name in files)
    )


def _silent(done: hadoop_fs.HdfsDone) -> UnavailableError:
    return UnavailableError(
        f"the cluster's file system does not answer: {done.complaint}",
        "Is the NameNode up that the configuration names?",
    )
