"""Values of appConfig that a schema cannot judge."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from tfapp.contract.names import opened_schemes
from tfapp.package.docker import CLOSE_THE_QUOTE
from tfapp.package.model import AppPackage, setting
from tfapp.package.rules.rule import Found, all_values, rule, settings
from tfapp.problems import WARNING

MAX_PORT = 65535
HISTORY = "history.dir"
OF_PROGRAMS = ("user.checkpoint.prefix", "user.data.dir")
FOLDER_KEYS = (*OF_PROGRAMS, HISTORY)
_BY_ITSELF = ("file", "gs")  # TensorFlow opens them

_DASHES = "\u2013\u2014\u2212"
_QUOTES = "\u201c\u201d\u201e\u2018\u2019\u201a\u00ab\u00bb"
_QUOTED = re.compile(f"([{_QUOTES}]).*[{_QUOTES}]$", re.DOTALL)
_WORD = re.compile(rf"(?:^|[\s=])([{_QUOTES}{_DASHES}])(?=\S)")

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


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
        "user.scripts.command": settings(package, "user.scripts.command"),
        "tensorboard.args": settings(package, "tensorboard.args"),
        "on.end": settings(package, "on.end"),
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
        if key.endswith((".args", ".command")) and not found:
            found = _WORD.search(value.text)
        if found:
            quote = found[1] not in _DASHES
            message = f"{key} has a typographic {'quote' if quote else 'dash'}, {found[1]}, in it"
            hint = "type \" or '" if quote else "type '-', or '--'"
            yield Found(value.at, message, hint, WARNING)


@rule("storage-url", "appConfig")
def storage_url(package: AppPackage) -> Iterator[Found]:
    """The checkpoint or data folder is a URL that TensorFlow opens neither by itself nor by tfapp:
    a warning, as only the program knows what it has. Reported at the value.

        user.checkpoint.prefix: /mnt/shared/digits                    PASS
        user.checkpoint.prefix: hdfs://namenode/digits                PASS
        user.data.dir: s3://bucket/digits                             PASS
        user.checkpoint.prefix: oss://bucket/digits                   WARNING
    """
    for key in OF_PROGRAMS:
        for value in settings(package, key):
            scheme, schemes = scheme_of(value.text), schemes_of(package)
            if scheme and scheme not in (*_BY_ITSELF, *schemes):
                hint = (
                    f"write one of {', '.join(schemes)}, gs or a path; or set "
                    f"site.global.storage.schemes: {scheme}, if fsspec has it"
                )
                yield Found(value.at, f"TensorFlow opens no {scheme}://", hint, WARNING)


@rule("history-url", "appConfig")
def history_url(package: AppPackage) -> Iterator[Found]:
    """The folder of the history is a URL that tfapp does not open. Reported at the value.

    history.dir: /mnt/shared/history     PASS
    history.dir: s3://bucket/history     PASS
    history.dir: oss://bucket/history    FAIL
    """
    for value in settings(package, HISTORY):
        scheme, schemes = scheme_of(value.text), schemes_of(package)
        if scheme and scheme not in ("file", *schemes):
            hint = (
                f"write one of {', '.join(schemes)} or a path; or set "
                f"site.global.storage.schemes: {scheme}, if fsspec has it"
            )
            yield Found(value.at, f"tfapp opens no {scheme}://", hint)


def schemes_of(package: AppPackage) -> tuple[str, ...]:
    """Those of URLs that programs open by tfapp."""
    value = setting(package.config.global_, "storage.schemes")
    return opened_schemes(value.text if value else "")


def scheme_of(folder: str) -> str:
    """ "s3" of "s3://bucket/a"; "" of a path."""
    url = _URL.match(folder)
    return url[1] if url else ""
