"""A run on the cluster: YARN's report of it, what its coordinator publishes, and its verdict."""

from __future__ import annotations

import contextlib
import functools
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tfapp.contract.names import (
    CANNOT_START,
    FINAL_STATES,
    PAGE_ROUTE,
    exported_pages,
    page_route,
)
from tfapp.contract.status import ApplicationStatus, parse_diagnostics
from tfapp.engines import refusals
from tfapp.engines.base import Application, Link
from tfapp.engines.client import Address, Run, happens
from tfapp.engines.yarn import hadoop_fs, verdict
from tfapp.engines.yarn.attempts import RECORDS, newest
from tfapp.engines.yarn.cluster import FORGOTTEN, YarnCluster, YarnReport, forgotten
from tfapp.engines.yarn.layout import YarnCredentials, YarnRunFolder
from tfapp.engines.yarn.logs import YarnLogs
from tfapp.engines.yarn.nodes import log_page
from tfapp.engines.yarn.register import YarnRegister
from tfapp.engines.yarn.shared_folder import STAGING
from tfapp.errors import UnavailableError, UnknownApplicationError, UnreachableError
from tfapp.protocol.connection import ContainerReport

if TYPE_CHECKING:
    from tfapp.protocol.connection import Connection


PATIENCE = 5.0  # seconds that an application may wait for its master without a word of why
KILL_LIMIT = 30.0  # seconds for YARN to end an application
NEXT_LIMIT = 120.0  # seconds for YARN to start another master, and for that one to serve
RECORD_LIMIT = 10.0  # seconds to read what the coordinator has recorded

_PEM = re.compile(rb"-----BEGIN ([A-Z ]+)-----.+?-----END \1-----\n?", re.DOTALL)


class YarnRun(Run):
    """Run `number` of an application. `report`: YARN's last report. `folder`: the folder of its
    credentials, which are fetched from the cluster if necessary."""

    shuts_down = False  # YARN starts another one

    def __init__(
        self,
        report: YarnReport,
        number: int,
        folder: YarnRunFolder,
        cluster: YarnCluster,
        environ: Mapping[str, str],
        register: YarnRegister,
        logs: YarnLogs,
    ):
        super().__init__("yarn", number)
        self.report = report
        self._folder = folder
        self._cluster = cluster
        self._environ = environ
        self._register = register
        self._logs = logs
        self._published: ApplicationStatus | None = None
        self._links: tuple[Link, ...] = ()
        self._to_stop: str | None = None  # the reason that its coordinator is told
        self._waits = verdict.waiting(report)
        self._patient_until = time.monotonic() + PATIENCE

    @property
    def accepted(self) -> ApplicationStatus:
        """See Run. The definition is fetched from the cluster only if nothing else describes the
        instances."""
        report = self.report
        told = parse_diagnostics(report.diagnostics) if report.ended else None
        fetch = self.fetches and (report.ended or not report.address)
        return told or self._register.accepted(report, fetch)

    @property
    def ended(self) -> bool:
        return self.report.ended

    def application(self) -> Application:
        report = self.report
        status = self._verdict if report.ended else self._published or self.accepted
        page = (Link("", "page", report.tracking_url),) if report.tracking_url else ()
        pages = page if report.ended else (*page, *self._links)
        logs = self._folder.logs
        waits = self._waits
        if report.outage:
            waits = f"{report.outage}; this is what the application's master says"
        return self.shown(report.name, report.id, status, report.tags, logs, pages, waits)

    def read(self) -> None:
        """See Run.read. A run that YARN does not know any more has ended."""
        report = self.report
        try:
            self.report = self._cluster.application(report.id)
        except UnknownApplicationError:
            self.report = forgotten(
                report.id, report.name, report.user, report.tags, report.started
            )
        self._register.note(self.report)

    def _has_ended(self) -> bool:
        before = self.report.address
        ended = super()._has_ended() if not self.report.outage else self.ended
        another = not ended and self.report.address not in ("", before)
        if another and self._to_stop is not None:
            with contextlib.suppress(UnreachableError):
                self.client.ask_to_stop(self._to_stop)  # it has not heard of that
        return ended

    def ask(self) -> None:
        def look(connection: Connection) -> tuple[ApplicationStatus, tuple[Link, ...]]:
            status = self.client.read(connection)
            return status, links(self.report, status, connection.containers())

        asked = self.report.address
        if not asked:
            return
        try:
            self._published, self._links = self.client.ask(look)
        except UnreachableError:
            if self.report.address == asked:
                raise
            self._waits = "its master was lost, and YARN starts another one"

    def changes(self) -> Iterator[Application]:
        """See Run.changes. YARN's words of the first PATIENCE seconds are left out, but for
        the first of all."""
        self._published = self._published or self.accepted
        if time.monotonic() > self._patient_until:
            self._waits = verdict.waiting(self.report)
        if self._published.state not in FINAL_STATES:
            yield self.application()
        if self.report.address and self._published.verdict is None:
            yield from self._changes()
        time.sleep(self.wait_every)

    def _changes(self) -> Iterator[Application]:
        """Yields changes until the verdict, or until the master cannot be followed: it is starting
        or ending, and YARN has the state."""
        with contextlib.suppress(UnreachableError):
            for status in self.client.published():
                if status.verdict is not None:
                    # Nothing is written any more, and YARN is about to move the logs away.
                    self._logs.copy_at_end(self.report.id)
                if status != self._published:
                    self._published, self._waits = status, ""
                    if status.state not in FINAL_STATES:
                        yield self.application()
                if status.verdict is not None:
                    return

    @functools.cached_property
    def _verdict(self) -> ApplicationStatus:
        """The status of a run that has ended."""
        report = self.report
        self._logs.close(report.id)
        known = report.state == FORGOTTEN or report.outage
        silent = parse_diagnostics(report.diagnostics) is None
        noted = self._register.end_of(report)
        status = noted if known or silent else None
        if status is None:
            if silent:
                self._published = self._published or self._recorded()
            if not report.outage:
                self._register.clean_up(report)
            last_known = self._published or self.accepted
            cause = next(self._cause(), verdict.UNKNOWN)
            asked = self._register.reason_to_stop(report)
            status = verdict.ended(report, last_known, cause, asked)
            self._register.note_end(report, status)
        return status

    def _recorded(self) -> ApplicationStatus | None:
        """What the coordinator has recorded for the next master; None where there is nothing, or it
        cannot be read. Takes one Java program. What ends a run deletes it, and the credentials."""
        if not self._folder.certificate.exists():
            return None
        place = f"{STAGING.format(application=self.report.id)}/{RECORDS}"
        with contextlib.suppress(UnavailableError, refusals.DamagedError):
            found = newest(hadoop_fs.run(self._environ, ["-cat", place], RECORD_LIMIT).out)
            if found is not None:
                return refusals.undamaged(
                    lambda: ApplicationStatus.from_dict(json.loads(found)), place, "It is no record"
                )
        return None

    def _cause(self) -> Iterator[str]:
        """Why its coordinator could not be started, from its log, if so."""
        if not verdict.is_unstarted(self.report):
            return
        with contextlib.suppress(UnavailableError):
            for log in self._logs.of(self.report, ()):
                for line in log.path.read_text(errors="replace").splitlines():
                    if line.startswith(CANNOT_START):
                        yield line[len(CANNOT_START) :]
                        return

    def await_master(self) -> None:
        """Waits for the master that takes the place of a lost one, for NEXT_LIMIT at most. Returns
        at once while the run waits for its first one."""
        lost = self.report.address
        if self.ended or self.report.outage:
            return
        if lost:
            with contextlib.suppress(UnreachableError):
                self.client.status()
                return
        elif self._recorded() is None:
            return

        def has_come() -> bool:
            return self._has_ended() or self.report.address not in ("", lost)

        happens(has_come, NEXT_LIMIT, self.wait_every)

    # -- for its client --
    def address(self) -> Address:
        report = self.report
        if not report.address:
            hint = "It waits in its queue, or YARN starts another one for one that was lost."
            raise UnreachableError(f"{report.name} has no master yet", hint)
        credentials = self._folder.read_credentials()
        if credentials is None:
            if report.ended:
                raise UnreachableError(f"{report.name} has ended, and its credentials are deleted")
            credentials = read_credentials(report.id, self._environ)
            self._folder.write_credentials(credentials)
        return Address(report.address, credentials.certificate, credentials.key)

    def stop(self, message: str, force: bool, timeout: float | None) -> None:
        """See Run. YARN takes no message: who looks from another machine reads YARN's own words."""
        self._register.note_stop(self.report, message)
        if not force:
            self._to_stop = message
        super().stop(message, force, timeout)

    def kill(self) -> None:
        self._published = self._published or self._recorded()
        self._cluster.kill(self.report.id)
        self.wait_for_end(KILL_LIMIT)


