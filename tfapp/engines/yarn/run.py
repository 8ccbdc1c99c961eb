"""A run on the cluster, for the client of its master (see tfapp.engines.client.Run)."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Mapping

from tfapp.contract.status import ApplicationStatus
from tfapp.engines.client import Address, Client
from tfapp.engines.yarn.cluster import Cluster, Report
from tfapp.engines.yarn.layout import RunFolder
from tfapp.engines.yarn.staging import read_credentials
from tfapp.errors import UnavailableError, UnreachableError

WAIT_EVERY = 0.5  # seconds between two looks for a master, and for an end
KILL_LIMIT = 30.0  # seconds for YARN to end an application


class Run:
    """`report`: YARN's last report. `folder`: the folder of its credentials, which are fetched from
    the cluster if necessary. `accepted`: returns its status until its coordinator publishes one."""

    notice = 0.5

    def __init__(
        self,
        report: Report,
        folder: RunFolder,
        cluster: Cluster,
        environ: Mapping[str, str],
        accepted: Callable[[Report], ApplicationStatus],
    ):
        self.report = report
        self._folder = folder
        self._cluster = cluster
        self._environ = environ
        self._accepted = accepted
        self.client = Client(self)

    @functools.cached_property
    def accepted(self) -> ApplicationStatus:
        return self._accepted(self.report)

    def address(self) -> Address:
        report = self.report
        if not report.address:
            raise UnreachableError(f"{report.name} has no master yet", "It waits in its queue.")
        credentials = self._folder.read_credentials()
        if credentials is None:
            if report.ended:
                raise UnreachableError(f"{report.name} has ended, and its credentials are deleted")
            credentials = read_credentials(report.id, self._environ)
            self._folder.write_credentials(credentials)
        return Address(report.address, credentials.certificate, credentials.key)

    def is_ending(self) -> bool:
        return False  # YARN calls it ended from the moment on at which its master says so

    def wait_for_end(self, timeout: float) -> bool:
        """False also if YARN does not answer."""
        deadline = time.monotonic() + timeout
        while not self._look():
            if time.monotonic() >= deadline:
                return False
            time.sleep(WAIT_EVERY)
        return True

    def kill(self) -> None:
        self._cluster.kill(self.report.id)
        self.wait_for_end(KILL_LIMIT)

    def _look(self) -> bool:
        if not self.report.ended:
            with contextlib.suppress(UnavailableError):
                self.report = self._cluster.application(self.report.id)
        return self.report.ended
