"""The end of the master's pod from outside: by a suspension, a drain, or the end of the run."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any

from tfapp.contract.names import FAILED, SUSPENDED
from tfapp.engines.kubernetes.pod import endings, names
from tfapp.engines.kubernetes.pod.api import Api
from tfapp.engines.kubernetes.pod.failures import AwayError
from tfapp.engines.kubernetes.pod.launcher import PodLauncher
from tfapp.engines.kubernetes.pod.shipped import PodFolders
from tfapp.errors import TfappError, UnavailableError
from tfapp.master.server import Master
from tfapp.threads import in_thread

OWN_POD_LIMIT = 5.0  # seconds to learn why this pod ends
ASK_EVERY = 0.3

log = logging.getLogger(__name__)


class LeftError(TfappError):
    """This master ends before it served, and another one goes on: its Job was suspended, or starts
    one."""


class Termination:
    """The termination of this pod from outside, announced by SIGTERM. Create it in the event
    loop. The Job tells what it is: a suspension (the Job's controller ends the pods of a suspended
    Job), the loss of this master, after which the Job starts another one, or the end of the run.
    While that is not known, it is taken for a loss: an ending that is missing is written by whoever
    finds that the Job has ended."""

    def __init__(self, api: Api, place: PodFolders):
        self._api = api
        self._pod = place.pod
        self._job = names.run_object(place.name, place.run)
        self._end: asyncio.Future[tuple[str, str]] = asyncio.get_running_loop().create_future()
        self._asking: asyncio.Task[Any] | None = None
        self._begins: Callable[[], None] = lambda: None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._begin)

    async def unless(self, work: Any) -> Any:
        """The result of `work`. UnavailableError or LeftError if the pod is terminated before."""
        doing = asyncio.ensure_future(work)
        await asyncio.wait({doing, self._end}, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            doing.cancel()
            state, why = self._end.result()
            raise UnavailableError(why) if state == FAILED else LeftError(why)
        return doing.result()

    def tell(self, begins: Callable[[], None], end: Callable[[str, str], None]) -> None:
        """Calls `begins` at once, and `end` with the state of the run, SUSPENDED, FAILED or "" if
        another master goes on, and the reason, when they are known."""
        self._begins = begins
        if self._asking is not None:
            begins()
        self._end.add_done_callback(lambda told: end(*told.result()))

    def _begin(self) -> None:
        if self._asking is None:
            self._asking = asyncio.ensure_future(self._ask())
            self._begins()

    async def _ask(self) -> None:
        why, state = "", None
        until = time.monotonic() + OWN_POD_LIMIT
        while state is None and time.monotonic() < until:
            try:
                pod = await self._get("Pod", self._pod)
                why = endings.own_end(pod or {}) or why
                state = state_after(await self._get("Job", self._job))
            except (AwayError, asyncio.TimeoutError) as error:
                log.error("why this pod ends cannot be learned: %s", error)
            except TfappError as error:  # a service account without the right to get Jobs
                log.error("whether the Job goes on cannot be learned: %s", error)
                state = ""
            if state is None:
                await asyncio.sleep(ASK_EVERY)
        told = f"The application master was ended: {why or 'by SIGTERM'}."
        if state == SUSPENDED:
            told = "the application is suspended"
        self._end.set_result((state or "", told))

    async def _get(self, kind: str, name: str) -> dict[str, Any] | None:
        return await asyncio.wait_for(in_thread(self._api.get, kind, name), OWN_POD_LIMIT)


def ends_with_its_pod(
    terminated: Termination, master: Master, launcher: PodLauncher, grace: float
) -> asyncio.Future[None]:
    """Has the master end as its pod is terminated. Cancel what is returned in the end."""
    ended: asyncio.Future[tuple[str, str]] = asyncio.get_running_loop().create_future()

    def begins() -> None:  # others end with this pod, which are no losses
        launcher.leave()
        master.leaves()

    async def end() -> None:
        state, why = await ended
        if state != FAILED:
            launcher.grace = grace
        if state == SUSPENDED:
            await master.suspend(why, grace)
        else:
            master.end(state, why)

    terminated.tell(begins, lambda *how: ended.set_result(how))
    return asyncio.ensure_future(end())


def state_after(job: Mapping[str, Any] | None) -> str | None:
    """The state of a run after the end of its master's pod, "" if another master goes on; None if
    the Job does not tell yet."""
    if job is None or endings.has_ended(job) or "deletionTimestamp" in job["metadata"]:
        return FAILED
    if endings.is_suspended(job):
        return SUSPENDED
    return "" if endings.failures_left(job) > 0 else None
