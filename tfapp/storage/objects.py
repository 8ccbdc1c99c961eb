"""Object stores, S3 and Azure, through obstore. A folder is a beginning that names share."""

from __future__ import annotations

import concurrent.futures
import configparser
import datetime
import math
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tfapp.contract.names import AZURE_SCHEMES, S3_SCHEMES
from tfapp.storage import base, expiry
from tfapp.storage.base import Failed, Status
from tfapp.storage.writing import PART, PIECE, KeptWriter

REQUEST_LIMIT = 60  # seconds for one attempt of a request
RETRY_LIMIT = 30  # seconds after which no further attempt begins
PAUSES = (0.2, 5.0)  # seconds between attempts: about the first pause, and the longest
COPIES = 16  # objects of a folder that are copied at once
LISTED = 10.0  # seconds for which a listing says that a name is a file
MOST_LISTED = 4  # listings that are kept for that
MOST_COPIED = 5 << 30  # bytes that S3 copies by itself

# TensorFlow writes a part of a checkpoint under a temporary name and renames it to that of the
# part, and that to its last name where it is the only part.
_TEMPORARY = re.compile(r"\.tempstate\d+$")
_ONLY_PART = re.compile(r"(\.part|_temp(_\w+)?/part)-00000-of-00001(?=\.data-00000-of-00001$)")


_CREDENTIALS = (
    "Credentials are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, S3_ACCESS_KEY and S3_SECRET_KEY, "
    "or a profile in ~/.aws/credentials; docs/storage.md has all of them"
)
_OF_AZURE = (
    "Credentials are AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY or "
    "AZURE_STORAGE_SAS_TOKEN, or an identity of Azure; docs/storage.md has more"
)
_CLOCK = "Set the clock of this machine: S3 takes requests of the last 15 minutes only"
# What a server says, TensorFlow's code for it, and what to do.
_ANSWERS = (
    (r"NoSuchBucket", base.NOT_FOUND, "Make the bucket first, or correct its name"),
    (r"ContainerNotFound", base.NOT_FOUND, "Make the container first, or correct its name"),
    (r"NoSuchUpload", base.ABORTED,
     "It was ended, or the answer to its end was lost: look whether the file is there"),
    (r"code: 412", base.ABORTED, "It was replaced meanwhile: open it again"),
    (r"QuotaExceeded|StorageFull|code: 507", base.EXHAUSTED,
     "Remove files, or ask for a larger quota"),
    (r"TimeTooSkewed", base.DENIED, _CLOCK),
    (r"ExpiredToken|TokenRefreshRequired|InvalidToken", base.UNAUTHENTICATED,
     f"Get a new session token. {_CREDENTIALS}"),
    (r"://169\.254\.|[Cc]redential|code: 401", base.UNAUTHENTICATED, _CREDENTIALS),
    (r"code: (403|AccessDenied)", base.DENIED, _CREDENTIALS),
    (r"code: 301|Malformed", base.PRECONDITION, "Set AWS_REGION to the region of the bucket"),
    (r"URL did not match", base.INVALID,
     "Write abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/NAME"),
    (r"code: 404", base.NOT_FOUND, ""),
    (r"code: 409", base.PRECONDITION, ""),
    (r"code: (429|5\d\d|SlowDown|InternalError)", base.UNAVAILABLE,
     "The server is busy: try again later"),
    (r"certificate is refused", base.PRECONDITION,
     "Set AWS_CA_BUNDLE to a file with the certificates of its authority"),
    (r"timed out", base.LATE, "Does the server run, and is the network that slow?"),
    (r"HTTP error", base.UNAVAILABLE, "Is the endpoint right, and does the server run?"),
)  # fmt: skip
# An answer to HEAD has no body, so it does not say why.
_WITHOUT_WORDS = re.compile(r"code: (400|403) [\w ]+$")
# What stands before that: the URL, whose names may be any, and a time. 169.254... has credentials.
_REQUEST = re.compile(r"^(?!.*://169\.254\.).*? in [\d.]+\w*s\b.*? - ")
_IS_AZURE = re.compile(r"\bMicrosoftAzure\b|\.core\.windows\.net|/metadata/identity/")
_VARIABLES = {
    "access_key_id": ("AWS_ACCESS_KEY_ID", "S3_ACCESS_KEY"),
    "secret_access_key": ("AWS_SECRET_ACCESS_KEY", "S3_SECRET_KEY"),
    "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "S3_ENDPOINT"),
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION", "S3_REGION"),
}
_OTHER_WAYS = re.compile(r"AWS_(WEB_IDENTITY_TOKEN_FILE|CONTAINER_CREDENTIALS_\w+|SKIP_SIGNATURE)")


