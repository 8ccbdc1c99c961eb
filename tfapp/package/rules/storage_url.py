"""The checkpoint or data folder is a URL that would not be opened.

Skein reads a URL's host in lower case and drops what stands before an `@`, so the object stores
whose names need these cannot be reached. TensorFlow itself opens files and `gs://`; for
`hdfs://`, `viewfs://`, `s3://` and others it needs tensorflow-io, which exists up to TensorFlow
2.16: a warning, as only the program knows what it has.

    user.checkpoint.prefix: /mnt/shared/digits                    PASS
    user.checkpoint.prefix: hdfs://namenode/digits                WARNING
    user.data.dir: s3a://My-Bucket/digits                         FAIL
    user.data.dir: abfs://container@account.example/digits        FAIL
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tfapp.package.model import AppPackage
from tfapp.package.rules.written import all_values
from tfapp.problems import WARNING, Position, Problem

CODE = "storage-url"
NEEDS = ("appConfig",)
CHECKPOINTS, DATA = "site.global.user.checkpoint.prefix", "site.global.user.data.dir"
OPENED = ("file", "gs")  # by TensorFlow on its own

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)")


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports at the value."""
    for key, value in all_values(package):
        match = _URL.match(value.text) if key in (CHECKPOINTS, DATA) else None
        if match is None:
            continue
        yield from _check_host(match[2], value.at)
        if key == CHECKPOINTS and match[1].lower() not in OPENED:
            yield Problem(
                value.at,
                CODE,
                f"TensorFlow opens no {match[1]}:// by itself",
                WARNING,
                "use a folder that every instance sees (a shared mount), or an image with "
                "TensorFlow 2.16 or older and tensorflow-io",
            )


def _check_host(host: str, at: Position) -> Iterator[Problem]:
    if "${" in host:
        return
    if "@" in host:
        message = f"Skein drops '{host.rpartition('@')[0]}@' from this URL"
        yield Problem(at, CODE, message, hint="use a store whose name has no '@' in it")
    elif host != host.lower():
        message = f"Skein reads '{host}' in this URL as '{host.lower()}'"
        yield Problem(at, CODE, message, hint="use a store whose name is in lower case")
