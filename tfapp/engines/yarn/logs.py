"""The logs of applications: copied while they run, and fetched from YARN's aggregation after their
end."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tfapp.contract.names import RETURNED_FILE
from tfapp.contract.status import ApplicationStatus, InstanceStatus
from tfapp.disk import make_private, writing
from tfapp.engines.base import LogFile
from tfapp.engines.container_files import log_order, newest_returned
from tfapp.engines.yarn import aggregated_logs
from tfapp.engines.yarn.aggregated_logs import UNKNOWN, Gathered
from tfapp.engines.yarn.cluster import YarnCluster, YarnReport
from tfapp.engines.yarn.layout import YarnHome, YarnRunFolder
from tfapp.engines.yarn.live_logs import LiveLogs
from tfapp.engines.yarn.web import Web
from tfapp.errors import UnavailableError
from tfapp.protocol.connection import Connection

RETURNED_LIMIT = 60.0  # seconds for YARN to gather what functions returned
LOST_LIMIT = 5.0  # seconds for YARN to gather logs where it waits for nodes that are lost


class YarnLogs:
    """Copies of logs, under `home`. `connect` opens a connection to the master of a run."""

    def __init__(
        self,
        home: YarnHome,
        cluster: YarnCluster,
        environ: Mapping[str, str],
        web: Web,
        connect: Callable[[YarnReport], Connection],
    ):
        self._connect = connect
        self._home = home
        self._cluster = cluster
        self._environ = environ
        self._web = web
        self._live: dict[str, LiveLogs] = {}

    def of(self, report: YarnReport, instances: Sequence[InstanceStatus]) -> tuple[LogFile, ...]:
        """The logs of a run, those of `instances` first and in their order. For a run that has
        ended they are complete, or say why not; the first call waits for the aggregation."""
        order = log_order([instance.instance for instance in instances])
        if not report.ended:
            return self._running(report, order).files()
        logs = self._gathered(report, instances, aggregated_logs.log_files)
        return tuple(sorted(logs, key=order))

    def returned(self, report: YarnReport, status: ApplicationStatus) -> tuple[LogFile, ...]:
        """See Engine.returned. For a run that has just ended the first call waits for the
        aggregation, unless the records were copied at its end. `status`: the last known status."""
        order = log_order([instance.instance for instance in status.instances])
        if not report.ended:
            running = self._running(report, order)
            return newest_returned(running.returned(), running.status or status)
        folder = self._home.run(report.id)
        if folder.returned_complete.exists():
            found = tuple(aggregated_logs.returned_files(folder))
        else:
            found = tuple(self._returned(report, status.instances))
        return newest_returned(sorted(found, key=order), status)

    def _returned(
        self, report: YarnReport, instances: Sequence[InstanceStatus]
    ) -> Iterator[LogFile]:
        folder = self._home.run(report.id)
        try:
            yield from self._gathered(
                report, instances, aggregated_logs.returned_files, RETURNED_LIMIT
            )
        except UnavailableError as error:
            for instance in instances:
                yield LogFile(instance.instance, folder.logs / RETURNED_FILE, error.message)

    def _running(self, report: YarnReport, order: Callable[[LogFile], tuple[Any, ...]]) -> LiveLogs:
        if report.id not in self._live:
            self._live[report.id] = self._open(report, order)
        return self._live[report.id]

    def growing(self, application: str) -> tuple[LogFile, ...] | None:
        """The logs of a run that are being copied, without a call to the cluster; None for any
        other run."""
        live = self._live.get(application)
        found = None if live is None else live.files()
        return found if application in self._live else None  # it may have ended unseen

    def copy_at_end(self, application: str) -> None:
        """If logs are being copied, copies new data before YARN moves the logs. Records of return
        values are copied as well, so that they need not wait for the aggregation."""
        live = self._live.get(application)
        if live is not None and live.copy_at_end():
            path = self._home.run(application).returned_complete
            with writing(path):
                make_private(path.parent)
                path.touch(0o600)

    def close(self, application: str) -> None:
        live = self._live.pop(application, None)
        if live is not None:
            live.close()

    def end(self) -> None:
        """Logs are copied no more."""
        for application in tuple(self._live):
            self.close(application)

    def _gathered(
        self,
        report: YarnReport,
        instances: Sequence[InstanceStatus],
        files: Callable[[YarnRunFolder], Iterator[LogFile]],
        limit: float | None = None,
    ) -> Iterator[LogFile]:
        """The files of an ended run that `files` finds among its copies. `limit`: seconds to wait
        for the aggregation, unless a node is lost."""
        folder = self._home.run(report.id)
        hosts = {i.instance: i.host for i in instances if i.host}
        lost = frozenset() if folder.logs_complete.exists() else self._lost(hosts.values())
        patience = LOST_LIMIT if lost else (limit or aggregated_logs.GATHER_LIMIT)
        try:
            gathered = aggregated_logs.fetch(
                folder, report.id, report.tracking_url, self._environ, self._web, patience
            )
        except UnavailableError:
            if not folder.logs.exists() and not lost:
                raise
            gathered = Gathered(state=UNKNOWN)
        found = tuple(files(folder))
        for log in found:
            host = hosts.get(log.instance, "")
            # A record of what was returned is written in one piece.
            whole = (
                not gathered.state
                or log.path.parent.name in gathered.containers
                or log.path.name == RETURNED_FILE
            )
            yield (
                log
                if whole
                else dataclasses.replace(
                    log, missing=_missing(report.id, host, lost, gathered.state)
                )
            )
        for instance in hosts.keys() - {log.instance for log in found}:
            why = _missing(report.id, hosts[instance], lost, gathered.state)
            if why:
                yield LogFile(instance, folder.logs / f"{instance.replace('/', '-')}.log", why)

    def _lost(self, hosts: Iterable[str]) -> frozenset[str]:
        """The hosts among `hosts` that YARN reports as lost."""
        try:
            return self._cluster.lost_hosts().intersection(hosts)
        except UnavailableError:
            return frozenset()

    def _open(self, known: YarnReport, order: Callable[[LogFile], tuple[Any, ...]]) -> LiveLogs:
        application = known.id

        def connect() -> Connection:
            try:
                report = self._cluster.application(application)
            except UnavailableError:  # its master may answer all the same
                report = known
            if report.ended:  # and nobody has followed it to its end
                self.close(application)
            return self._connect(report)

        def facts() -> dict[str, Any]:
            report = self._cluster.application(application)
            return self._web.application(report.tracking_url, application)

        folder = self._home.run(application).logs
        return LiveLogs(folder, connect, facts, order, self._web)


def _missing(application: str, host: str, lost: Container[str], state: str) -> str:
    """Why the log of an instance on `host` is not in the aggregation, and where it is; "" if it
    should be there. `state`: the state of the aggregation."""
    where = f"it is in {application}/ below yarn.nodemanager.log-dirs there"
    if host in lost:
        return f"its node {host} is lost, and YARN has not gathered it; {where}"
    if state and host:
        return f"YARN has not gathered it from {host} (log aggregation: {state}); {where}"
    return ""