def s3_options(environ: Mapping[str, str]) -> dict[str, Any]:
    """What obstore is told of S3: what it does not read from the environment by itself."""
    found = {}
    for option, names in _VARIABLES.items():
        if value := next((environ[name] for name in names if environ.get(name)), ""):
            found[option] = value
    if "access_key_id" not in found and not any(map(_OTHER_WAYS.fullmatch, environ)):
        found = {**_profile(environ), **found}
    endpoint = found.get("endpoint", "")
    if endpoint and "://" not in endpoint:
        plain = environ.get("S3_USE_HTTPS") in ("0", "false")
        endpoint = found["endpoint"] = f"{'http' if plain else 'https'}://{endpoint}"
    limits = _limits(plain=endpoint.startswith("http://"))
    if bundle := environ.get("AWS_CA_BUNDLE"):
        try:
            limits["client_options"]["root_certificate"] = Path(bundle).read_bytes()
        except OSError as error:  # never taken for a file that is not there
            raise Failed(base.PRECONDITION, f"AWS_CA_BUNDLE cannot be read: {error}") from error
    return {**found, **limits}


def credentials(url: str, environ: Mapping[str, str]) -> str:
    """Where those for a URL are taken from, in words: names, never a value."""
    if base.split(url)[0] in AZURE_SCHEMES:
        azure = sorted(name for name in environ if name.startswith("AZURE_"))
        return ", ".join(azure) or "no variable AZURE_... is set"
    found = {option: next(filter(environ.get, names), "") for option, names in _VARIABLES.items()}
    profile = {}
    text = f"{found['access_key_id']} and {found['secret_access_key'] or 'no secret key'}"
    if not found["access_key_id"]:
        text = ", ".join(filter(_OTHER_WAYS.fullmatch, sorted(environ)))
        profile = {} if text else _profile(environ)
    if "access_key_id" in profile:
        text = f"profile {environ.get('AWS_PROFILE', 'default')} in the files of AWS"
    if math.isfinite(end := expiry.of_aws(environ)):
        text += f", whose session ends at {expiry.in_words(end)}"
    text = text or "none are set: the role of this machine, if it has one"
    for option, default in (("endpoint", "AWS's own"), ("region", "us-east-1")):
        place = found[option] or ("the profile" if option in profile else f"not set ({default})")
        text += f"; {option}: {place}"
    return text


def _profile(environ: Mapping[str, str]) -> dict[str, str]:
    """Of the files that AWS's tools write."""
    name, home = environ.get("AWS_PROFILE", "default"), Path(environ.get("HOME", "/"), ".aws")
    read = configparser.RawConfigParser()
    read.read(environ.get("AWS_CONFIG_FILE", home / "config"))
    read.read(environ.get("AWS_SHARED_CREDENTIALS_FILE", home / "credentials"))
    sections = (section for section in (f"profile {name}", name) if read.has_section(section))
    values = {key: value for section in sections for key, value in read[section].items()}
    values["aws_endpoint"] = values.get("endpoint_url", "")
    found = {option: values.get(f"aws_{option}", values.get(option, "")) for option in _VARIABLES}
    found["session_token"] = values.get("aws_session_token", "")
    return {option: value for option, value in found.items() if value}


def _limits(plain: bool) -> dict[str, Any]:
    limits = {"timeout": f"{REQUEST_LIMIT}s", "connect_timeout": "10s", "allow_http": plain}
    first, longest, limit = (datetime.timedelta(seconds=n) for n in (*PAUSES, RETRY_LIMIT))
    pauses = {"init_backoff": first, "max_backoff": longest}
    retry = {"max_retries": 20, "retry_timeout": limit, "backoff": pauses}
    return {"client_options": limits, "retry_config": retry}


def _later(path: str) -> list[str]:
    """The names that TensorFlow is known to give to this file, the last one first. A new file can
    have it from the beginning: it is seen when it is whole, and a rename would copy it."""
    part = _TEMPORARY.sub("", path)
    last = _ONLY_PART.sub("", part)
    return [name for name in dict.fromkeys((last, part)) if name != path]


