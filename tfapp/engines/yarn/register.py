"""What applications there are: YARN knows, and what is kept here completes it."""

from __future__ import annotations

from collections.abc import Iterator

from tfapp.compiler.specification import TAG
from tfapp.contract import ACCEPTED, ApplicationStatus
from tfapp.engines.definition import Definition
from tfapp.engines.disk import delete_tree, make_private, write_json, writing
from tfapp.engines.yarn.cluster import Cluster, Report
from tfapp.engines.yarn.layout import Credentials, Home
from tfapp.errors import NotFoundError, UnknownApplicationError


class Register:
    """The applications of `user` that have tfapp's tag. The runs of one are those of its name,
    and a run's number is its place among them."""

    def __init__(self, home: Home, cluster: Cluster, user: str):
        self._home = home
        self._cluster = cluster
        self._user = user

    def newest(self) -> Iterator[tuple[Report, int]]:
        """Each application's newest run and its number."""
        runs: dict[str, tuple[Report, ...]] = {}
        for report in self._visible(None):
            runs[report.name] = (*runs.get(report.name, ()), report)
        for found in runs.values():
            yield found[-1], len(found)

    def runs(self, name: str) -> tuple[Report, ...]:
        """The runs of `name`, oldest first; none when there is no such application."""
        return tuple(self._visible(name))

    def known_runs(self, name: str) -> tuple[Report, ...]:
        """As `runs`. UnknownApplicationError when there are none."""
        runs = self.runs(name)
        if not runs:
            raise UnknownApplicationError(
                f"there is no application {name} of {self._user} on the cluster",
                "`tfapp list --engine yarn` shows all.",
            )
        return runs

    def run(self, name: str, number: int | None) -> tuple[Report, int]:
        """One run and its number; the newest when `number` is None. NotFoundError when there is
        none of that number."""
        runs = self.known_runs(name)
        if number is None:
            number = len(runs)
        if not 1 <= number <= len(runs):
            raise NotFoundError(f"{name} has no run {number}", f"It has {len(runs)}.")
        return runs[number - 1], number

    def _visible(self, name: str | None) -> Iterator[Report]:
        for report in self._cluster.applications(self._user, name):
            if TAG in report.tags and not self._home.run(report.id).destroyed.exists():
                yield report

    # -- what is kept here --
    def write(self, application: str, definition: Definition, credentials: Credentials) -> None:
        """Keeps what was submitted. UnavailableError when that is impossible."""
        folder = self._home.run(application)
        with writing(folder.path):
            make_private(folder.path)
            folder.write_credentials(credentials)
            write_json(folder.definition, definition)

    def definition(self, report: Report) -> Definition | None:
        """None when the run was submitted from elsewhere."""
        return Definition.read(self._home.run(report.id).definition)

    def accepted(self, report: Report) -> ApplicationStatus:
        """The status until there is another; submitted elsewhere, its instances are unknown."""
        definition = self.definition(report)
        if definition is not None:
            return definition.accepted(report.started)
        return ApplicationStatus(report.name, ACCEPTED, 0, report.started, report.started, ())

    def clean_up(self, report: Report) -> None:
        """What a run that ended has no more use for: once, also what a master that was killed
        has left in the staging folder."""
        folder = self._home.run(report.id)
        if folder.certificate.exists():
            self._cluster.kill(report.id)
            folder.delete_credentials()

    def forget(self, report: Report) -> None:
        """Deletes what is kept of a run, and hides it. YARN itself keeps its report and logs for
        as long as it is configured to."""
        self.clean_up(report)
        folder = self._home.run(report.id)
        delete_tree(folder.path)
        with writing(folder.path):
            make_private(folder.path)
            folder.destroyed.touch(0o600)
