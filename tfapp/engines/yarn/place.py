"""Where applications share files on the cluster: `.tfapp/cache` below the user's home folder there.

A file is named by its content, comes to its place whole, and is never written again: YARN refuses
a file that has changed since an application was submitted. What is there is remembered here, so
that files which have not changed cost nothing. Whether they still are there is looked up when a
submission fails.
"""

from __future__ import annotations

import dataclasses
import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tfapp.engines.disk import make_private, read_json, write_json, writing
from tfapp.engines.yarn import hadoop_fs
from tfapp.engines.yarn.layout import Home
from tfapp.engines.yarn.surroundings import fingerprint
from tfapp.errors import UnavailableError

FOLDER = "/user/{user}/.tfapp/cache"

UPLOAD_LIMIT = 120.0  # seconds, and more for what is large:
SLOWEST = 2 << 20  # bytes per second

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
# Skein keeps no more of a file system's address than this, in lower case.
_FILE_SYSTEM = re.compile(r"(?!file:)[a-z][a-z0-9+.-]*://[a-z0-9._-]+(:[0-9]+)?\Z")


@dataclasses.dataclass(frozen=True)
class _Record:
    """What is known of a place: its URL, and the copy on this machine of each file there."""

    url: str = ""
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> _Record:
        return cls(data["url"], data["files"])


class Place:
    """The place of `user` on the cluster that `environ` names."""

    def __init__(self, home: Home, environ: Mapping[str, str], user: str):
        self._home = home
        self._environ = environ
        self._user = user

    def url(self) -> str:
        """The folder's URL; "" where there can be none, so that files have to travel with each
        application. The first time the folder is made, by two Java programs."""
        record = self._read()
        if not record.url:
            record = _Record(self._make())
            if record.url:
                self._write(record)
        return record.url

    def put(self, files: Mapping[str, Path]) -> None:
        """Brings files to the place, by one Java program for those that are new there. A name
        says the content. UnavailableError when that is impossible."""
        record = self._read()
        new = {name: path for name, path in files.items() if name not in record.files}
        if new:
            self._upload(new)
            known = {name: str(path.absolute()) for name, path in new.items()}
            self._write(_Record(record.url, {**self._read().files, **known}))

    def restore(self, urls: Iterable[str]) -> bool:
        """Brings those files of `urls` back that were deleted at the place; whether there were
        any. UnavailableError for one of which there is no copy here."""
        record = self._read()
        head = f"{record.url}/"
        wanted = {url[len(head) :] for url in urls if record.url and url.startswith(head)}
        lost = wanted - self._list() if wanted else set()
        gone = sorted(name for name in lost if not Path(record.files.get(name, "")).is_file())
        if gone:
            raise UnavailableError(
                f"{head}{gone[0]} was deleted on the cluster, and there is no copy of it here",
                "Create the application again from its package.",
            )
        if lost:
            self._upload({name: Path(record.files[name]) for name in lost})
        return bool(lost)

    def _make(self) -> str:
        system = hadoop_fs.run(self._environ, ["-df"]).out.decode(errors="replace").split("\n")
        # A table of one file system: its address begins the line below the head.
        address = system[1].partition(" ")[0].rstrip("/") if len(system) > 1 else ""
        if not _FILE_SYSTEM.match(address):
            return ""
        url = address + FOLDER.format(user=self._user)
        return url if self._make_folder(url) else ""

    def _make_folder(self, url: str) -> bool:
        return hadoop_fs.run(self._environ, ["-mkdir", "-p", url]).well

    def _upload(self, files: Mapping[str, Path]) -> None:
        """Hadoop's client writes under another name and renames; it replaces nothing. Tried
        twice, since the folder may be gone."""
        url, size = self._read().url, sum(path.stat().st_size for path in files.values())
        with tempfile.TemporaryDirectory(prefix="tfapp-") as folder:
            for name, path in files.items():
                assert _NAME.match(name), name
                os.symlink(path.absolute(), Path(folder, name))
            words, limit = ["-put", *files, f"{url}/"], UPLOAD_LIMIT + size / SLOWEST
            for _ in range(2):
                done = hadoop_fs.run(self._environ, words, limit, Path(folder))
                if done.cut_off:
                    raise UnavailableError(
                        f"the cluster's file system does not answer: {done.complaint}",
                        "Is the NameNode up that the configuration names?",
                    )
                # One that is there already is a complaint as well.
                if done.well or self._list().issuperset(files):
                    return
                if not self._make_folder(url):
                    break
        raise UnavailableError(
            f"files cannot be brought to {url}: {done.complaint or 'it gave no reason'}",
            "The folder must be writable, and the file system of the cluster up.",
        )

    def _list(self) -> set[str]:
        """The names of all files there."""
        listed = hadoop_fs.run(self._environ, ["-ls", "-C", f"{self._read().url}/"])
        return {line.rpartition("/")[2] for line in listed.out.decode().splitlines()}

    def _read(self) -> _Record:
        data = read_json(self._path)
        return _Record() if data is None else _Record.from_dict(data)

    def _write(self, record: _Record) -> None:
        with writing(self._path):
            make_private(self._path.parent)
            write_json(self._path, record)

    @property
    def _path(self) -> Path:
        return self._home.place(f"{fingerprint(self._environ)}-{self._user}")