class Objects:
    """A Store. `environ`: where the settings and credentials of S3 are."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        self._buckets: dict[tuple[str, str], Any] = {}
        self._folders: set[str] = set()  # made by this process; a store has no empty ones
        self._listed: dict[str, tuple[float, frozenset[str]]] = {}  # the names of files in folders
        self._lock = threading.Lock()
        told = "the session of AWS_SESSION_TOKEN ends at %s, and requests fail from then on"
        self._expiry = expiry.Expiry(expiry.of_aws(environ), told)

    def _at(self, path: str) -> tuple[Any, str]:
        """The bucket, and the name in it."""
        scheme, host, name = base.split(path)
        if scheme in S3_SCHEMES:
            self._expiry.look()
        if not host:
            raise ValueError(f"there is no bucket in this URL; expected {scheme}://BUCKET/NAME")
        with self._lock:
            if (scheme, host) not in self._buckets:
                self._buckets[scheme, host] = call(_bucket, scheme, host, self._environ)
            return self._buckets[scheme, host], name

    def _object(self, path: str) -> Mapping[str, Any] | None:
        bucket, name = self._at(path)
        try:
            return call("head", bucket, name) if name else None
        except FileNotFoundError:
            return None
        except Failed as error:
            if _WITHOUT_WORDS.search(error.words):
                call(next, iter(call("list", bucket, name)), None)  # fails too, and says why
            raise

    def _names(self, path: str) -> Iterator[str]:
        """Of all objects below a folder."""
        bucket, name = self._at(path)
        pages = iter(call("list", bucket, f"{name}/" if name else None))
        while page := call(next, pages, None):
            yield from (one["path"] for one in page)

    def stat(self, path: str) -> Status:
        if found := self._object(path):
            return Status(found["size"], int(found["last_modified"].timestamp() * 1e9), False)
        inside = next(self._names(path), None)
        begin = f"{path.rstrip('/')}/"
        made = any(f"{one}/".startswith(begin) for one in self._folders)
        if inside is None and self._at(path)[1] and not made:
            raise FileNotFoundError("there is no such object, and no object below this name")
        return Status(0, 0, True)

    def is_folder(self, path: str) -> bool:
        """As `stat` has it. A file that was just listed is not asked for: TensorFlow does so for
        each name that a pattern matches."""
        folder, _, name = path.rstrip("/").rpartition("/")
        at, files = self._listed.get(folder, (0.0, frozenset()))
        if name in files and time.monotonic() - at < LISTED:
            return False
        return self.stat(path).is_folder

    def children(self, path: str) -> Sequence[str]:
        bucket, name = self._at(path)
        prefix = f"{name}/" if name else ""
        found = call("list_with_delimiter", bucket, prefix or None)
        files, folders = (
            {one[len(prefix) :].strip("/") for one in paths} - {""}
            for paths in ((one["path"] for one in found["objects"]), found["common_prefixes"])
        )
        with self._lock:
            self._listed = dict([*self._listed.items()][1 - MOST_LISTED :])
            self._listed[path.rstrip("/")] = time.monotonic(), frozenset(files - folders)
        names = sorted(files | folders)
        if not names:
            base.folder_of(self, path)
        return names

    def source(self, path: str) -> base.Source:
        if found := self._object(path):
            return _Source(*self._at(path), found)
        self.stat(path)
        raise IsADirectoryError(base.NO_FILE)

    def writer(self, path: str, append: bool) -> base.Writer:
        bucket, name = self._at(path)
        if not name:
            raise IsADirectoryError(base.NO_FILE)
        if append and self._object(path):
            words = "an object store cannot append to an object that is there"
            raise Failed(base.UNIMPLEMENTED, words, "Write a new file instead")
        direct = next((one for one in _later(path) if not self._object(one)), path)
        return KeptWriter(_Object(bucket, self._at(direct)[1]))

    def make_folder(self, path: str, parents: bool = False) -> None:
        # There is nothing to make, but the program may look for it.
        try:
            there = self.stat(path)
        except FileNotFoundError:
            self._folders.add(path.rstrip("/"))
        else:
            if not (parents and there.is_folder):
                raise FileExistsError("there is a folder or a file of this name")

    def remove(self, path: str) -> None:
        if not self._object(path):
            raise FileNotFoundError("there is no such object")
        self._listed = {}
        call("delete", *self._at(path))

    def remove_folder(self, path: str) -> None:
        if self.children(path):
            raise Failed(base.PRECONDITION, "the folder is not empty")
        self._folders.discard(path.rstrip("/"))

    def remove_tree(self, path: str) -> None:
        base.folder_of(self, path)
        if names := list(self._names(path)):
            call("delete", self._at(path)[0], names)
        begin = f"{path.rstrip('/')}/"
        self._folders -= {one for one in self._folders if f"{one}/".startswith(begin)}

    def rename(self, old: str, new: str) -> None:
        if self._object(old):
            self.copy(old, new)
            self.remove(old)
            return
        names = {new, *_later(new)}
        if any(one in names and self._object(one) for one in _later(old)):
            return  # it was written there at once
        base.folder_of(self, old)
        begin = len(self._at(old)[1])
        ends = [name[begin:] for name in self._names(old)]
        pool = concurrent.futures.ThreadPoolExecutor(COPIES, "tfapp-copy")
        try:
            for _ in pool.map(
                lambda end: self.copy(old.rstrip("/") + end, new.rstrip("/") + end), ends
            ):
                pass
        finally:
            pool.shutdown(cancel_futures=True)
        self.remove_tree(old)

    def copy(self, old: str, new: str) -> None:
        (bucket, name), (other, new_name) = self._at(old), self._at(new)
        if other is bucket:
            try:
                call("copy", bucket, name, new_name)
                return
            except Failed:
                if (self._object(old) or {"size": 0})["size"] <= MOST_COPIED:
                    raise
        base.copied(self, old, new)


class _Source:
    """An object. One that is replaced while it is read is an error, never a mixture."""

    def __init__(self, bucket: Any, name: str, found: Mapping[str, Any]):
        self.length: int = found["size"]
        self._bucket, self._name, self._tag = bucket, name, found.get("e_tag")

    def read(self, offset: int, count: int) -> bytes:
        content = bytearray(count)
        self.read_into(offset, memoryview(content))
        return bytes(content)

    def read_into(self, offset: int, target: memoryview) -> None:
        options: Any = {"range": (offset, offset + len(target))}
        if self._tag:
            options["if_match"] = self._tag
        got, at = call("get", self._bucket, self._name, options=options), 0
        stream = iter(call(got.stream, min_chunk_size=PIECE))
        while piece := call(next, stream, b""):
            piece = memoryview(piece)[: len(target) - at]
            target[at : at + len(piece)] = piece
            at += len(piece)
        if at != len(target):
            raise ConnectionError(f"the server sent {at} of {len(target)} bytes")


class _Object:
    """A Target: a large file is sent in parts, which become an object at the end."""

    def __init__(self, bucket: Any, name: str):
        self._place = bucket, name
        self._parts: Any = None

    def put(self, content: bytes) -> None:
        call("put", *self._place, content, use_multipart=False)

    def part(self, content: bytes) -> None:
        if self._parts is None:
            self._parts = call("open_writer", *self._place, buffer_size=PART, max_concurrency=4)
        call(self._parts.write, content)

    def finish(self) -> None:
        call(self._parts.close)


def _bucket(scheme: str, host: str, environ: Mapping[str, str]) -> Any:
    from obstore.exceptions import GenericError
    from obstore.store import AzureStore, S3Store

    make: Any = S3Store
    if scheme in S3_SCHEMES:
        place, options = host, s3_options(environ)
    else:
        make, options = AzureStore.from_url, _limits(plain=False)
        place = f"abfss://{host.replace('.blob.', '.dfs.')}"
    try:
        return make(place, **options)
    except GenericError:
        # Many images have no certificates of authorities, and obstore does not begin without any.
        import certifi

        options["client_options"].setdefault("root_certificate", certifi.contents())
        return make(place, **options)


def call(function: Any, *arguments: Any, **more: Any) -> Any:
    """Calls obstore: a function of it, or one of this name. Its errors become those of `base`."""
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError

    try:
        called = getattr(obstore, function) if isinstance(function, str) else function
        return called(*arguments, **more)
    except (BaseError, OSError) as error:
        known = isinstance(error, (AlreadyExistsError, OSError))
        raise answered(words_of(str(error)), error if known else None) from error


def words_of(text: str) -> str:
    """What the server said, in a line."""
    text, _, source = text.partition("Debug source")
    late = " timed out" if "kind: Timeout" in source else ""
    said = re.search(r"(?s)<Code>(.*?)</Code>.*?<Message>(.*?)</Message>", text)
    text = re.sub(r"(?s)<\?xml.*|<Error>.*", f"{said[1]}: {said[2]}" if said else "", text)
    refused = re.search(r"InvalidCertificate\(\s*(\w+)", source)
    late += f": the server's certificate is refused: {refused[1]}" if refused else ""
    return " ".join(text.split()).rstrip(":. ")[:600] + late


def answered(words: str, error: Exception | None = None) -> Exception:
    """The error that the words of obstore mean."""
    said = _REQUEST.sub("", words)
    for pattern, code, hint in _ANSWERS:
        if re.search(pattern, said):
            missing = code == base.NOT_FOUND and not hint
            if _IS_AZURE.search(words):
                hint = hint.replace(_CREDENTIALS, _OF_AZURE)
            return FileNotFoundError(words) if missing else Failed(code, words, hint)
    return error or Failed(base.UNKNOWN, words)
