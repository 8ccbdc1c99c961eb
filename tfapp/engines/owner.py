"""The key pair of the user, in TFAPP_HOME. The certificate travels with applications, whose runners
let nobody else open a session; the key never leaves this machine."""

from __future__ import annotations

import time
from pathlib import Path

from tfapp.disk import locked, make_private, write_atomically, writing
from tfapp.engines.credentials import new_credentials, read_pem
from tfapp.errors import UnavailableError

FOLDER = "owner"  # below TFAPP_HOME
PEM_FILE = "owner.pem"  # key and certificate
LOCK_LIMIT = 10.0  # seconds that another command may take to make it
_BEGIN = b"-----BEGIN CERTIFICATE-----"


def owner_file(home: Path) -> Path:
    """The file with key and certificate, in PEM, mode 0600. It is made where it is missing.
    UnavailableError if that cannot be done."""
    folder = home / FOLDER
    path = folder / PEM_FILE
    if not path.exists():
        with writing(path), locked(make_private(folder) / "lock", LOCK_LIMIT) as held:
            if not held:
                raise UnavailableError(f"another command has been making {path} for too long")
            if not path.exists():
                certificate, key = new_credentials(time.time())
                write_atomically(path, key + certificate)
    return path


def owner_certificate(home: Path) -> str:
    """The certificate alone, in PEM. UnavailableError if it cannot be had."""
    path = owner_file(home)
    try:
        pem = read_pem(path)
    except (OSError, ValueError) as error:
        hint = "Remove it: a new one is made, for applications that are created from then on."
        raise UnavailableError(str(error), hint) from error
    return pem[pem.index(_BEGIN) :].decode()
