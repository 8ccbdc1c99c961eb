"""The master of pods from its start to its end, with an API server that has no nodes."""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.engines.kubernetes.pod_server import PodServer
from tfapp.contract.names import ACCEPTED, FAILED, KEY_STATUS, SUCCEEDED
from tfapp.contract.status import ApplicationStatus, InstanceStatus
from tfapp.engines.credentials import new_credentials
from tfapp.engines.kubernetes import record
from tfapp.engines.kubernetes.pod import api as api_module
from tfapp.engines.kubernetes.pod import main
from tfapp.engines.kubernetes.pod import record as record_module
from tfapp.engines.kubernetes.pod.api import Api, ApiError
from tfapp.engines.kubernetes.pod.record import PodRecord
from tfapp.engines.kubernetes.record import RunRecord, RunState, read_run
from tfapp.errors import UnavailableError
from tfapp.master.bootstrap import Master
from tfapp.master.ending import Ending
from tfapp.protocol.connection import connect
from tfapp.skein_library import skein

RECORD = "configmaps/tfapp-a"
CERTIFICATE, KEY = new_credentials(time.time())
ACCEPTED_STATUS = ApplicationStatus("a", ACCEPTED, 0, 1.0, 1.0, ())
FOREVER = "trap 'exit 143' TERM; while :; do sleep 0.05; done"


@pytest.fixture
def server(tmp_path):
    folder = tmp_path / "account"
    folder.mkdir()
    with PodServer(folder).running() as running:
        known = RunRecord("application_1_0001", 1, ACCEPTED_STATUS, 1.0, "test")
        data = {"definition": json.dumps({"user": "ann"}), "run-1": record.text(known)}
        running.put(RECORD, {"metadata": {"name": "tfapp-a"}, "data": data})
        owner = {"kind": "Job", "name": "tfapp-a-1", "uid": "u"}
        own = {"metadata": {"name": "master", "ownerReferences": [owner]}, "status": {}}
        running.put("pods/master", own)
        yield running


@pytest.fixture
def place(tmp_path):
    """Writes the Secrets: `place(script, **files)` -> Place. Of `files` (name -> content) those
    called "large..." are left out."""

    def write(script, **files):
        root = tmp_path / "tfapp"
        for name in ("app", "run", "work"):
            (root / name).mkdir(parents=True)
        (root / "run/certificate").write_bytes(CERTIFICATE)
        (root / "run/key").write_bytes(KEY)
        sources = {}
        for name, content in files.items():
            digest = hashlib.sha256(content).hexdigest()
            sources[name] = skein.File(f"file:///anywhere/{digest}", type="FILE")
            if not name.startswith("large"):
                (root / "app" / digest).write_bytes(content)
        spec = skein.ApplicationSpec(name="a", master=skein.Master(script=script, files=sources))
        (root / "app/spec").write_bytes(spec.to_protobuf().SerializeToString())
        (root / "app/pods").write_text("{}")
        return main.Place("a", 1, "master", "127.0.0.1", Path(root))

    return write


def serve(server, place, story=None):
    """The exit code of the master, and what `story(now)`, a function in a thread beside it,
    returned."""

    def now():
        return read_run(server.objects[RECORD]["data"], 1)

    async def both():
        api = Api(server.environ, server.account)
        told = asyncio.ensure_future(asyncio.to_thread(story, now) if story else _nothing())
        code = await asyncio.wait_for(main.serve(api, place, lambda: 9.0), 60)
        return code, await told

    return asyncio.run(both())


async def _nothing():
    return None


def until(ready):
    end = time.monotonic() + 60
    while not (found := ready()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return found


def test_a_master_script_that_ends(server, place, capfdbinary):
    where = place("cat small; env | grep SKEIN_APPLICATION_ID; exit 3", small=b"content\n")
    code, _ = serve(server, where)
    found = read_run(server.objects[RECORD]["data"], 1)
    assert code == 1
    assert found.state.pod == "master"
    assert found.state.address.startswith("127.0.0.1:")
    cause = found.ending.status.verdict.cause
    assert found.ending.status.verdict.summary == (
        "The coordinator was lost: it ended with exit code 3 and gave no verdict."
    )
    assert cause.last_lines == "content\nSKEIN_APPLICATION_ID=application_1_0001"
    assert capfdbinary.readouterr().out == (cause.last_lines + "\n").encode()


def test_files_that_no_secret_holds(server, place):
    large = b"large" * 1000
    digest = hashlib.sha256(large).hexdigest()
    where = place("cat large > ../seen; cat small >> ../seen", large=large, small=b"small")

    def story(now):
        state = until(lambda: now().state)
        assert (state.address, state.missing) == ("", (digest,))
        there = Master(state.files, *where.credentials)
        connection = http.client.HTTPSConnection(*there.address, context=there.tls, timeout=60)
        connection.request("PUT", f"/files/{digest}", large)
        assert connection.getresponse().status == 200
        connection.close()
        return until(lambda: now().ending)

    code, ending = serve(server, where, story)
    assert (code, ending.status.state) == (0, SUCCEEDED)
    assert (where.work / "seen").read_bytes() == large + b"small"
    assert read_run(server.objects[RECORD]["data"], 1).state.missing == ()


def test_files_that_do_not_come(server, place, monkeypatch):
    monkeypatch.setattr(main, "FILES_LIMIT", 0.2)
    with pytest.raises(UnavailableError, match="nothing was heard for 0.2 s"):
        serve(server, place("true", large=b"x"))
    verdict = read_run(server.objects[RECORD]["data"], 1).ending.status.verdict
    assert (verdict.state, verdict.summary) == (
        FAILED,
        "the files that the application needs did not come: nothing was heard for 0.2 s",
    )


@pytest.mark.parametrize("large", [True, False])
def test_a_pod_that_is_to_end(server, place, large):
    """Before its files are there, and later."""
    where = place(FOREVER, **({"large": b"x"} if large else {}))

    def story(now):
        until(lambda: now().state if large else now().state and now().state.address)
        own = server.objects["pods/master"]
        eviction = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }
        server.put("pods/master", {**own, "status": {"conditions": [eviction]}})
        os.kill(os.getpid(), signal.SIGTERM)
        return until(lambda: now().ending)

    if large:
        with pytest.raises(UnavailableError):
            serve(server, where, story)
    else:
        assert serve(server, where, story)[0] == 1
    verdict = read_run(server.objects[RECORD]["data"], 1).ending.status.verdict
    assert (verdict.state, verdict.summary) == (
        FAILED,
        "The application master was ended: its pod was evicted (Eviction API: evicting).",
    )


