"""What outlives the pod of a master, so that another pod of its Job goes on with the same programs:
a copy of the journal, and the witness, two ConfigMaps of the application. Both name the epoch of
the master that may write them; each master of a run in another pod has a higher one.

What holds, whatever is lost, and whenever:

1. A master claims both in its epoch before it acts. Each write names the version that it replaces.
   So from a claim on a lower epoch writes nothing: a master that hung and comes back learns of the
   next one by its first write, and leaves without touching a pod or the record.
2. Nothing is done that the copy does not tell: a decision of the coordinator, the launch of a pod,
   the begin of a script, the report of an exit wait until they are in it. Only heartbeats and the
   status, which are told again, may be older. So the next master goes on from all that was done.
3. While the API server is away for longer than AWAY_LIMIT, or refuses the copy, nobody waits for it
   any more. First all runners are told (KEY_KEPT): from then on none of them lives longer than
   without a witness, and none follows it to another master. So where the copy is old, those who
   have seen what it lacks have ended.
   A master that has not written for a while, or whose copy is not complete, reads whose the copy
   is before it makes a pod or ends one: see `check`.
4. A runner that cannot reach its master asks the witness. It names the containers that may live, by
   what their ids begin with, and the addresses of their master, which renews it each RENEW seconds.
   An answer counts as a heartbeat if it names the runner and the master that it has lost, and
   nobody has renewed it for longer than that: a runner that is cut off from a master that lives
   gets no such answer. A master that begins the next generation names other containers, and one
   that goes on with the same names its address, before it counts the silence of runners: from then
   on no answer counts any more.
5. A master that lives may fail to renew the witness, while it can do all else. What it cannot hear
   may then live by the witness. So it makes no pod in the place of one whose end its node has not
   told, until the witness has been renewed for as long as an answer counts: see `lives_until`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import itertools
import logging
import math
import os
import time
import zlib
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from tfapp.contract.job import Limits
from tfapp.contract.names import BEAT_PREFIX, KEY_STATUS
from tfapp.engines.kubernetes.pod import names
from tfapp.engines.kubernetes.pod.api import Api, pauses
from tfapp.engines.kubernetes.pod.failures import AwayError, ConflictError
from tfapp.errors import TfappError
from tfapp.master.journal import Table, replay, whole
from tfapp.master.launcher import SupersededError
from tfapp.threads import in_thread

KIND = "ConfigMap"
EPOCH, RUN, JOURNAL = "epoch", "run", "journal"  # keys
CONTAINERS, ADDRESS, FILES, RENEWED = "containers", "address", "files", "renewed"  # of the witness
LAZY = 30.0  # seconds after which what is told again is written
AWAY_LIMIT = 3.0  # seconds without the API server; less than a call to the master takes
MAX_SIZE = 900_000  # bytes; a ConfigMap has room for 1 MiB
RENEW = 5.0  # seconds; see tfapp.runner.witness.PROOF
GAP = 7.0  # seconds between two renewals in which no runner takes the master for lost
CLAIM_LIMIT = 600.0  # seconds for an API server that is away

log = logging.getLogger(__name__)


class Outside:
    """The two objects of a run, for one master. See tfapp.master.journal.Copy. Make and use it in
    the event loop. `epoch`: 0 before it has claimed the copy. `owner`: of the objects, a reference.
    `superseded` is called when a master of a higher epoch has claimed them, `told` with whether the
    copy is complete, when that changes."""

    def __init__(self, api: Api, name: str, run: int, owner: Mapping[str, Any], epoch: int = 0):
        self._api = api
        self._name = name
        self._journal, self._witness = names.journal_object(name), names.witness_object(name)
        self._run = run
        self.epoch = epoch
        self._owner = owner
        self._versions: dict[str, str] = {}  # those that are known, by the object's name
        self._table: Table = {}
        self._next: asyncio.Future[None] | None = None  # done with the write after the present one
        self._changed = asyncio.Event()
        self._urgent = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._written = time.monotonic()  # when it was last known to be the newest epoch
        self._renewed = -math.inf  # when the last write of the witness began
        self._spoken = -math.inf  # when the last gap between two of them was over
        self.is_complete = True
        self.is_superseded = False
        self.superseded: Callable[[], None] = lambda: None
        self.told: Callable[[bool], None] = lambda complete: None

    # -- at the begin, in a thread --
    def claim(self, least: int) -> bytes:
        """Claims the copy, in an epoch that is higher than that of each master before, and `least`
        at least. Returns the journal in it, b"" if there is none of this run. SupersededError;
        TfappError if it cannot be claimed."""
        while True:
            item = self._made(self._journal)
            run, epoch = _whose(item)
            self.epoch = max(least, epoch + 1) if run == self._run else least
            same = run == self._run
            with contextlib.suppress(ConflictError):
                self._put(item, {}, None if same else {JOURNAL: None}, CLAIM_LIMIT)
                journal = (item.get("binaryData") or {}).get(JOURNAL, "")
                return _unpacked(journal) if same else b""

    def testify(self, containers: str, address: str = "", files: str = "") -> None:
        """Lets the witness name the containers that may live, and the addresses of their master,
        "" before it serves. SupersededError; TfappError."""
        values = {CONTAINERS: containers, ADDRESS: address, FILES: files}
        while True:
            with contextlib.suppress(ConflictError):
                return self._put(self._made(self._witness), values, patience=CLAIM_LIMIT)

    def _made(self, name: str) -> dict[str, Any]:
        """The object, which is made if there is none."""
        metadata = {
            "name": name,
            "labels": names.application_labels(self._name),
            "ownerReferences": [dict(self._owner)],
        }
        found = self._api.get(KIND, name, CLAIM_LIMIT)
        if found is None:
            body = {"apiVersion": "v1", "kind": KIND, "metadata": metadata}
            found = self._api.make(body, CLAIM_LIMIT)
        return found

    def _put(
        self,
        item: Mapping[str, Any],
        values: Mapping[str, str],
        binary: Mapping[str, str | None] | None = None,
        patience: float | None = None,
    ) -> None:
        """Writes this epoch and `values` in the place of `item`. ConflictError, SupersededError."""
        name, version = item["metadata"]["name"], item["metadata"]["resourceVersion"]
        if _whose(item) > (self._run, self.epoch):
            raise SupersededError("another master has the run")
        data = {EPOCH: str(self.epoch), RUN: str(self._run), **values}
        body: dict[str, Any] = {"metadata": {"resourceVersion": version}, "data": data}
        if binary is not None:
            body["binaryData"] = binary
        self._versions.pop(name, None)  # until the answer is there
        begun = time.monotonic()
        written = self._api.patch(KIND, name, body, patience)
        if name == self._journal:  # who has claimed that has not claimed the witness yet
            self._written = begun
        elif name == self._witness:
            ended = time.monotonic()
            if ended > self._renewed + GAP:
                self._spoken = ended
            self._renewed = begun
        self._versions[name] = written["metadata"]["resourceVersion"]

    def _put_again(
        self, name: str, values: Mapping[str, str], binary: Mapping[str, str | None] | None = None
    ) -> None:
        """Writes an object that this epoch has claimed. SupersededError."""
        while True:
            version = self._versions.get(name)
            item: Mapping[str, Any] = {"metadata": {"name": name, "resourceVersion": version}}
            if version is None:
                item = self._api.require(KIND, name)
            try:
                return self._put(item, values, binary)
            except ConflictError:
                continue

    # -- as a copy --
    def changed(self, table: Table, changes: Table) -> asyncio.Future[None] | None:
        """See Copy.changed. SupersededError in what it returns."""
        self._table = table
        self._changed.set()
        if all(map(_is_told_again, changes)):
            return None
        self._urgent.set()
        if self._next is None or self._next.done():
            self._next = asyncio.get_running_loop().create_future()
        if self.is_superseded:
            _fail(self._next)
            return self._next
        if not self.is_complete:
            self._next.set_result(None)
            return None
        return self._next

    async def keep(self) -> None:
        """Writes the copy, until another master has claimed it: whoever waits then fails."""
        since, waits = 0.0, pauses()
        while True:
            await self._changed.wait()
            await _at_most(self._urgent.wait(), LAZY)
            self._changed.clear()
            self._urgent.clear()
            waiting, self._next = self._next, None
            journal, begun = whole(self._table), time.monotonic()
            try:
                await in_thread(self._write, journal)
            except SupersededError as error:
                self._leave(error)
                _fail(waiting)
                break
            except Exception as error:
                self._changed.set()
                self._urgent.set()
                since = since or begun
                is_away = isinstance(error, AwayError)
                if self.is_complete and is_away and time.monotonic() < since + AWAY_LIMIT:
                    self._next = self._merged(waiting)
                else:
                    self._complete(False, f"{error}")
                    _release(waiting)
                await asyncio.sleep(next(waits))
                continue
            since, waits = 0.0, pauses()
            self._complete(True)
            _release(waiting)
        _fail(self._next)

    def check(self) -> None:
        """Before something is done that another master must not see done any more. In a thread.
        SupersededError if there is one; AwayError."""
        begun = time.monotonic()
        if self.is_complete and begun < self._written + 2 * RENEW:
            return  # else it hung, or nobody waits for its writes
        try:
            found = self._api.require(KIND, self._journal)
        except AwayError:
            raise
        except TfappError:  # who may not read it cannot claim it either
            return
        if _whose(found) > (self._run, self.epoch):
            error = SupersededError("another master has the run")
            self._loop.call_soon_threadsafe(self._leave, error)
            raise error
        self._written = begun

    def lives_until(self, limits: Limits, since: float) -> float:
        """Until when, in the monotonic clock, a runner that was not heard after `since` may let its
        program live by the witness, which may have told it that the master is lost: now, or in the
        last gap between two renewals."""
        now = time.monotonic()
        told = self._spoken if now <= self._renewed + GAP else now
        return min(told, since + limits.master) + limits.heartbeat_lost

    async def renew(self) -> None:
        """Renews the witness, until another master has claimed it."""
        for number in itertools.count():
            try:
                values = {RENEWED: f"{os.getpid()} {number}"}
                await in_thread(self._put_again, self._witness, values)
            except SupersededError as error:
                self._leave(error)
                return
            except Exception as error:  # a runner then waits for this master
                log.info("the witness is not renewed: %s", error)
            await asyncio.sleep(RENEW)

    def _leave(self, error: SupersededError) -> None:
        log.error("%s", error)
        self.is_superseded = True
        self._changed.set()
        self._urgent.set()
        self.superseded()

    def _merged(self, waiting: asyncio.Future[None] | None) -> asyncio.Future[None] | None:
        """What is done with the next write, also for those who wait for one that has failed."""
        later = self._next
        if waiting is None or later is None:
            return waiting or later
        waiting.add_done_callback(lambda _: _fail(later) if self.is_superseded else _release(later))
        return waiting

    def _complete(self, complete: bool, why: str = "") -> None:
        if complete == self.is_complete:
            return
        if not complete:
            log.error("another master would begin anew, what this one knows is here alone: %s", why)
        self.is_complete = complete
        self.told(complete)

    def _write(self, journal: bytes) -> None:
        """In a thread. SupersededError; TfappError if it is not known to be written."""
        packed = base64.b64encode(zlib.compress(journal, 1)).decode()
        if len(packed) > MAX_SIZE:
            raise TooLargeError(f"it has {len(packed)} bytes")
        self._put_again(self._journal, {}, {JOURNAL: packed})

    def forget(self) -> None:
        """The run has ended: nobody goes on with it. In a thread."""
        with contextlib.suppress(TfappError):
            self._put_again(self._journal, {}, {JOURNAL: None})


class TooLargeError(TfappError):
    """A journal for which a ConfigMap has no room."""


def table_of(journal: bytes) -> Table:
    """ValueError if it is none."""
    if not journal:
        raise ValueError("there is no copy of it")
    return replay(journal)


def _whose(item: Mapping[str, Any]) -> tuple[int, int]:
    """The run and the epoch that an object names; zeros if it is new, or damaged."""
    data = item.get("data") or {}
    try:
        return int(data[RUN]), int(data[EPOCH])
    except (KeyError, ValueError):
        return 0, 0


def _unpacked(text: str) -> bytes:
    """b"" if it is damaged."""
    try:
        return zlib.decompress(base64.b64decode(text)) if text else b""
    except (zlib.error, binascii.Error):
        return b""


def _is_told_again(key: tuple[str, str]) -> bool:
    kind, name = key
    return kind == "store" and (name == KEY_STATUS or name.startswith(BEAT_PREFIX))


async def _at_most(waiting: Coroutine[Any, Any, Any], limit: float) -> None:
    """Until it has come, or for `limit` seconds. Other than asyncio.wait_for before Python 3.12 it
    loses no cancellation that comes with it."""
    coming = asyncio.ensure_future(waiting)
    try:
        await asyncio.wait({coming}, timeout=limit)
    finally:
        coming.cancel()


def _fail(waiting: asyncio.Future[None] | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_exception(SupersededError("another master has the run"))
        waiting.exception()  # whoever waits for it is told


def _release(waiting: asyncio.Future[None] | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)