def read_credentials(application: str, environ: Mapping[str, str]) -> YarnCredentials:
    """The credentials of an application that was submitted on another machine, from its staging
    folder, which only the owner can read. Takes one Java program. UnreachableError if that
    fails."""
    folder = STAGING.format(application=application)
    done = hadoop_fs.run(environ, ["-cat", f"{folder}/.skein.crt", f"{folder}/.skein.pem"])
    found = {match.group(1): match.group() for match in _PEM.finditer(done.out)}
    certificate = found.pop(b"CERTIFICATE", None)
    if certificate is None or len(found) != 1:
        raise _unreadable(application, done.complaint or "not found")
    return YarnCredentials(certificate, next(iter(found.values())))


def _unreadable(application: str, reason: str) -> UnreachableError:
    return UnreachableError(
        f"the credentials of {application} cannot be read: {reason}",
        "Only the user who submitted it can talk to it, and only until it ends.",
    )


def links(
    report: YarnReport, status: ApplicationStatus, containers: Sequence[ContainerReport]
) -> tuple[Link, ...]:
    """The web pages of an application: its own page, the pages that instances export (through
    YARN's proxy), and the logs of all instances in `containers`, on their nodes."""
    found = {container.id: container for container in containers}
    routes = [("", PAGE_ROUTE)]
    routes += [
        (i.instance, page_route(i.instance)) for i in status.instances if exported_pages(i.exports)
    ]
    base = report.tracking_url.rstrip("/")
    pages = [Link(name, "page", f"{base}/pages/{route}/") for name, route in routes if base]
    logs = [
        Link(i.instance, "log", _log(report, found[i.container]))
        for i in status.instances
        if i.container in found and found[i.container].yarn_id
    ]
    return (*pages, *logs)


def _log(report: YarnReport, container: ContainerReport) -> str:
    scheme = report.tracking_url.partition("://")[0] or "http"
    return f"{scheme}:{log_page(container.node, container.yarn_id, report.user)}"
