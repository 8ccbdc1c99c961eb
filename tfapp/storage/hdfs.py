"""HDFS, through hdfs-native: a client in Rust, without Java.

Each call runs in a thread of its own, so that it has a deadline. By itself the library tries a
wrong address for three minutes.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from tfapp.storage import base, expiry
from tfapp.storage.base import Begun, Failed, Status

LIMIT = 90.0  # seconds for one call: a NameNode may be away for a minute
CLEARING_LIMIT = 10.0  # seconds to remove what is left of a file that could not be written
PAUSES = (0.5, 5.0)  # seconds until a call is made again: the first pause, and the longest
KEPT = 1 << 20  # bytes of a file that are kept in memory until they are sent

_TICKET = "Is there a ticket (klist), or a file of tokens (HADOOP_TOKEN_FILE_LOCATION)?"
_ADDRESS = "Is the address right, and does the NameNode run? HADOOP_CONF_DIR names the settings"
_SETTINGS = (
    "Write hdfs://NAMENODE:PORT/NAME, or set HADOOP_CONF_DIR to a folder with core-site.xml and "
    "hdfs-site.xml"
)
_EXPIRED = (
    "Delegation tokens end, by default after 7 days, and nothing renews them then: start the "
    "application again with a ticket, and it gets new ones"
)
_NO_TOKEN = (
    "The tokens of HADOOP_TOKEN_FILE_LOCATION are for another NameNode, or it is a file in an "
    "encryption zone: hdfs-native uses no token of Hadoop's KMS. Use a folder outside of zones"
)
# Answers of a NameNode that has done nothing: it has just started, or has too much to do.
_NOT_YET = re.compile(r"ipc\.RetriableException|SafeModeException|ipc\.StandbyException")
# What a NameNode or the library says, the error that it is, and what to do.
_ANSWERS: tuple[tuple[str, type[Exception] | int, str], ...] = (
    (r"FileNotFoundException", FileNotFoundError, ""),
    (r"FileAlreadyExistsException", FileExistsError, ""),
    (r"PathIsNotEmptyDirectory|is non empty", base.PRECONDITION, ""),
    (r"ParentNotDirectory", NotADirectoryError, ""),
    (r"AccessControlException", base.DENIED, "Use a folder that is yours, or ask its owner"),
    (r"QuotaExceeded", base.EXHAUSTED, "Remove files, or ask for a larger quota"),
    (r"AlreadyBeingCreated|LeaseExpired|RecoveryInProgress", base.ABORTED,
     "Another program writes this file, or was killed while it did"),
    (r"KMS HTTP error|KMS request failed \(5|KMS client has no", base.UNAVAILABLE,
     "Does Hadoop's KMS run, at the address that hadoop.security.key.provider.path names?"),
    (r"KMS request failed", base.DENIED,
     "It is in an encryption zone: the administrators of Hadoop's KMS say who may use its key"),
    (r"no KMS provider", base.PRECONDITION,
     "Set hadoop.security.key.provider.path in core-site.xml to the address of Hadoop's KMS"),
    (r"InvalidToken|token.* is expired", base.UNAUTHENTICATED, _EXPIRED),
    (r"[Kk]erberos|GSS|(?i:sasl)|Authentication", base.UNAUTHENTICATED, _TICKET),
    (r"No viewfs fallback", base.INVALID,
     "hdfs-native needs fs.viewfs.mounttable.NAME.linkFallback in core-site.xml, as hdfs://CLUSTER/"),
    (r"No fs\.defaultFS setting|No viewfs", base.INVALID, _SETTINGS),
    (r"InvalidPathException", base.INVALID, "HDFS has no names with a colon"),
    (r"listener disconnected", base.UNAVAILABLE,
     "The connection was lost before the answer: it may have been done or not"),
    (r"SafeMode|StandbyException|RetriableException", base.UNAVAILABLE,
     "The NameNode is not ready: try again later"),
    (r"os error|(?i:connect)|(?i:io error)|lookup|(?i:name ?node)|RpcError", base.UNAVAILABLE,
     _ADDRESS),
    (r"(?i:unsupported)", base.UNIMPLEMENTED, ""),
)  # fmt: skip


def credentials(environ: Mapping[str, str]) -> str:
    """Those that hdfs-native finds, in words: names, never a value."""
    ways = {
        "HADOOP_TOKEN_FILE_LOCATION": "the tokens in the file of",
        "KRB5CCNAME": "the tickets of",
    }
    text = next((f"{way} {name}" for name, way in ways.items() if environ.get(name)), "")
    if text and math.isfinite(end := expiry.of_hdfs(environ)):
        text += f", which end at {expiry.in_words(end)}"
    if not text and os.path.exists(f"/tmp/krb5cc_{os.getuid()}"):
        text = "the Kerberos tickets of this user"
    user = "HADOOP_USER_NAME" if environ.get("HADOOP_USER_NAME") else "this user"
    text = text or f"no ticket and no tokens: the name of {user}"
    settings = next(filter(environ.get, ("HADOOP_CONF_DIR", "HADOOP_HOME")), "none")
    return f"{text}; settings: {settings}"


def as_tokens_have_it(host: str) -> str:
    """HOST:PORT with the address in place of the name, if there is a token for that: Hadoop writes
    addresses into tokens, and hdfs-native looks for what the URL has. "" is that of the settings.
    """
    services = [service for service, _ in expiry.tokens_of_hdfs(os.environ)]
    if not services or host in services:
        return host
    name, _, port = (host or _of_settings()).rpartition(":")
    if name:
        with contextlib.suppress(OSError):
            for *_, address in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM):
                if (found := f"{address[0]}:{port}") in services:
                    return found
    return host


def _of_settings() -> str:
    """HOST:PORT of fs.defaultFS, if it has both."""
    path = os.path.join(os.environ.get("HADOOP_CONF_DIR", ""), "core-site.xml")
    with contextlib.suppress(OSError, ElementTree.ParseError):
        for one in ElementTree.parse(path).iter("property"):
            if (one.findtext("name") or "").strip() == "fs.defaultFS":
                scheme, host, _ = base.split((one.findtext("value") or "").strip())
                return host if scheme == "hdfs" else ""
    return ""


class Hdfs:
    """A Store. `limit`: seconds for one call."""

    def __init__(self, limit: float = LIMIT):
        self._limit = limit
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()
        told = f"the tokens of HDFS end at %s, and calls fail from then on. {_EXPIRED}"
        self._expiry = expiry.Expiry(expiry.of_hdfs(os.environ), told)

    def done(self, call: Callable[[], Any], again: bool = True, limit: float = 0.0) -> Any:
        """Waits for a call, as long as it may take. The thread of a late one ends by itself.
        `again`: it is made again when the NameNode says that it can do nothing yet."""
        end, (pause, longest) = time.monotonic() + (limit or self._limit), PAUSES
        while True:
            made = Begun(call)
            error = self.error_of(made, end)
            if error is None:
                return made.result
            late = time.monotonic() + pause > end
            if late or not again or not _NOT_YET.search(str(error)):
                raise self._answered(error) from _cause(error)
            time.sleep(pause)
            pause = min(2 * pause, longest)

    def error_of(self, made: Begun, end: float) -> BaseException | None:
        """That of a call, once it has ended: None if it went well."""
        if not made.ends(end - time.monotonic()):
            where = f"{_ADDRESS} ({os.environ.get('HADOOP_CONF_DIR', 'it is not set')})"
            raise Failed(base.LATE, f"no answer from HDFS within {self._limit:g} s", where)
        return made.error

    def sent(self, made: Begun) -> None:
        """Waits for a call that is not made again."""
        if error := self.error_of(made, time.monotonic() + self._limit):
            raise self._answered(error) from _cause(error)

    def _answered(self, error: BaseException) -> BaseException:
        """Without a token that it may use, hdfs-native asks for a ticket."""
        found = answered(error)
        if getattr(found, "code", None) == base.UNAUTHENTICATED and self._expiry.is_over():
            return Failed(base.UNAUTHENTICATED, "the tokens of HDFS have ended", _EXPIRED)
        if "GSS_S_NO_CRED" in str(error) and expiry.tokens_of_hdfs(os.environ):
            return Failed(
                base.UNAUTHENTICATED, "there is no ticket, and no token for it", _NO_TOKEN
            )
        return found

    def _at(self, path: str) -> tuple[Any, str]:
        """The client of the cluster, and the path there."""
        import hdfs_native

        self._expiry.look()
        scheme, host, name = base.split(path)
        cluster = f"{scheme}://{host}"
        with self._lock:
            if cluster not in self._clients:
                try:
                    at = as_tokens_have_it(host) if scheme == "hdfs" else host
                    self._clients[cluster] = hdfs_native.Client(f"{scheme}://{at}" if at else None)
                except Exception as error:
                    raise answered(error) from error
            return self._clients[cluster], f"/{name}"

    def _call(self, method: str, path: str, *arguments: Any) -> Any:
        client, name = self._at(path)
        return self.done(lambda: getattr(client, method)(name, *arguments))

    def stat(self, path: str) -> Status:
        found = self._call("get_file_info", path)
        length = 0 if found.isdir else found.length
        return Status(length, found.modification_time * 1_000_000, found.isdir)

    def is_folder(self, path: str) -> bool:
        return self.stat(path).is_folder

    def children(self, path: str) -> Sequence[str]:
        base.folder_of(self, path)
        client, name = self._at(path)
        found = self.done(lambda: list(client.list_status(name)))
        return base.finished(one.path.rpartition("/")[2] for one in found)

    def source(self, path: str) -> base.Source:
        base.file_of(self, path)
        return _Source(self, self._call("read", path))

    def writer(self, path: str, append: bool) -> base.Writer:
        client, name = self._at(path)
        try:
            found = base.file_of(self, path)
        except FileNotFoundError:
            append = False
        if not append:
            return _Writer(self, client, name)
        opened = self.done(lambda: _ownerless(client.append(name)))
        return _Writer(self, client, name, opened, found.length)

    def make_folder(self, path: str, parents: bool = False) -> None:
        if not parents:
            with contextlib.suppress(FileNotFoundError):
                self.stat(path)
                raise FileExistsError("there is a folder or a file of this name")
        self._call("mkdirs", path, 0o755, parents)

    def remove(self, path: str) -> None:
        base.file_of(self, path)
        self._call("delete", path, False)

    def remove_folder(self, path: str) -> None:
        base.folder_of(self, path)
        self._call("delete", path, False)

    def remove_tree(self, path: str) -> None:
        base.folder_of(self, path)
        self._call("delete", path, True)

    def rename(self, old: str, new: str) -> None:
        client, name = self._at(new)
        if client is not self._at(old)[0]:
            words = "a file cannot be renamed to another cluster"
            raise Failed(base.UNIMPLEMENTED, words, "Copy it instead")
        self._call("rename", old, name, True)

    def copy(self, old: str, new: str) -> None:
        base.copied(self, old, new)


class _Source:
    def __init__(self, hdfs: Hdfs, reader: Any):
        self._hdfs, self._reader = hdfs, reader
        self.length: int = len(reader)  # without what its writer has not closed

    def read(self, offset: int, count: int) -> bytes:
        content = bytearray(count)
        self.read_into(offset, memoryview(content))
        return bytes(content)

    def read_into(self, offset: int, target: memoryview) -> None:
        is_late = False
        lock = threading.Lock()

        def read() -> int:
            at = 0
            for piece in self._reader.read_range_stream(offset, len(target)):
                with lock:
                    if is_late:  # the memory is no longer ours
                        return 0
                    target[at : at + len(piece)] = piece
                at += len(piece)
            return at

        try:
            got = self._hdfs.done(read)
        finally:
            with lock:
                is_late = True
        if got != len(target):
            raise ConnectionError(f"the DataNode sent {got} of {len(target)} bytes")


class _Writer:
    """A new file is written under another name in its folder, and renamed when it is closed. One
    that is flushed while it is small has its own name from then on, as event files must. Each flush
    closes it and the next write appends to it: readers see no more than what is closed. After an
    error nothing is left of a new file: it would count against a quota, and block its place."""

    def __init__(self, hdfs: Hdfs, client: Any, name: str, opened: Any = None, length: int = 0):
        self._hdfs, self._client, self._name = hdfs, client, name
        self._file, self._length = opened, length
        self._is_there = opened is not None
        self._hidden = ""  # its name until it is closed
        self._kept: list[bytes] = []
        self._size = 0  # bytes that are kept
        self._sending: Begun | None = None

    def append(self, content: bytes) -> None:
        self._kept.append(content)
        self._size += len(content)
        self._length += len(content)
        if self._size >= KEPT:
            with self._whole_or_removed():
                self._send(hidden=not self._is_there)

    def tell(self) -> int:
        return self._length

    def flush(self) -> None:
        if not self._hidden:
            self._send(hidden=False)
            self._end()

    def close(self) -> None:
        with self._whole_or_removed():
            self._send(hidden=not self._is_there)
            self._end()
            if self._hidden:
                self._hdfs.done(lambda: self._client.rename(self._hidden, self._name, True))

    @contextlib.contextmanager
    def _whole_or_removed(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            if self._hidden:
                with contextlib.suppress(Exception):
                    remove = functools.partial(self._client.delete, self._hidden, False)
                    self._hdfs.done(remove, limit=CLEARING_LIMIT)
            raise

    def _sent(self) -> None:
        """What was sent has arrived."""
        sending, self._sending = self._sending, None
        if sending is not None:
            self._hdfs.sent(sending)

    def _end(self) -> None:
        self._sent()
        file, self._file = self._file, None
        if file is not None:
            self._hdfs.done(file.close, again=False)

    def _send(self, hidden: bool) -> None:
        kept, self._kept, self._size = b"".join(self._kept), [], 0
        self._sent()
        if self._file is None and self._is_there and kept:
            self._file = self._hdfs.done(lambda: _ownerless(self._client.append(self._name)))
        elif self._file is None and not self._is_there:
            self._file = self._hdfs.done(lambda: self._created(hidden))
            self._is_there = True
        if kept:
            file = self._file
            self._sending = Begun(lambda: file.write(kept))

    def _created(self, hidden: bool) -> Any:
        from hdfs_native import WriteOptions

        if hidden:
            self._hidden = base.unfinished(self._name)
        options = WriteOptions(overwrite=True)
        return _ownerless(self._client.create(self._hidden or self._name, options))


def _ownerless(file: Any) -> Any:
    """A file that Python does not close when it frees it. That would be a call without a deadline;
    at the end of Python it hangs for ever if the file was removed."""
    file.close = lambda: None
    return file.inner


def _cause(error: BaseException) -> BaseException | None:
    """`error`, unless a traceback that shows it would show a token."""
    return None if "delegation=" in str(error) else error


def answered(error: BaseException) -> BaseException:
    """The error that an error of hdfs-native means."""
    words = " ".join(re.split(r"\n\s*at |\\n\\tat ", str(error))[0].split())[:600]
    words = re.sub(r'^\w*RPCError\("(?:\w+\.)*([\w$]+)", "', r"\1: ", words)
    words = re.sub(r"\bdelegation=[^&\s)]*", "delegation=...", words)  # in a URL of the KMS
    if isinstance(error, (FileNotFoundError, FileExistsError)):
        return type(error)(words)
    for pattern, meaning, hint in _ANSWERS:
        if re.search(pattern, words):
            return Failed(meaning, words, hint) if isinstance(meaning, int) else meaning(words)
    return Failed(base.UNKNOWN, words)
