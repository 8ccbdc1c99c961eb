"""Values of appConfig that a schema cannot judge."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from tfapp.package.docker import CLOSE_THE_QUOTE
from tfapp.package.model import AppPackage
from tfapp.package.rules.rule import Found, all_values, rule, settings
from tfapp.problems import WARNING, Position

MAX_PORT = 65535
OPENED = ("file", "gs")  # by TensorFlow on its own

_DASHES = "\u2013\u2014\u2212"
_QUOTES = "\u201c\u201d\u201e\u2018\u2019\u201a\u00ab\u00bb"
_QUOTED = re.compile(f"([{_QUOTES}]).*[{_QUOTES}]$", re.DOTALL)
_WORD = re.compile(rf"(?:^|[\s=])([{_QUOTES}{_DASHES}])(?=\S)")

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)")


@rule("allowed-ports", "appConfig")
def allowed_ports(package: AppPackage) -> Iterator[Found]:
    """`site.global.slider.allowed.ports` holds a range without ports, or numbers beyond them.

    Reported at the value, for the first range that is wrong.

        "48000, 50000-50010"     PASS
        "50010-50000"            FAIL
        "48000, 70000"           FAIL
    """
    for value in settings(package, "slider.allowed.ports"):
        message = next(filter(None, map(_wrong_range, value.text.split(","))), "")
        if message:
            yield Found(value.at, message, "write ports and ranges, such as '48000, 50000-50010'")


def _wrong_range(word: str) -> str:
    """The error in one port or range, or ""."""
    first, _, last = word.partition("-")
    low, high = int(first), int(last or first)
    if high < low:
        return f"the range {word.strip()} ends before it begins"
    if not 1 <= low <= high <= MAX_PORT:
        return f"{word.strip()} is not within the ports 1 to {MAX_PORT}"
    return ""


@rule("unclosed-quote", "appConfig")
def unclosed_quote(package: AppPackage) -> Iterator[Found]:
    """Arguments of a program that cannot be split into words: a quote is never closed, or a
    backslash stands at the end. They are written as in a shell. Reported at the value.

        user.scripts.args: --title 'two words'      PASS
        user.scripts.args: --title 'two words       FAIL
        user.scripts.args: --title it\\'s            PASS
    """
    found = {
        "user.scripts.args": settings(package, "user.scripts.args"),
        "tensorboard.args": settings(package, "tensorboard.args"),
    }
    for key, values in found.items():
        for value in values:
            try:
                shlex.split(value.text)
            except ValueError as error:
                message = f"site.global.{key} cannot be split into words: {error}"
                yield Found(value.at, message, CLOSE_THE_QUOTE)


@rule("typographic", "appConfig")
def typographic(package: AppPackage) -> Iterator[Found]:
    """Typographic quotes around a value, which stay part of it, or typographic quotes and dashes
    that begin a word of a program's arguments, which no program takes for its options. Text that
    was copied from a page or a chat often has them. Reported at the value.

        env.TITLE: "two words"                                     PASS
        env.TITLE: \u201ctwo words\u201d                               WARNING
        site.global.user.scripts.args: \u2013epochs 3                WARNING
    """
    for key, value in all_values(package):
        found = _QUOTED.match(value.text)
        if key.endswith(".args") and not found:
            found = _WORD.search(value.text)
        if found:
            quote = found[1] not in _DASHES
            message = f"{key} has a typographic {'quote' if quote else 'dash'}, {found[1]}, in it"
            hint = "type \" or '" if quote else "type '-', or '--'"
            yield Found(value.at, message, hint, WARNING)


@rule("storage-url", "appConfig")
def storage_url(package: AppPackage) -> Iterator[Found]:
    """The checkpoint or data folder is a URL that would not be opened.

    Skein reads a URL's host in lower case and drops what stands before an `@`, so the object
    stores whose names need these cannot be reached. TensorFlow itself opens files and `gs://`;
    for `hdfs://`, `viewfs://`, `s3://` and others it needs tensorflow-io, which exists up to
    TensorFlow 2.16: a warning, as only the program knows what it has. Reported at the value.

        user.checkpoint.prefix: /mnt/shared/digits                    PASS
        user.checkpoint.prefix: hdfs://namenode/digits                WARNING
        user.data.dir: s3a://My-Bucket/digits                         FAIL
        user.data.dir: abfs://container@account.example/digits        FAIL
    """
    for value in settings(package, "user.data.dir"):
        yield from _check_host(value.text, value.at)
    for value in settings(package, "user.checkpoint.prefix"):
        yield from _check_host(value.text, value.at)
        url = _URL.match(value.text)
        if url and url[1].lower() not in OPENED:
            hint = "use a folder that every instance sees (a shared mount), or an image with "
            hint += "TensorFlow 2.16 or older and tensorflow-io"
            yield Found(value.at, f"TensorFlow opens no {url[1]}:// by itself", hint, WARNING)


def _check_host(text: str, at: Position) -> Iterator[Found]:
    url = _URL.match(text)
    host = url[2] if url else ""
    if "${" in host:
        return
    if "@" in host:
        message = f"Skein drops '{host.rpartition('@')[0]}@' from this URL"
        yield Found(at, message, "use a store whose name has no '@' in it")
    elif host != host.lower():
        message = f"Skein reads '{host}' in this URL as '{host.lower()}'"
        yield Found(at, message, "use a store whose name is in lower case")
