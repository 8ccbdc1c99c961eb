"""What goes wrong in the background of a master ends what depends on it, and no more."""

import asyncio
import time
from typing import Any

from tests.waiting import until
from tfapp.contract.names import KEY_STATUS
from tfapp.contract.status import ApplicationStatus
from tfapp.engines.credentials import new_credentials
from tfapp.errors import UnavailableError
from tfapp.master import server as servers
from tfapp.master.launcher import Ended
from tfapp.master.lifecycle import FAILED, SUCCEEDED
from tfapp.master.server import Endpoint, Master, ServedApplication
from tfapp.master.store import StorePut
from tfapp.protocol.definition import messages

LIMIT = 60.0
ENDPOINT = Endpoint("127.0.0.1", "127.0.0.1", *new_credentials(time.time()))
ACCEPTED = ApplicationStatus("a", "ACCEPTED", 1, 0.0, 0.0, ())


class Launcher:
    """Whose containers, but for the third, end by errors that nobody has foreseen."""

    def __init__(self):
        self.errors: list[Exception] = [RuntimeError("can't start new thread"), KeyError("x")]
        self.ended = asyncio.Event()

    async def run(self, task: Any, told: Any) -> Ended:
        if self.errors:
            raise self.errors.pop(0)
        await self.ended.wait()
        return Ended(0)

    async def kill(self, id: str) -> None:
        raise ValueError("nothing to kill")

    async def close(self) -> None:
        self.ended.set()


class Record:
    """Which cannot write the first status."""

    def __init__(self):
        self.errors: list[Exception] = [RuntimeError("x"), UnavailableError("full")]
        self.published_last = b""
        self.last: Any = None

    def serving(self, address: str) -> None:
        pass

    def published(self, status: bytes) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.published_last = status

    def ended(self, ending: Any) -> None:
        self.last = ending


def test_no_error_in_the_background_ends_the_application(monkeypatch, caplog):
    monkeypatch.setattr(servers, "RECORD_INTERVAL", 0.0)

    async def run() -> None:
        launcher, record = Launcher(), Record()
        resources = messages.Resources(memory=1, vcores=1)
        service = messages.Service(
            instances=3, resources=resources, script="x", allow_failures=True
        )
        spec = messages.ApplicationSpec(services={"box": service})
        application = ServedApplication(
            "application_1_0001", "me", spec.SerializeToString(), ACCEPTED
        )
        master = Master(application, ENDPOINT, launcher, record, time.time)  # type: ignore
        ready = asyncio.Event()
        serving = asyncio.ensure_future(master.serve(lambda address: ready.set()))
        await asyncio.wait_for(ready.wait(), LIMIT)
        containers = master._lifecycle._services["box"].containers
        await until(lambda: [c.state for c in containers].count(FAILED) == 2)
        master.kill(containers[2])
        for left in (1, 0, 0):
            master._store.apply(StorePut(KEY_STATUS, b'{"left":%d}' % left, None))
            await until(lambda left=left: len(record.errors) == left)
        await until(lambda: record.published_last == b'{"left":0}')
        assert not serving.done()
        master.end(SUCCEEDED, "enough")
        await asyncio.wait_for(serving, LIMIT)
        assert record.last.final_status == SUCCEEDED

    asyncio.run(run())
    assert "nothing to kill" in caplog.text
