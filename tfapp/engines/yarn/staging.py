"""An application's credentials, for a command that did not submit it: from its staging folder,
which only its owner can read."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping

from tfapp.engines.yarn.cluster import first_line
from tfapp.engines.yarn.layout import Credentials
from tfapp.engines.yarn.surroundings import find_java, read_class_path
from tfapp.errors import UnreachableError

LIMIT = 60.0  # seconds

# Where Skein's driver puts what it submits, below the user's home folder.
FOLDER = ".skein/{application}"
_PEM = re.compile(rb"-----BEGIN ([A-Z ]+)-----.+?-----END \1-----\n?", re.DOTALL)


def read_credentials(application: str, environ: Mapping[str, str]) -> Credentials:
    """Reads them with Hadoop's own client, which knows every file system and Kerberos; it is a
    Java program and takes a second or two. UnreachableError when they cannot be had."""
    folder = FOLDER.format(application=application)
    command = [find_java(environ), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += ["-cp", read_class_path(environ), "org.apache.hadoop.fs.FsShell", "-cat"]
    try:
        done = subprocess.run(
            [*command, f"{folder}/.skein.crt", f"{folder}/.skein.pem"],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT,
        )
    except subprocess.TimeoutExpired:
        raise _unreadable(application, f"no answer within {LIMIT:g} s") from None
    found = {match.group(1): match.group() for match in _PEM.finditer(done.stdout)}
    certificate = found.pop(b"CERTIFICATE", None)
    if certificate is None or len(found) != 1:
        complaint = [
            line
            for line in done.stderr.decode(errors="replace").splitlines()
            if line.startswith(("cat:", "-cat:"))
        ]
        raise _unreadable(application, first_line("\n".join(complaint)) or "not found")
    return Credentials(certificate, next(iter(found.values())))


def _unreadable(application: str, reason: str) -> UnreachableError:
    return UnreachableError(
        f"the credentials of {application} cannot be read: {reason}",
        "Only the user who submitted it can talk to it, and only until it ends.",
    )
