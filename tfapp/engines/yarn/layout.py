"""The layout of TFAPP_HOME/yarn. That of the cluster: `shared_folder`.

yarn/locks/NAME              held while a command launches or forgets application NAME
yarn/drivers/KEY/            Skein's driver for one configuration of Hadoop
    driver.json              where it listens (class tfapp.engines.yarn.driver_daemon.DriverRecord)
    skein.crt skein.pem      its credentials
    driver.lock              held by the command that starts it
    driver.log
yarn/places/KEY.json         what is known to lie on that cluster already (.shared_record)
yarn/users/KEY.json          what that cluster calls the owners of principals (.user_names)
yarn/applications/ID/        one run that was submitted or looked at from here
    definition.json          what was submitted
    skein.crt skein.pem      its credentials; deleted at the end
    logs/CONTAINER/FILE      copies
    logs-complete            they are whole
    returned-complete        those of what functions returned are
    destroyed                the user wants to hear no more of it
"""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path

from tfapp.disk import locked, make_private, write_atomically, writing
from tfapp.frozen import frozen


@frozen
class Credentials:
    """A certificate and its private key, in PEM."""

    certificate: bytes
    key: bytes = dataclasses.field(repr=False)


@frozen
class CredentialFolder:
    """A folder that contains credentials."""

    path: Path

    @property
    def certificate(self) -> Path:
        return self.path / "skein.crt"

    @property
    def key(self) -> Path:
        return self.path / "skein.pem"

    def read_credentials(self) -> Credentials | None:
        """The credentials; None if there are none."""
        try:
            return Credentials(self.certificate.read_bytes(), self.key.read_bytes())
        except FileNotFoundError:
            return None

    def write_credentials(self, credentials: Credentials) -> None:
        """Writes the credentials. UnavailableError if that fails."""
        with writing(self.path):
            make_private(self.path)
            write_atomically(self.key, credentials.key)
            write_atomically(self.certificate, credentials.certificate)

    def delete_credentials(self) -> None:
        """Deletes the credentials, if there are any."""
        for path in (self.certificate, self.key):
            path.unlink(missing_ok=True)


@frozen
class DriverFolder(CredentialFolder):
    """The folder drivers/KEY."""

    @property
    def record(self) -> Path:
        return self.path / "driver.json"

    @property
    def lock(self) -> Path:
        return self.path / "driver.lock"

    @property
    def log(self) -> Path:
        return self.path / "driver.log"


@frozen
class RunFolder(CredentialFolder):
    """The folder applications/ID."""

    @property
    def definition(self) -> Path:
        return self.path / "definition.json"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def logs_complete(self) -> Path:
        return self.path / "logs-complete"

    @property
    def returned_complete(self) -> Path:
        return self.path / "returned-complete"

    @property
    def destroyed(self) -> Path:
        return self.path / "destroyed"


@frozen
class Home:
    """The folder TFAPP_HOME/yarn."""

    path: Path

    def run(self, application: str) -> RunFolder:
        """The folder of a run, by its id on YARN. It need not exist."""
        return RunFolder(self.path / "applications" / application)

    def driver(self, key: str) -> DriverFolder:
        """The folder of a driver. It need not exist."""
        return DriverFolder(self.path / "drivers" / key)

    def shared_record(self, key: str) -> Path:
        """The local record of a cluster's shared folder. It need not exist."""
        return self.path / "places" / f"{key}.json"

    def users(self, key: str) -> Path:
        """The local record of a cluster's user names for principals. It need not exist."""
        return self.path / "users" / f"{key}.json"

    def lock(self, name: str) -> contextlib.AbstractContextManager[bool]:
        """The lock of the application `name`; see `locked`."""
        path = self.path / "locks" / name
        with writing(path):
            make_private(path.parent)
            return locked(path)
