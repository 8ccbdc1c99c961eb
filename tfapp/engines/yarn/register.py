"""The applications on a cluster: from YARN's reports, and from files on this machine and on the
cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from tfapp.compiler.store import CACHE, nobody_stores
from tfapp.contract.names import ACCEPTED
from tfapp.contract.status import ApplicationStatus
from tfapp.disk import delete_tree, make_private, write_atomically, write_json, writing
from tfapp.engines import refusals
from tfapp.engines.definition import TAG, Definition, definition_file
from tfapp.engines.tidying import delete_shipped, file_names
from tfapp.engines.yarn.bundle import Bundle, decode
from tfapp.engines.yarn.cluster import FORGOTTEN, YarnCluster, YarnReport, age, forgotten
from tfapp.engines.yarn.layout import YarnCredentials, YarnHome, YarnRunFolder
from tfapp.engines.yarn.shared_folder import FolderListing, SharedFolder
from tfapp.errors import UnavailableError

LOOK_EVERY = 60.0  # seconds between two looks for what was destroyed from another home
KEPT = 7 * 24 * 3600.0  # seconds that a file stays on the cluster of which nothing is made
RECENT = 24 * 3600.0  # the same, when there is no room
ROOM = 20 << 30  # bytes of all files there
SWEEP_EVERY = 24 * 3600.0  # seconds between two looks for such files, where nothing is destroyed


class YarnRegister:
    """The applications of `user` with tfapp's tag. The runs of an application have its name; the
    number of a run is its position among them. `clock`: seconds since 1970."""

    def __init__(
        self,
        home: YarnHome,
        cluster: YarnCluster,
        shared: SharedFolder,
        user: str,
        clock: Callable[[], float],
    ):
        self._home = home
        self._cluster = cluster
        self._shared = shared
        self._user = user
        self._clock = clock

    def newest(self) -> tuple[tuple[YarnReport, int], ...]:
        """The newest run of each application, and its number."""
        runs = _by_name(self._visible(None))
        return tuple((found[-1], len(found)) for found in runs.values())

    def runs(self, name: str, fresh: bool = False) -> tuple[YarnReport, ...]:
        """The runs of `name`, oldest first; none if there is no such application. Unless `fresh`,
        it may contain for a minute runs that were destroyed on other machines."""
        return self._visible(name, fresh)

    def known_runs(self, name: str) -> tuple[YarnReport, ...]:
        """As `runs`. UnknownApplicationError if there are none."""
        runs = self.runs(name)
        if not runs:
            known = {report.name for report in self._visible(None)}
            where = f" of {self._user} on the cluster"
            raise refusals.unknown(name, known, where, " --engine yarn")
        return runs

    def _visible(self, name: str | None, fresh: bool = False) -> tuple[YarnReport, ...]:
        """Removes destroyed runs. Only ended runs can have been destroyed, so a running application
        needs no listing."""
        found = self._kept(self._with_forgotten(self._cluster.applications(self._user, name), name))
        newest = (runs[-1] for runs in _by_name(found).values())
        if not any(report.ended and definition_file(report.tags) for report in newest):
            return found
        if not fresh and self._clock() - self._shared.looked() <= LOOK_EVERY:
            return found
        listing = self._shared.look()
        destroyed = listing.destroyed if listing else frozenset()
        with contextlib.suppress(UnavailableError):  # then they are looked for again
            self._forget([report for report in found if report.id in destroyed])
        if listing and self._clock() - self._shared.swept() > SWEEP_EVERY:
            self._try_to_sweep(listing, set(), 0.0)
        return tuple(report for report in found if report.id not in destroyed)

    def _with_forgotten(self, known: Sequence[YarnReport], name: str | None) -> list[YarnReport]:
        """`known`, and the recorded runs of `name`, or of all, that YARN does not know any more: a
        ResourceManager that starts without recovery knows none."""
        found = {report.id: report for report in known}
        for id, (called, made) in self._recorded(name).items():
            definition = None if id in found else self._kept_definition(id)
            if definition is not None:
                found[id] = forgotten(id, called, self._user, definition.tags, made)
        return sorted(found.values(), key=lambda report: age(report.id))

    def _recorded(self, name: str | None) -> dict[str, tuple[str, float]]:
        """The runs of `name`, or of all, on this cluster that have a record here: name and time."""
        found = {}
        for record in self._home.path.glob("applications/*/cluster"):
            with contextlib.suppress(OSError, ValueError):  # destroyed meanwhile, or damaged
                cluster, _, called = record.read_text().partition("\n")
                if cluster == self._shared.cluster and name in (None, called):
                    found[record.parent.name] = called, record.stat().st_mtime
        return found

    def _kept(self, reports: Iterable[YarnReport]) -> tuple[YarnReport, ...]:
        """The reports on tfapp's applications that were not destroyed from here."""
        return tuple(
            report
            for report in reports
            if TAG in report.tags and not self._home.run(report.id).destroyed.exists()
        )

    # -- what is kept here --
    def write(self, application: str, definition: Definition, credentials: YarnCredentials) -> None:
        """Stores the submitted definition. UnavailableError if that fails."""
        folder = self._home.run(application)
        with writing(folder.path):
            make_private(folder.path)
            folder.write_credentials(credentials)
            self._write(folder, definition)

    def _write(self, folder: YarnRunFolder, definition: Definition) -> None:
        write_json(folder.definition, definition)
        write_atomically(folder.cluster, f"{self._shared.cluster}\n{definition.name}".encode())

    def note(self, report: YarnReport) -> None:
        """Keeps what YARN says of a run, for when it does not answer."""
        folder = self._home.run(report.id)
        if report.state == FORGOTTEN or report.outage or not folder.cluster.exists():
            return
        if refusals.read_if_whole(folder.report, YarnReport.from_dict) != report:
            with contextlib.suppress(OSError):
                write_json(folder.report, report)

    def noted(self, name: str) -> tuple[YarnReport, ...]:
        """What YARN has last said of the runs of `name` that were looked at from here, oldest
        first."""
        paths = (self._home.run(id).report for id in self._recorded(name))
        found = (refusals.read_if_whole(path, YarnReport.from_dict) for path in paths)
        return tuple(sorted(filter(None, found), key=lambda report: age(report.id)))

    def note_end(self, report: YarnReport, status: ApplicationStatus) -> None:
        """Keeps how a run ended, for when YARN does not know it any more."""
        folder = self._home.run(report.id)
        if report.state != FORGOTTEN and folder.cluster.exists() and not folder.ended.exists():
            with contextlib.suppress(OSError):  # a full disk is no reason to show nothing
                write_json(folder.ended, status)

    def end_of(self, report: YarnReport) -> ApplicationStatus | None:
        """How a run ended, if that was seen from here."""
        ended = self._home.run(report.id).ended
        return refusals.read_if_whole(ended, ApplicationStatus.from_dict)

    def note_stop(self, report: YarnReport, message: str) -> None:
        """Keeps why a run is about to be stopped from here: whoever looks next, in whatever
        process, gives that reason, and not YARN's words for a kill."""
        folder = self._home.run(report.id)
        if not report.ended and folder.cluster.exists():
            with contextlib.suppress(OSError):  # a full disk must not prevent the stop
                write_atomically(folder.stopped, message.encode())

    def reason_to_stop(self, report: YarnReport) -> str:
        """What `note_stop` has kept; "" for nothing."""
        with contextlib.suppress(OSError):
            return self._home.run(report.id).stopped.read_text(errors="replace")
        return ""

    def definition(self, runs: Sequence[YarnReport]) -> Definition | None:
        """The definition of the newest run, with its files on this machine; None if it was created
        on another machine and the cluster does not have it. UnavailableError if the file system of
        the cluster does not answer."""
        wanted = definition_file(runs[-1].tags)
        same = (run for run in reversed(runs) if definition_file(run.tags) == wanted)
        here = (self._kept_definition(run.id) for run in same)
        whole = next((one for one in here if one and not one.missing_files()), None)
        if whole is None:
            for found in self._fetch(runs[-1:]).values():
                whole = found.unpack(self._cache)
        return whole

    def accepted(self, report: YarnReport, fetch: bool) -> ApplicationStatus:
        """The status until there is another. The instances of a run that was submitted on another
        machine are unknown, unless its definition is fetched from the cluster (`fetch`), once."""
        definition = self._kept_definition(report.id)
        if definition is None and fetch:
            with contextlib.suppress(UnavailableError):
                definition = self._definitions([report])[report.id]
        if definition is not None:
            return definition.accepted(report.started)
        return ApplicationStatus(report.name, ACCEPTED, 0, report.started, report.started, ())

    def _kept_definition(self, application: str) -> Definition | None:
        """The local definition; None if there is none or it is damaged: the cluster has another
        copy."""
        with contextlib.suppress(refusals.DamagedError):
            return Definition.read(self._home.run(application).definition)
        return None

    def _definitions(self, reports: Sequence[YarnReport]) -> dict[str, Definition | None]:
        """The definitions by the ids of runs, None for one that is not available. Those that were
        submitted elsewhere are stored here. UnavailableError if the file system does not answer."""
        found = {r.id: self._kept_definition(r.id) for r in reports}
        lacking = [report for report in reports if found[report.id] is None]
        bundles = self._fetch(lacking)
        for report in lacking:
            fetched = bundles.get(definition_file(report.tags))
            if fetched is not None:
                found[report.id] = fetched.definition
                folder = self._home.run(report.id)
                with writing(folder.path):
                    make_private(folder.path)
                    self._write(folder, fetched.definition)
        return found

    def _fetch(self, reports: Iterable[YarnReport]) -> Mapping[str, Bundle]:
        """The bundles on the cluster, by the names of their files."""
        names = {definition_file(report.tags) for report in reports} - {""}
        bundles = {found.name: found for found in decode(self._shared.read(names))}
        self._shared.note(bundles)
        return bundles

    def clean_up(self, report: YarnReport) -> None:
        """Deletes the credentials of an ended run and, once, the staging folder of a master that
        was killed."""
        folder = self._home.run(report.id)
        if folder.certificate.exists():
            if report.state == FORGOTTEN:
                self._shared.delete_staging(report.id)
            else:
                self._cluster.kill(report.id)
            folder.delete_credentials()

    # -- the end --
    def destroy(self, runs: Sequence[YarnReport]) -> None:
        """Deletes an application with the given runs for all machines: here and on the cluster.
        Others hide it. YARN keeps its own reports and logs as configured. UnavailableError if the
        cluster cannot record it. If the cluster has no shared folder, only this machine hides it.
        """
        definitions = {definition_file(report.tags) for report in runs} - {""}
        listing = self._shared.look() if definitions else None
        if definitions:
            self._shared.mark(report.id for report in runs)
        self._forget(runs)
        if definitions:
            self._try_to_sweep(listing or FolderListing(), definitions)

    def _forget(self, runs: Sequence[YarnReport]) -> None:
        """Deletes the local files of runs, and hides the runs."""
        known = [self._kept_definition(report.id) for report in runs]
        for report in runs:
            self.clean_up(report)
            folder = self._home.run(report.id)
            delete_tree(folder.path)
            with writing(folder.path):
                make_private(folder.path)
                folder.destroyed.touch(0o600)
        delete_shipped(self._home.path.parent, [one for one in known if one is not None])

    def _try_to_sweep(
        self, listing: FolderListing, definitions: set[str], timeout: float = 10.0
    ) -> None:
        """As `_sweep`; files that cannot be deleted now are deleted the next time."""
        with contextlib.suppress(UnavailableError), nobody_stores(self._cache, timeout) as alone:
            if alone:
                self._sweep(listing, definitions)
                self._shared.note_sweep()

    def _sweep(self, listing: FolderListing, definitions: set[str]) -> None:
        """Deletes on the cluster the `definitions` of a destroyed application, old files that no
        application needs, and marks of runs that YARN has forgotten. Files are kept if the
        requirements of an application are unknown."""
        known = self._cluster.applications(self._user)
        others = [r for r in self._kept(known) if r.id not in listing.destroyed]
        of_others = {definition_file(report.tags) for report in others}
        kept = KEPT if listing.size <= ROOM else RECENT
        old = {n for n, brought in listing.files.items() if self._clock() - brought > kept}
        unused = old - of_others
        for made_of in self._definitions(others).values() if unused else ():
            unused -= unused if made_of is None else file_names(made_of)
        if unused:
            unused -= self._shared.of_other_clusters()
        # The marks of another cluster have other times in their names. YARN begins a new time
        # itself when it is started anew: those of before stay, empty folders.
        times = {_time_of(report.id) for report in known}
        forgotten = {id for id in listing.destroyed if _time_of(id) in times}
        forgotten -= {report.id for report in known}
        self._shared.delete(unused | (definitions - of_others), forgotten)

    @property
    def _cache(self) -> Path:
        return self._home.path.parent / CACHE


def _time_of(application: str) -> str:
    """The start time of the ResourceManager, which is part of an application id."""
    return application.split("_")[1]


def _by_name(reports: Iterable[YarnReport]) -> dict[str, tuple[YarnReport, ...]]:
    runs: dict[str, tuple[YarnReport, ...]] = {}
    for report in reports:
        runs[report.name] = (*runs.get(report.name, ()), report)
    return runs
