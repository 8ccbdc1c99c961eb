"""What lies where under TFAPP_HOME. What lies on the cluster: `place`.

yarn/locks/NAME              held while a command launches or forgets application NAME
yarn/drivers/KEY/            Skein's driver for one configuration of Hadoop
    driver.json              where it listens (class tfapp.engines.yarn.driver.Running)
    skein.crt skein.pem      its credentials
    driver.log
yarn/places/KEY.json         what is known to lie on that cluster already (.place.Place)
yarn/users/KEY.json          what that cluster calls the owners of principals (.user_names)
yarn/applications/ID/        one run that was submitted or looked at from here
    definition.json          what was submitted
    skein.crt skein.pem      its credentials; deleted at the end
    logs/CONTAINER/FILE      copies
    logs-complete            they are whole
    destroyed                the user wants to hear no more of it
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path

from tfapp.engines.disk import locked, make_private, write_atomically, writing


@dataclasses.dataclass(frozen=True)
class Credentials:
    """A certificate and its private key, in PEM."""

    certificate: bytes
    key: bytes = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True)
class CredentialFolder:
    """A folder that holds credentials among others."""

    path: Path

    @property
    def certificate(self) -> Path:
        return self.path / "skein.crt"

    @property
    def key(self) -> Path:
        return self.path / "skein.pem"

    def read_credentials(self) -> Credentials | None:
        """None when there are none."""
        try:
            return Credentials(self.certificate.read_bytes(), self.key.read_bytes())
        except FileNotFoundError:
            return None

    def write_credentials(self, credentials: Credentials) -> None:
        """UnavailableError when they cannot be written."""
        with writing(self.path):
            make_private(self.path)
            write_atomically(self.key, credentials.key)
            write_atomically(self.certificate, credentials.certificate)

    def delete_credentials(self) -> None:
        """Nothing happens when there are none."""
        for path in (self.certificate, self.key):
            path.unlink(missing_ok=True)


@dataclasses.dataclass(frozen=True)
class DriverFolder(CredentialFolder):
    """drivers/KEY."""

    @property
    def record(self) -> Path:
        return self.path / "driver.json"

    @property
    def log(self) -> Path:
        return self.path / "driver.log"


@dataclasses.dataclass(frozen=True)
class RunFolder(CredentialFolder):
    """applications/ID."""

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
    def destroyed(self) -> Path:
        return self.path / "destroyed"


@dataclasses.dataclass(frozen=True)
class Home:
    """TFAPP_HOME/yarn."""

    path: Path

    def run(self, application: str) -> RunFolder:
        """The folder of a run, by YARN's id of it. It need not exist."""
        return RunFolder(self.path / "applications" / application)

    def driver(self, key: str) -> DriverFolder:
        """The folder of a driver. It need not exist."""
        return DriverFolder(self.path / "drivers" / key)

    def place(self, key: str) -> Path:
        """The record of a place on a cluster. It need not exist."""
        return self.path / "places" / f"{key}.json"

    def users(self, key: str) -> Path:
        """The record of a cluster's names for principals. It need not exist."""
        return self.path / "users" / f"{key}.json"

    @contextlib.contextmanager
    def lock(self, name: str) -> Iterator[bool]:
        """Holds the lock of application `name` if it is free; yields whether it is held now."""
        path = self.path / "locks" / name
        with contextlib.ExitStack() as stack:
            with writing(path):
                make_private(path.parent)
                held = stack.enter_context(locked(path))
            yield held
