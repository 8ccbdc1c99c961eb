"""The history of runs that site.global.history.dir names, for reading: its list, its runs, and
their pages."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tfapp.close_match import did_you_mean
from tfapp.contract.history import LOGS_FILE, MAX_FILE, STATUS_FILE, PastRun, past_runs
from tfapp.contract.metrics import Measure
from tfapp.contract.names import FAILED, LOST
from tfapp.contract.status import ApplicationStatus
from tfapp.errors import NotFoundError, UnavailableError, UsageError
from tfapp.page import document
from tfapp.page.document import About, PageLog
from tfapp.storage.place import Place, place_at

VARIABLE = "TFAPP_HISTORY"
NONE = "none is kept"


class History:
    """The methods raise UnavailableError where it does not answer."""

    def __init__(self, place: Place, where: str):
        self.place, self.where = place, where

    @classmethod
    def at(cls, where: str | None, environ: Mapping[str, str], cwd: Path) -> History:
        """At a path, a URL or, for None, what VARIABLE names. UsageError where it names none."""
        where = where or environ.get(VARIABLE)
        if not where:
            raise UsageError(
                "which history is not known",
                f"Name it with --dir or the variable {VARIABLE}: what site.global.history.dir has.",
            )
        return cls(place_at(where if "://" in where else str(cwd / where), environ), where)

    def runs(self) -> list[PastRun]:
        """All runs, the newest first."""
        return past_runs(self.place.names())

    def named(self, names: Iterable[str]) -> list[PastRun]:
        """The runs with these ids; of an application's name, its newest run. NotFoundError."""
        found: dict[str, PastRun] = {}
        for run in self.runs():
            for name in (run.id, run.name):
                found.setdefault(name, run)
        chosen = []
        for name in names:
            if name not in found:
                hint = did_you_mean(name, [*found], "`tfapp history` lists them.")
                raise NotFoundError(f"{self.where} has no run {name!r}", hint)
            chosen.append(found[name])
        return chosen

    def status(self, run: PastRun) -> ApplicationStatus:
        """NotFoundError for a run that is not whole, or is gone by now."""
        try:
            return ApplicationStatus.from_dict(self._json(run, STATUS_FILE))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise UnavailableError(f"{run.folder}/{STATUS_FILE} is damaged: {error}") from error

    def document(self, run: PastRun, ways: Iterable[tuple[str, str]] = ()) -> dict[str, Any]:
        """The document of its page."""
        status = self.status(run)
        try:
            found = dict(self._json(run, LOGS_FILE))
        except (ValueError, TypeError, RecursionError) as error:
            raise UnavailableError(f"{run.folder}/{LOGS_FILE} is damaged: {error}") from error
        # Those that failed first, as in the report.
        order = sorted(status.instances, key=lambda i: i.state not in (FAILED, LOST))
        logs = [
            PageLog(i.instance, str(found.get(i.instance, "")), "" if i.instance in found else NONE)
            for i in order
        ]
        about = dataclasses.replace(about_past(run), ways=tuple(ways))
        return document.of_application(about, status, (), logs, fixed=True)

    def _json(self, run: PastRun, file: str) -> Any:
        content = self.place.read(run.folder, file, MAX_FILE)
        if content is None:
            raise NotFoundError(f"{self.where} has no {run.folder}/{file}: it is not whole")
        return json.loads(content)


def first_metrics(status: ApplicationStatus) -> dict[str, Measure]:
    """What each component's first instance has reported last: "worker/0 loss" -> value, its step
    and the seconds for which it ran among them."""
    found: dict[str, Measure] = {}
    seen: set[str] = set()
    for instance in status.instances:
        if instance.component in seen:
            continue
        seen.add(instance.component)
        own = {"step": instance.step, "seconds": instance.seconds, **instance.metrics}
        for metric, value in own.items():
            if value is not None:
                found[f"{instance.instance} {metric}"] = value
    return found


def about_past(run: PastRun) -> About:
    return About(run.name, id=run.id, live=False, tags=run.tags)
