"""Masters before this one, in other pods: what they may still do, and the end of their pods."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from tfapp.contract.job import Limits
from tfapp.engines.kubernetes.pod import endings, names
from tfapp.engines.kubernetes.pod.api import Api
from tfapp.engines.kubernetes.pod.failures import AwayError
from tfapp.engines.kubernetes.pod.launcher import release
from tfapp.engines.kubernetes.pod.outside import Outside
from tfapp.engines.kubernetes.pod.pod_record import PATIENCE
from tfapp.engines.kubernetes.pod.shipped import PodFolders
from tfapp.errors import TfappError
from tfapp.master.launcher import SupersededError
from tfapp.threads import in_thread

ASK_EVERY = 0.3
BURY_MARGIN = 10.0  # seconds for pods of earlier masters to be gone
MASTER_FIRST = 10.0  # seconds for an earlier master to be gone, before its pods are ended

log = logging.getLogger(__name__)


async def testify(outside: Outside, *told: str) -> bool:
    """See Outside.testify. Returns False if it may not. UnavailableError, SupersededError."""
    try:
        await in_thread(outside.testify, *told)
    except (AwayError, SupersededError):
        raise
    except TfappError as error:
        log.error("programs have no witness when this pod is lost: %s", error)
        return False
    return True


def alone() -> None:
    """As Outside.check, where no master can know of another one."""


async def bury(
    api: Api, place: PodFolders, limits: Limits, more: float, check: Callable[[], None]
) -> None:
    """Ends the pods of earlier masters of this run, and waits for their end; not longer than
    runners which cannot reach their master let a program run. A master that still ends has the
    first moments for itself: it ends its pods, and gives their programs time to save. `more`:
    seconds that runners may live by a witness that could not be changed. `check`: see
    Outside.check."""
    labels = names.run_labels(place.name, place.run)
    fence = limits.heartbeat_lost + 2 * limits.heartbeat if limits.heartbeat_lost else math.inf
    begun = time.monotonic()
    until = begun + max(fence, limits.stop_grace, more) + BURY_MARGIN
    told: set[str] = set()
    while True:
        pods = await in_thread(api.list, "Pod", labels, "", PATIENCE)
        ends = [(pod, endings.ended(pod)) for pod in pods if pod["metadata"]["name"] != place.pod]
        living = [pod["metadata"] for pod, ended in ends if ended is None]
        for pod, ended in ends:
            if ended is not None and ended.reason == "node-lost":
                await in_thread(release, api, pod)
        now = time.monotonic()
        if not living or now > until:
            return
        masters = [each for each in living if _is_master(each)]
        for each in masters if now < begun + MASTER_FIRST and masters else living:
            name = each["name"]
            if name in told:
                continue
            try:
                await in_thread(check)
            except AwayError:
                continue
            log.info("waits for the end of pod %s, of an earlier master", name)
            told.add(name)
            if "deletionTimestamp" not in each and not _is_master(each):
                with contextlib.suppress(TfappError):
                    await in_thread(api.delete, "Pod", name)
        await asyncio.sleep(ASK_EVERY)


def _is_master(metadata: Mapping[str, Any]) -> bool:
    return metadata["labels"].get(names.COMPONENT) == names.MASTER_COMPONENT
