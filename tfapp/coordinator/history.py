"""Keeps a run in the history that site.global.history.dir names: its report, its status and the
last lines of its programs, which are there when its containers are gone."""

from __future__ import annotations

from collections.abc import Mapping

from tfapp.contract.encoding import encode
from tfapp.contract.history import (
    LOGS_FILE,
    MAX_LOGS,
    REPORT_FILE,
    STATUS_FILE,
    PastRun,
    past_runs,
    surplus,
)
from tfapp.contract.job import Job
from tfapp.contract.names import FAILED, LOST
from tfapp.contract.status import ApplicationStatus
from tfapp.errors import UnavailableError
from tfapp.frozen import frozen
from tfapp.page.document import About, PageLog, of_application
from tfapp.page.html import page
from tfapp.storage.place import Place

MOST_REMOVED = 20  # old runs that one run removes at its end
LEFT_OUT = f"the logs of all instances are longer than {MAX_LOGS >> 20} MiB"
NOT_TOLD = "its runner has told none: its container was lost, or its program has not run"


@frozen
class Limits:
    """How long runs of a user are kept: so many seconds, and so many bytes; 0: for ever."""

    age: float = 0.0
    size: int = 0


def keep(
    place: Place,
    job: Job,
    status: ApplicationStatus,
    logs: Mapping[str, str],
    id: str,
    limits: Limits,
) -> None:
    """Writes the run `id`, whose `status` has its verdict, then removes the user's own runs that
    are beyond `limits`. `logs`: instance -> last lines. UnavailableError, which says whether the
    run is there."""
    shown = _within(status, logs)
    about = About(job.name, id=id, live=False, tags=job.tags)
    files = {
        # The status comes last: with it the run is whole.
        LOGS_FILE: encode({log.instance: log.text for log in shown if not log.missing}),
        REPORT_FILE: page(of_application(about, status, (), shown, fixed=True)).encode(),
        STATUS_FILE: encode(status),
    }
    size = sum(map(len, files.values()))
    times = int(status.updated), int(status.started)
    run = PastRun(*times, status.state, job.user, job.name, id, size, job.tags)
    try:
        for name, content in files.items():
            place.write(run.folder, name, content)
    except UnavailableError as error:
        raise UnavailableError(f"the run is not in it: {error.message}") from error
    try:
        _remove_old(place, run, status.updated, limits)
    except UnavailableError as error:
        raise UnavailableError(f"older runs stay in it: {error.message}") from error


def _remove_old(place: Place, newest: PastRun, now: float, limits: Limits) -> None:
    if limits.age or limits.size:
        own = [one for one in past_runs(place.names()) if one.user == newest.user]
        old = surplus(own, now, limits.age, limits.size)
        for one in old[-MOST_REMOVED:]:
            if one.folder != newest.folder:
                place.remove(one.folder)


def _within(status: ApplicationStatus, logs: Mapping[str, str]) -> list[PageLog]:
    """The logs of all instances as far as MAX_LOGS allows, those that failed first."""
    room, shown = MAX_LOGS, []
    for instance in sorted(status.instances, key=lambda i: i.state not in (FAILED, LOST)):
        text = logs.get(instance.instance)
        if text is None:
            shown.append(PageLog(instance.instance, "", NOT_TOLD))
            continue
        room -= len(text.encode())
        fits = room >= 0
        shown.append(PageLog(instance.instance, text if fits else "", "" if fits else LEFT_OUT))
    return shown
