"""Checks that files can be used below a URL, as TensorFlow will: `tfapp doctor --storage`.

All that it makes lies in a folder with a name that nobody else has. It removes the files in there
one by one and then the empty folder, also after an error or Ctrl-C.
"""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import secrets
import socket
import threading
import time
from collections.abc import Callable, Generator, Mapping
from typing import Optional

from tfapp.contract.names import HDFS_SCHEMES, OPENED_SCHEMES
from tfapp.storage import base, hdfs, objects, others
from tfapp.storage.base import Begun, Failed

LIMIT = 30.0  # seconds for a step
LAST_LIMIT = 5.0  # seconds after a failure: for the step that still runs, and to remove its files
LARGE = 8 << 20  # bytes

Results = Generator[tuple[str, str, Optional[Failed]], None, None]

_SLOW = "The server does not answer, or is very slow: is the address right, is there a way to it?"


def check(url: str, environ: Mapping[str, str], limit: float = LIMIT) -> Results:
    """Takes the steps, up to the first that fails: its name, what it found, and why it failed if
    so. Each has `limit` seconds. `url`: of a scheme of `tfapp.storage`."""
    yield "credentials", _credentials(url, environ), None
    own, failed = _Own(url, environ), None
    try:
        for step in (own.write, own.read, own.rename, own.list, own.speed):
            if failed is None:
                text, failed = own.within(limit, step)
                yield step.__name__, text, failed
        if own.begun:
            left = own.removed(LAST_LIMIT if failed else limit)
            yield "delete", "" if left else "nothing is left", left
    except BaseException:
        if own.begun and own.removed(LAST_LIMIT):
            logging.getLogger(__name__).warning("%s may be left", own.folder)
        raise


def in_plain_data(url: str) -> tuple[str, list[tuple[str, str, str, bool]]]:
    """What a program returns that checks `url` where it runs: the place, and of each step its name,
    what it found or why it failed, what to do, and whether it went well."""
    steps = [
        (step, text, "", True) if failed is None else (step, failed.words, failed.hint, False)
        for step, text, failed in check(url, os.environ)
    ]
    return f"on {socket.gethostname()}, by Python {platform.python_version()}", steps


def _credentials(url: str, environ: Mapping[str, str]) -> str:
    scheme = base.split(url)[0]
    if scheme in HDFS_SCHEMES:
        return hdfs.credentials(environ)
    known = scheme in OPENED_SCHEMES
    return objects.credentials(url, environ) if known else others.credentials(scheme, environ)


class _Own:
    """The folder of a check. `begun`: whether there may be something in it."""

    def __init__(self, url: str, environ: Mapping[str, str]):
        scheme, self._host, name = base.split(url)
        self._is_hdfs = scheme in HDFS_SCHEMES
        self._store: base.Store = hdfs.Hdfs()
        if not self._is_hdfs:
            kind = objects.Objects if scheme in OPENED_SCHEMES else others.Others
            self._store = kind(environ)
        parts = (f"{scheme}://{self._host}", name, f".tfapp-doctor-{secrets.token_hex(8)}")
        self.folder = "/".join(part for part in parts if part)
        self.begun = self._late = False
        self._content = secrets.token_bytes(1024)
        self._ended = threading.Event()

    def within(self, limit: float, call: Callable[[], str]) -> tuple[str, Failed | None]:
        """What a call returns, or why it failed. A late one goes on alone."""
        self._ended = threading.Event()  # known before the call begins: Ctrl-C may come at once
        made = Begun(call, self._ended)
        self._late = not made.ends(limit)
        if self._late:
            return "", Failed(base.LATE, f"it has not ended within {limit:g} s", _SLOW)
        return ("", _told(made.error)) if made.error else (made.result, None)

    def write(self) -> str:
        host, _, port = self._host.rpartition(":")
        if self._is_hdfs and host and port.isdecimal():  # hdfs-native tries it for three minutes
            try:
                socket.create_connection((host, int(port)), LIMIT).close()
            except OSError as error:
                raise hdfs.answered(OSError(f"cannot connect to {self._host}: {error}")) from error
        # A question first: if it is not answered, nothing is made.
        with contextlib.suppress(FileNotFoundError):
            self._store.children(self.folder)
        if not self._late:
            self.begun = True
            self._store.make_folder(self.folder)
            self._put("small", self._content)
        return f"a file in {self.folder}"

    def read(self) -> str:
        return self._same("small", self._content)

    def rename(self) -> str:
        self._store.rename(f"{self.folder}/small", f"{self.folder}/renamed")
        return self._same("renamed", self._content)

    def list(self) -> str:
        found = self._store.children(self.folder)
        if tuple(found) != ("renamed",):
            raise ValueError(f"there are {found}, and there should be the new name alone")
        return "the file has its new name alone"

    def speed(self) -> str:
        content = os.urandom(LARGE)
        begin = time.monotonic()
        self._put("large", content)
        written = time.monotonic()
        self._same("large", content)
        write, read = LARGE / (written - begin), LARGE / (time.monotonic() - written)
        return f"writes {write / 1e6:.1f} MB/s, reads {read / 1e6:.1f} MB/s, with {LARGE >> 20} MiB"

    def _put(self, name: str, content: bytes) -> None:
        writer = self._store.writer(f"{self.folder}/{name}", append=False)
        writer.append(content)
        writer.close()

    def _same(self, name: str, content: bytes) -> str:
        source = self._store.source(f"{self.folder}/{name}")
        if b"".join(base.blocks(source)) != content:
            raise ValueError("what is read is not what was written")
        return "what was written"

    def removed(self, limit: float) -> Failed | None:
        """Removes what there is. Why it could not, if so."""
        self._ended.wait(limit)
        failed = self.within(limit, self._remove)[1]
        hint = f"Delete {self.folder} if it is there."
        return failed and Failed(failed.code, f"something may be left: {failed.words}", hint)

    def _remove(self) -> str:
        with contextlib.suppress(FileNotFoundError):
            for name in self._store.children(self.folder):
                self._store.remove(f"{self.folder}/{name}")
            self._store.remove_folder(self.folder)
        return ""


def _told(error: BaseException) -> Failed:
    """The error in a line, and in a sentence what to do."""
    if isinstance(error, Failed):
        code, words, hint = error.code, error.words, error.hint
    elif isinstance(error, ImportError):
        code, words, hint = base.UNIMPLEMENTED, str(error), base.EXTRA
    else:
        code, words = base.told(error, "")
        hint = "Make this folder first, or name one that is there" if code == base.NOT_FOUND else ""
    end = "" if not hint or hint[-1] in ".?" else "."
    return Failed(code, " ".join(words.lstrip(": ").split())[:600], f"{hint}{end}")