def test_the_status_is_in_the_record_until_there_is_an_ending(server, place):
    where = place(FOREVER)
    shown = ApplicationStatus("a", "RUNNING", 1, 1.0, 1.0, ())

    def story(now):
        state = until(lambda: now().state)
        with connect(state.address, CERTIFICATE, KEY) as connection:
            connection.put(KEY_STATUS, json.dumps(vars(shown)).encode())
            seen = until(lambda: now().status)
            connection.shutdown(SUCCEEDED, "well done")
        return seen

    code, seen = serve(server, where, story)
    found = read_run(server.objects[RECORD]["data"], 1)
    assert (code, seen, found.status) == (0, shown, None)
    assert (found.ending.status.state, found.ending.diagnostics) == (SUCCEEDED, "well done")


def test_a_record_that_is_damaged(server, place):
    server.objects[RECORD]["data"]["run-1"] = "{}"
    with pytest.raises(UnavailableError, match="record is damaged"):
        serve(server, place("true"))


class TestRecord:
    """What is written while the API server is away, and what would be too large."""

    @pytest.fixture
    def written(self, server, monkeypatch):
        monkeypatch.setattr(record_module, "LONGEST_PAUSE", 0.2)
        return PodRecord(Api(server.environ, server.account), "tfapp-a", 1, "master")

    def status(self, instances=0):
        values = {"pages": {"address": "http://h:1/" + "x" * 1000}}
        found = tuple(
            InstanceStatus(f"w/{n}", "w", "worker", "RUNNING", exports=values)
            for n in range(instances)
        )
        return ApplicationStatus("a", "RUNNING", 1, 1.0, 1.0, found)

    def found(self, server):
        return read_run(server.objects[RECORD]["data"], 1)

    def test_it_waits_for_the_api_server(self, server, written):
        server.go(away=True)

        async def story():
            status = asyncio.ensure_future(
                asyncio.to_thread(written.published, record.text(self.status()).encode())
            )
            serving = asyncio.ensure_future(asyncio.to_thread(written.serving, "h:1"))
            await asyncio.sleep(0.3)
            assert self.found(server).state is None
            server.go(away=False)
            await asyncio.wait_for(asyncio.gather(status, serving), 60)

        asyncio.run(story())
        assert self.found(server).state == RunState("master", "h:1")
        assert self.found(server).status == self.status()

    def test_an_api_server_that_starts_forbids_everything(self, server, written):
        server.forbidden = 2
        written.serving("h:1")
        assert self.found(server).state == RunState("master", "h:1")

    def test_it_is_forbidden(self, server, written, monkeypatch):
        monkeypatch.setattr(api_module, "FORBIDDEN_LIMIT", 0.2)
        server.forbidden = 1000
        with pytest.raises(ApiError, match="^the record cannot be written: no$"):
            written.serving("h:1")

    def test_a_status_does_not_come_after_the_ending(self, server, written):
        server.go(away=True)

        async def story():
            status = asyncio.ensure_future(
                asyncio.to_thread(written.published, record.text(self.status()).encode())
            )
            ending = Ending(FAILED, "", self.status())
            ended = asyncio.ensure_future(asyncio.to_thread(written.ended, ending))
            await asyncio.sleep(0.3)
            server.go(away=False)
            await asyncio.wait_for(asyncio.gather(status, ended), 60)

        asyncio.run(story())
        assert self.found(server).status is None
        assert self.found(server).ending == Ending(FAILED, "", self.status())

    def test_a_thousand_instances_fit(self, server, written):
        large = self.status(1000)
        written.published(record.text(large).encode())
        written.ended(Ending(SUCCEEDED, "x" * 1_000_000, large))
        sizes = [len(value) for value in server.objects[RECORD]["data"].values()]
        assert sum(sizes) < 400_000
        assert self.found(server).ending.status.name == "a"

    def test_a_record_that_is_gone(self, server, written):
        server.drop(RECORD)
        with pytest.raises(Exception, match="record cannot be written: configmaps/tfapp-a not"):
            written.serving("h:1")
