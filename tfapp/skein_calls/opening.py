"""Opening a connection to an application's master."""

from __future__ import annotations

import importlib

from tfapp.errors import UnavailableError
from tfapp.skein_calls.client import DEADLINE, client_class
from tfapp.skein_calls.connection import Connection


def connect(
    address: str, application: str, certificate: bytes, key: bytes, deadline: float = DEADLINE
) -> Connection:
    """A connection from outside. `address` is host:port, `application` Skein's id, then the
    application's credentials in PEM. Nothing is sent yet: the first call finds out."""
    from tfapp.skein_library import skein

    security = skein.Security(cert_bytes=certificate, key_bytes=key)
    return Connection(client_class()(address, application, security=security).bounded(deadline))


def load_skein() -> None:
    """Imports Skein, which `connect` and `from_current` do otherwise. To be called before there
    is a second thread that imports anything: importlib of CPython 3.11 and older can deadlock
    between two. https://github.com/python/cpython/issues/91351"""
    importlib.import_module("tfapp.skein_library")


def from_current(deadline: float = DEADLINE) -> Connection:
    """The connection of a process that an application's master started. UnavailableError
    elsewhere. Reads the environment, as Skein does."""
    from tfapp.skein_library import skein

    try:
        client = client_class().from_current()
    except (ValueError, FileNotFoundError) as error:
        raise UnavailableError(
            f"this process is not part of an application: {error}",
            hint="it is started by an application's master, not by hand",
        ) from error
    return Connection(client.bounded(deadline), skein.properties.container_id or "")
