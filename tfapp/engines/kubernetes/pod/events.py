"""Events of the Job of a run, for `kubectl describe` and `kubectl events`: what is in the history
of the application, and its verdict. Nothing depends on them."""

from __future__ import annotations

import datetime
import hashlib
import logging
import time
from collections.abc import Callable
from typing import Any

from tfapp.contract import status as moments
from tfapp.contract.status import ApplicationStatus, Moment
from tfapp.engines.kubernetes.pod.api import Api
from tfapp.engines.kubernetes.pod.failures import AwayError
from tfapp.errors import ExistsError, TfappError

MOST = 20  # Events at once
EVERY = 30.0  # seconds until there is room for one more
MAX_MESSAGE = 1024  # characters, the API's limit
VERDICT_LIMIT = 5.0  # seconds to tell the verdict

# Kind of a moment -> reason of the Event, and whether it is a warning. The verdict has its own.
REASONS = {
    moments.BEGINS: ("Forming", False),
    moments.STARTS: ("Formed", False),
    moments.FAILURE: ("InstanceFailed", True),
    moments.IGNORED: ("FailureIgnored", False),
    moments.RESTARTED: ("Restarted", False),
    moments.REPLACED: ("Replaced", False),
    moments.GIVEN_BACK: ("GivenBack", False),
    moments.RESIZED: ("Resized", False),
    moments.TAKEN_OVER: ("CoordinatorReplaced", True),
    moments.SUSPENDS: ("Suspended", False),
    moments.SAVES: ("Saved", False),
    moments.SESSION: ("Session", False),
    moments.STALLS: ("Stalled", True),
    moments.AFTER_END: ("AfterEnd", True),
}
OF_MASTER = ("MasterReplaced", True)  # a failure that is of no instance

log = logging.getLogger(__name__)


class Events:
    """Tells each moment once, also if an earlier master has told it. At most MOST at once and one
    more every EVERY seconds: what is beyond that is only in the history."""

    def __init__(
        self,
        api: Api,
        job: str,
        uid: str,
        pod: str,
        clock: Callable[[], float] = time.monotonic,
    ):
        """`job`, `uid`: the Job; without a uid nothing is told. `pod`: that of the master."""
        self._api, self._job, self._uid, self._pod, self._clock = api, job, uid, pod, clock
        self._told: frozenset[tuple[float, str]] = frozenset()
        self._room, self._since = float(MOST), clock()

    def tell(self, status: ApplicationStatus) -> None:
        """Tells the new moments of its history. Those that the API server does not take now are
        told with the next status."""
        told = self._told & {(moment.time, moment.text) for moment in status.timeline}
        for moment in status.timeline:
            key = (moment.time, moment.text)
            if key in told or moment.kind not in REASONS:
                continue
            of_master = moment.kind == moments.FAILURE and not moment.instance
            reason, warns = OF_MASTER if of_master else REASONS[moment.kind]
            if self._has_room() and not self._tell(moment, reason, warns, 0.0):
                break
            told |= {key}
        self._told = told

    def verdict(self, status: ApplicationStatus) -> None:
        """Tells how the run has ended, whatever the room."""
        verdict = status.verdict
        if verdict is not None:
            moment = Moment(status.updated, verdict.summary, moments.ENDS)
            reason, warns = verdict.state.capitalize(), verdict.exit_code != 0
            self._tell(moment, reason, warns, VERDICT_LIMIT)

    def _has_room(self) -> bool:
        now = self._clock()
        self._room = min(float(MOST), self._room + (now - self._since) / EVERY)
        self._since = now
        if self._room < 1:
            return False
        self._room -= 1
        return True

    def _tell(self, moment: Moment, reason: str, warns: bool, patience: float) -> bool:
        """False if it may be told later."""
        if not self._uid:
            return True
        try:
            self._api.create(self._event(moment, reason, warns), again=True, patience=patience)
        except ExistsError:  # by an earlier master, or an attempt whose answer was lost
            pass
        except AwayError:
            return False
        except TfappError as error:
            log.error("no Events are made: %s", error)
            self._uid = ""
        return True

    def _event(self, moment: Moment, reason: str, warns: bool) -> dict[str, Any]:
        digest = hashlib.sha256(f"{moment.time} {moment.text}".encode()).hexdigest()[:16]
        at = datetime.datetime.fromtimestamp(moment.time, datetime.timezone.utc)
        stamp = at.strftime("%Y-%m-%dT%H:%M:%SZ")
        about = f"{moment.instance}: " if moment.instance not in ("", *moment.text.split()) else ""
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{self._job}.{digest}", "namespace": self._api.namespace},
            "involvedObject": {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": self._job,
                "namespace": self._api.namespace,
                "uid": self._uid,
            },
            "type": "Warning" if warns else "Normal",
            "reason": reason,
            "message": f"{about}{moment.text}"[:MAX_MESSAGE],
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
            "source": {"component": "tfapp"},
            "reportingComponent": "tfapp/master",
            "reportingInstance": self._pod,
        }
