"""Reads the credentials of an application that was submitted on another machine from its staging
folder, which only the owner can read."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tfapp.engines.yarn import hadoop_fs
from tfapp.engines.yarn.layout import Credentials
from tfapp.errors import UnreachableError

# Where Skein's driver puts what it submits, below the user's home folder.
FOLDER = ".skein/{application}"
_PEM = re.compile(rb"-----BEGIN ([A-Z ]+)-----.+?-----END \1-----\n?", re.DOTALL)


def read_credentials(application: str, environ: Mapping[str, str]) -> Credentials:
    """Reads them by one Java program. UnreachableError if that fails."""
    folder = FOLDER.format(application=application)
    done = hadoop_fs.run(environ, ["-cat", f"{folder}/.skein.crt", f"{folder}/.skein.pem"])
    found = {match.group(1): match.group() for match in _PEM.finditer(done.out)}
    certificate = found.pop(b"CERTIFICATE", None)
    if certificate is None or len(found) != 1:
        raise _unreadable(application, done.complaint or "not found")
    return Credentials(certificate, next(iter(found.values())))


def _unreadable(application: str, reason: str) -> UnreachableError:
    return UnreachableError(
        f"the credentials of {application} cannot be read: {reason}",
        "Only the user who submitted it can talk to it, and only until it ends.",
    )
