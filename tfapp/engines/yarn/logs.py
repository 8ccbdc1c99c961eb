"""The logs of the applications that one command looks at: of running ones as they grow, of ended
ones as YARN has gathered them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tfapp.engines.base import LogFile
from tfapp.engines.yarn import aggregated_logs
from tfapp.engines.yarn.cluster import Cluster, Report
from tfapp.engines.yarn.layout import Home
from tfapp.engines.yarn.live_logs import LiveLogs
from tfapp.engines.yarn.master import Master
from tfapp.engines.yarn.web import Web
from tfapp.errors import UnavailableError


class Logs:
    """Copies of logs, under `home`."""

    def __init__(self, home: Home, cluster: Cluster, environ: Mapping[str, str], web: Web):
        self._home = home
        self._cluster = cluster
        self._environ = environ
        self._web = web
        self._live: dict[str, LiveLogs] = {}

    def of(self, report: Report, job_order: Sequence[str]) -> tuple[LogFile, ...]:
        """Those of one run, instances first, as in `job_order`. Of an ended run they are whole;
        the first call waits until YARN has gathered them."""
        order = _order(job_order)
        if not report.ended:
            live = self._live.get(report.id)
            if live is None:
                live = self._live[report.id] = self._open(report.id, order)
            return live.files()
        folder = self._home.run(report.id)
        try:
            aggregated_logs.fetch(folder, report.id, report.tracking_url, self._environ, self._web)
        except UnavailableError:
            if not folder.logs.exists():
                raise
        return tuple(sorted(aggregated_logs.log_files(folder), key=order))

    def growing(self, application: str) -> tuple[LogFile, ...] | None:
        """Those of a run whose growing logs have been asked for, without a look at the cluster;
        None for any other."""
        live = self._live.get(application)
        return None if live is None else live.files()

    def copy(self, application: str) -> None:
        """Copies what is new, if they have been asked for."""
        if application in self._live:
            self._live[application].copy()

    def close(self, application: str) -> None:
        """The run has ended: no log grows any more."""
        if application in self._live:
            self._live.pop(application).close()

    def _open(self, application: str, order: Callable[[LogFile], tuple]) -> LiveLogs:
        def master() -> Master:
            report = self._cluster.application(application)
            return Master(report, self._home.run(application), self._environ)

        def facts() -> dict:
            report = self._cluster.application(application)
            return self._web.application(report.tracking_url, application)

        folder = self._home.run(application).logs
        return LiveLogs(folder, lambda: master().connect(), facts, order, self._web)


def _order(job_order: Sequence[str]) -> Callable[[LogFile], tuple]:
    places = {instance: place for place, instance in enumerate(job_order)}

    def order(log: LogFile) -> tuple:
        component, _, index = log.instance.rpartition("/")
        place = places.get(log.instance, len(places))
        return not component, place, component, index.zfill(9), str(log.path)

    return order
