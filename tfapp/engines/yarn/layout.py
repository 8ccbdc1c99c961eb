"""The layout of TFAPP_HOME/yarn. That of the cluster: `shared_folder`.

yarn/locks/NAME              held while a command launches or forgets application NAME
yarn/drivers/KEY/            Skein's driver for one configuration of Hadoop
    driver.json              where it listens (class tfapp.engines.yarn.driver_daemon.DriverRecord)
    skein.crt skein.pem      its credentials
    driver.lock              held by the command that starts it
    driver.log
yarn/places/KEY.json         what is known to lie on that cluster already (.shared_folder)
yarn/users/KEY.json          what that cluster calls the owners of principals (.user_names)
yarn/applications/ID/        one run that was submitted or looked at from here
    definition.json          what was submitted
    cluster                  which cluster that was for (SharedFolder.cluster), and the name
    report.json              what YARN said of it last (class tfapp.engines.yarn.cluster.YarnReport)
    ended.json               how it ended, as it was last seen
    stopped                  why it was last asked to stop from here
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

from tfapp.disk import Below, locked, make_private, write_atomically, writing
from tfapp.engines.credentials import read_pem
from tfapp.frozen import frozen


@frozen
class YarnCredentials:
    """A certificate and its private key, in PEM."""

    certificate: bytes
    key: bytes = dataclasses.field(repr=False)


@frozen
class CredentialFolder:
    path: Path

    certificate = Below("skein.crt")
    key = Below("skein.pem")

    def read_credentials(self) -> YarnCredentials | None:
        """The credentials; None if there are none that can be read."""
        try:
            return YarnCredentials(read_pem(self.certificate), read_pem(self.key))
        except (FileNotFoundError, ValueError):
            return None

    def write_credentials(self, credentials: YarnCredentials) -> None:
        """Writes the credentials. UnavailableError if that fails."""
        with writing(self.path):
            make_private(self.path)
            write_atomically(self.key, credentials.key)
            write_atomically(self.certificate, credentials.certificate)

    def delete_credentials(self) -> None:
        for path in (self.certificate, self.key):
            path.unlink(missing_ok=True)


@frozen
class DriverFolder(CredentialFolder):
    """The folder drivers/KEY."""

    record = Below("driver.json")
    lock = Below("driver.lock")
    log = Below("driver.log")


@frozen
class YarnRunFolder(CredentialFolder):
    """The folder applications/ID."""

    definition = Below("definition.json")
    cluster = Below("cluster")
    report = Below("report.json")
    ended = Below("ended.json")
    stopped = Below("stopped")
    logs = Below("logs")
    logs_complete = Below("logs-complete")
    returned_complete = Below("returned-complete")
    destroyed = Below("destroyed")


@frozen
class YarnHome:
    """The folder TFAPP_HOME/yarn."""

    path: Path

    def run(self, application: str) -> YarnRunFolder:
        """The folder of a run, by its id on YARN. It need not exist."""
        return YarnRunFolder(self.path / "applications" / application)

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
        """The lock of the application `name`, which is not waited for; see `locked`."""
        path = self.path / "locks" / name
        with writing(path):
            make_private(path.parent)
            return locked(path, 0.0)
