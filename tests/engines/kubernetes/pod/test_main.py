"""The master of pods from its start to its end, with an API server that has no nodes."""

import asyncio
import contextlib
import copy
import dataclasses
import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.contract_values import make_job, make_limits
from tests.engines.kubernetes.api_server import Answer, ApiServer
from tests.engines.kubernetes.pod.parents import parent
from tests.waiting import wait
from tfapp.contract.encoding import encode
from tfapp.contract.names import (
    ACCEPTED,
    ENV_INSTANCE,
    ENV_WITNESS,
    FAILED,
    JOB_FILE,
    KEY_BACK,
    KEY_KEPT,
    KEY_LEAVES,
    KEY_LOST,
    KEY_SAVED,
    KEY_STATUS,
    SUCCEEDED,
    SUSPENDED,
)
from tfapp.contract.status import SAVES, STARTS, ApplicationStatus, InstanceStatus, Moment, Verdict
from tfapp.engines.credentials import new_credentials
from tfapp.engines.kubernetes.pod import api as api_module
from tfapp.engines.kubernetes.pod import main, names, record
from tfapp.engines.kubernetes.pod.api import Api
from tfapp.engines.kubernetes.pod.earlier import bury
from tfapp.engines.kubernetes.pod.failures import AwayError
from tfapp.engines.kubernetes.pod.pod_record import PodRecord
from tfapp.engines.kubernetes.pod.record import RunRecord, RunState, read_run
from tfapp.engines.kubernetes.pod.shipped import PodFolders
from tfapp.engines.kubernetes.pod.termination import LeftError, Termination, state_after
from tfapp.engines.kubernetes.pod.transport import PodApi
from tfapp.errors import ForbiddenError, UnavailableError
from tfapp.master import server as server_module
from tfapp.master.ending import Ending
from tfapp.master.launcher import SupersededError
from tfapp.master.parent import Turn
from tfapp.processes import (
    children,
    descendants,
    environment,
    identify,
    is_alive,
    send,
    stat,
    working_under,
)
from tfapp.protocol.connection import connect
from tfapp.protocol.definition import messages
from tfapp.skein_library import skein
from tfapp.standalone.bootstrap import MasterClient

RECORD = "ConfigMap/tfapp-a"
CERTIFICATE, KEY = new_credentials(time.time())
ACCEPTED_STATUS = ApplicationStatus("a", ACCEPTED, 0, 1.0, 1.0, (), stop_grace=0.0)
FOREVER = "trap 'exit 143' TERM; while :; do sleep 0.05; done"


@pytest.fixture
def server(tmp_path):
    folder = tmp_path / "account"
    folder.mkdir()
    with ApiServer("test").running(folder) as running:
        known = RunRecord("application_1_0001", 1, ACCEPTED_STATUS, 1.0, "test")
        data = {"definition": json.dumps({"user": "ann"}), "run-1": record.text(known)}
        running.put(RECORD, {"metadata": {"name": "tfapp-a"}, "data": data})
        owner = {"kind": "Job", "name": "tfapp-a-1", "uid": "u"}
        own = {"metadata": {"name": "master", "ownerReferences": [owner]}, "status": {}}
        running.put("Pod/master", own)
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
        return PodFolders("a", 1, "master", "127.0.0.1", Path(root))

    return write


def serve(server, place, story=None):
    """The master's exit code, and what `story(now)`, in a thread beside it, returned."""

    def now():
        return read_run(server.objects[RECORD]["data"], 1)

    async def both():
        api = PodApi(server.environ, server.account)
        told = asyncio.ensure_future(asyncio.to_thread(story, now) if story else _nothing())
        with parent() as line:
            master = main.PodMaster(api, place, lambda: 9.0, Turn(1, False, None), line)
            code = await asyncio.wait_for(master.serve(), 60)
        return code, await told

    return asyncio.run(both())


async def _nothing():
    return None


def allows_masters(where, count):
    """So many may be lost, one after another."""
    job = encode(make_job(attempts=count))
    digest = hashlib.sha256(job).hexdigest()
    (where.app / digest).write_bytes(job)
    spec = messages.ApplicationSpec.FromString((where.app / "spec").read_bytes())
    spec.master.files[JOB_FILE].CopyFrom(
        messages.File(source=messages.Url(scheme="file", file=f"/x/{digest}"))
    )
    (where.app / "spec").write_bytes(spec.SerializeToString())


def until(ready):
    return wait(ready, "it has not come", 60.0, every=0.01)


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
        state = until(lambda: now().state and now().state.missing and now().state)
        assert (state.address, state.missing) == ("", (digest,))
        there = MasterClient(state.files, *where.credentials)
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
        own = server.objects["Pod/master"]
        eviction = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }
        server.put("Pod/master", {**own, "status": {"conditions": [eviction]}})
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


def job(suspend=False, condition=""):
    conditions = [{"type": condition, "status": "True"}] if condition else []
    return {
        "metadata": {"name": "tfapp-a-1"},
        "spec": {"suspend": suspend},
        "status": {"conditions": conditions},
    }


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (None, FAILED),  # it was deleted
        ({"metadata": {"deletionTimestamp": "t"}}, FAILED),
        (job(condition="Failed"), FAILED),
        (job(condition="FailureTarget"), FAILED),
        (job(True, "Failed"), FAILED),
        (job(True), SUSPENDED),
        (job(True, "Suspended"), SUSPENDED),
        (job(), None),  # its controller has not seen the end yet
        ({**job(), "spec": {"backoffLimit": 2}, "status": {"failed": 1}}, ""),
        ({**job(), "spec": {"backoffLimit": 2}, "status": {"failed": 2}}, None),
        ({**job(), "spec": {"backoffLimit": 2, "suspend": True}}, SUSPENDED),
    ],
)
def test_what_becomes_of_a_run_whose_master_is_ended(found, state):
    assert state_after(found) == state


class NoJobs:
    """An API server that does not tell this service account of Jobs."""

    def get(self, kind, name):
        if kind == "Job":
            raise ForbiddenError("jobs.batch is forbidden")
        return {"metadata": {"deletionTimestamp": "t"}}


def test_without_the_right_to_read_its_job_a_master_leaves_no_verdict(place):
    """Whoever finds that the Job does not go on writes one."""

    async def story():
        terminated = Termination(NoJobs(), place(FOREVER))
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(LeftError, match="its pod was deleted"):
            await terminated.unless(asyncio.sleep(60))

    asyncio.run(story())


WAS_RUNNING = dataclasses.replace(
    ACCEPTED_STATUS,
    state="RUNNING",
    generation=3,
    restarts=1,
    losses=2,
    timeline=(Moment(2.0, "generation 3 begins", "begins", "", 3),),
    instances=(InstanceStatus("w/0", "w", "worker", "RUNNING", host="h", step=7),),
)


@pytest.mark.slow
@pytest.mark.parametrize("large", [True, False])
def test_a_job_that_is_suspended_and_resumed(server, place, large):
    """Before the files of a run are there, and later. The next master goes on where this one was,
    once nothing of it runs; it does not touch what has an ending."""
    first = place(FOREVER, **({"large": b"x"} if large else {}))
    server.put("Job/tfapp-a-1", job(suspend=True))

    def suspended(now):
        until(lambda: now().state if large else now().state and now().state.address)
        if not large:
            with connect(now().state.address, CERTIFICATE, KEY) as connection:
                connection.put(KEY_STATUS, record.text(WAS_RUNNING).encode())
                until(lambda: now().status)
        os.kill(os.getpid(), signal.SIGTERM)

    assert serve(server, first, suspended)[0] == 1
    left = read_run(server.objects[RECORD]["data"], 1)
    assert left.ending is None
    if large:
        assert (left.status, left.state.attempt) == (None, 1)
        return
    assert left.state == RunState("master")
    assert (left.status.state, left.status.losses) == (SUSPENDED, 2)
    assert left.status.instances == (InstanceStatus("w/0", "w", "worker", "REQUESTED", step=7),)
    # A worker of the first master still lives.
    old = {"name": "tfapp-a-1-w-0", "labels": names.run_labels("a", 1)}
    server.put("Pod/tfapp-a-1-w-0", {"metadata": old, "status": {"phase": "Running"}}, "ADDED")
    server.put("Job/tfapp-a-1", job())
    own = {**server.objects["Pod/master"]["metadata"], "name": "second"}
    server.put("Pod/second", {"metadata": own, "status": {}}, "ADDED")
    labels = {**names.run_labels("a", 1), names.COMPONENT: names.MASTER_COMPONENT}
    still = {"name": "master", "labels": labels, "deletionTimestamp": "t"}
    server.put("Pod/master", {"metadata": still, "status": {}})
    del server.requests[:]
    second = dataclasses.replace(first, pod="second")
    shutil.rmtree(first.work)  # each pod has its own
    first.work.mkdir()

    def resumed(now):
        until(lambda: [(r.method, r.key) for r in server.requests].count(("GET", "Pod")) > 1)
        assert "DELETE" not in [request.method for request in server.requests]
        server.drop("Pod/master")
        server.await_request("DELETE", "Pod/tfapp-a-1-w-0")
        state = until(lambda: now().state.address and now().state)
        known = until(lambda: now().last_known.state == ACCEPTED and now().status)
        server.put("Job/tfapp-a-1", job(condition="Failed"))
        os.kill(os.getpid(), signal.SIGTERM)
        return state, known

    code, (state, known) = serve(server, second, resumed)
    assert (code, state.pod, state.attempt) == (1, "second", 2)
    assert (known.state, known.generation, known.timeline[-1].kind) == (ACCEPTED, 3, "suspends")
    ended = server.objects[RECORD]["data"]
    del server.requests[:]
    assert serve(server, second)[0] == 1
    assert server.objects[RECORD]["data"] == ended
    writes = [(r.method, r.key) for r in server.requests if r.method != "GET"]
    assert writes == [("PATCH", "Job/tfapp-a-1")]  # no other master comes and finds this


def test_a_master_that_is_lost_while_its_job_goes_on(server, place):
    """It writes no ending. The next one knows that it was lost; what that one says is final. A pod
    on the lost node does not keep its quota of Kueue's."""
    where = place(FOREVER)
    goes_on = {**job(), "spec": {"backoffLimit": 2}, "status": {"startTime": "t"}}
    server.put("Job/tfapp-a-1", goes_on)

    def lost(now):
        until(lambda: now().state and now().state.address)
        with connect(now().state.address, CERTIFICATE, KEY) as connection:
            connection.put(KEY_STATUS, record.text(WAS_RUNNING).encode())
            until(lambda: now().status)
        os.kill(os.getpid(), signal.SIGTERM)

    assert serve(server, where, lost)[0] == 1
    left = read_run(server.objects[RECORD]["data"], 1)
    assert (left.ending, left.status, left.state.since) == (None, WAS_RUNNING, "t")
    own = {**server.objects["Pod/master"]["metadata"], "name": "second"}
    server.put("Pod/second", {"metadata": own, "status": {}}, "ADDED")
    server.put("Job/tfapp-a-1", {**goes_on, "status": {"startTime": "t", "failed": 1}})
    shutil.rmtree(where.work)
    where.work.mkdir()
    taint = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
    for number, phase in enumerate(("Running", "Failed")):
        labels = {**names.run_labels("a", 1), names.GROUP_LABEL: "g"}
        metadata = {"name": f"w-{number}", "labels": labels, "finalizers": [names.MANAGED]}
        pod = {"metadata": metadata, "status": {"phase": phase, "conditions": [taint]}}
        server.put(f"Pod/w-{number}", pod, "ADDED")

    def follows(now):
        state = until(lambda: now().state.attempt == 2 and now().state.address and now().state)
        with connect(state.address, CERTIFICATE, KEY) as connection:
            told = connection.get(KEY_LOST), connection.get(KEY_STATUS)
            connection.shutdown(FAILED, "enough")
        return told

    code, told = serve(server, dataclasses.replace(where, pod="second"), follows)
    assert (code, told) == (1, (b"", record.text(WAS_RUNNING).encode()))
    assert read_run(server.objects[RECORD]["data"], 1).ending.status.state == FAILED
    assert server.objects["Job/tfapp-a-1"]["spec"] == {"backoffLimit": 0}
    assert "Pod/w-0" not in server.objects
    assert "finalizers" in server.objects["Pod/w-1"]["metadata"], "Kueue has seen its end"


@pytest.mark.parametrize(
    ("limit", "failed", "then"),
    [
        (2, 2, 4),  # as many others follow as at the begin
        (4, 3, 5),
        (2, 0, 2),
        (0, 1, 0),  # an ending is final
    ],
)
def test_a_pod_that_lasts_may_be_lost_as_the_first_one(
    server, place, monkeypatch, limit, failed, then
):
    monkeypatch.setattr(main, "AGAIN", 0.05)
    where = place(FOREVER)
    allows_masters(where, 3)
    found = {**job(), "spec": {"backoffLimit": limit}, "status": {"failed": failed}}
    server.put("Job/tfapp-a-1", found)

    def lasts(now):
        until(lambda: now().state and now().state.address)
        asked = len(server.requests)
        until(lambda: sum(r.key == "Job/tfapp-a-1" for r in server.requests[asked:]) > 3)
        seen = server.objects["Job/tfapp-a-1"]["spec"]["backoffLimit"]
        with connect(now().state.address, CERTIFICATE, KEY) as connection:
            connection.shutdown(FAILED, "enough")
        return seen

    assert serve(server, where, lasts)[1] == then
    assert server.objects["Job/tfapp-a-1"]["spec"]["backoffLimit"] == 0


def test_a_master_that_hung_as_it_began_ends_no_pod_of_the_next_one(place):
    """It waits for the end of those of masters before it. It learns of the next one as soon as
    there is an API server again."""
    server = ApiServer()
    labels = {**names.run_labels("a", 1), names.COMPONENT: "w"}
    server.put("Pod/w-0", {"metadata": {"name": "w-0", "labels": labels}, "status": {}})
    looks = iter([AwayError("away"), SupersededError("another master has the run")])

    def check():
        raise next(looks)

    burying = bury(Api(server, server.namespace), place("true"), make_limits(), 0.0, check)
    with pytest.raises(SupersededError):
        asyncio.run(burying)
    assert "Pod/w-0" in server.objects


def test_a_master_that_was_taken_for_lost_can_do_nothing(server, place):
    where = place(FOREVER)

    def story(now):
        until(lambda: now().state and now().state.address)
        with connect(now().state.address, CERTIFICATE, KEY) as connection:
            known = server.objects[RECORD]
            other = record.text(dataclasses.replace(now().state, pod="other", attempt=2))
            data = {**known["data"], record.state_key(1): other}
            server.put(RECORD, {"metadata": {"name": "tfapp-a"}, "data": data})
            connection.put(KEY_STATUS, record.text(WAS_RUNNING).encode())
        return data

    code, data = serve(server, where, story)
    assert (code, server.objects[RECORD]["data"]) == (1, data)


def test_nobody_counts_losses_while_the_master_asks_why_it_ends(server, place):
    """Its coordinator knows at once that it leaves, before the others whose end would be one."""
    server.put("Job/tfapp-a-1", job())

    def story(now):
        until(lambda: now().state and now().state.address)
        with connect(now().state.address, CERTIFICATE, KEY) as connection:
            os.kill(os.getpid(), signal.SIGTERM)
            until(lambda: connection.get(KEY_LEAVES) == encode([9.0, False]))
        server.put("Job/tfapp-a-1", job(suspend=True))

    assert serve(server, place(FOREVER), story)[0] == 1
    left = read_run(server.objects[RECORD]["data"], 1)
    assert (left.ending, left.status.state) == (None, SUSPENDED)


@pytest.mark.parametrize("answers", [True, False])
def test_programs_save_before_their_job_is_suspended(server, place, monkeypatch, answers):
    """The coordinator says when they have, if it lives; what it has published is kept."""
    monkeypatch.setattr(server_module, "SAVED_MARGIN", 0.1)
    forever = FOREVER.replace("exit", "touch ../asked; exit")
    where = place("echo $$ > ../script; " + forever)
    server.put("Job/tfapp-a-1", job(suspend=True))
    saves = dataclasses.replace(WAS_RUNNING, stop_grace=60.0 if answers else 0.1)

    def story(now):
        until(lambda: now().state and now().state.address and (where.work / "script").exists())
        script = identify(int(until((where.work / "script").read_text)))
        with connect(now().state.address, CERTIFICATE, KEY) as connection:
            connection.put(KEY_STATUS, record.text(saves).encode())
            os.kill(os.getpid(), signal.SIGTERM)
            if answers:
                until(lambda: connection.get(KEY_LEAVES) == encode([9.0, True]))
                assert is_alive(script)
                known = dataclasses.replace(saves, timeline=(Moment(2.0, "saved", SAVES),))
                connection.put(KEY_STATUS, record.text(known).encode())
                connection.put(KEY_SAVED, b"")
        return script

    code, script = serve(server, where, story)
    left = read_run(server.objects[RECORD]["data"], 1)
    assert (code, left.ending, left.status.state) == (1, None, SUSPENDED)
    assert (SAVES in [moment.kind for moment in left.status.timeline]) == answers
    assert not is_alive(script)
    assert not (where.work / "asked").exists(), "that would be the end of the application"


def test_another_coordinator_goes_on_with_a_suspension(server, place, monkeypatch):
    """The end of the last one is no verdict."""
    ended, run = [], main.PodLauncher.run

    async def noted(*args):
        ended.append(await run(*args))
        return ended[-1]

    monkeypatch.setattr(main.PodLauncher, "run", noted)
    where = place("echo $$ >> ../scripts; " + FOREVER)
    allows_masters(where, 2)
    server.put("Job/tfapp-a-1", job(suspend=True))
    saves = dataclasses.replace(WAS_RUNNING, stop_grace=60.0)

    def script(number):
        lines = (where.work / "scripts").read_text().splitlines()
        return len(lines) > number and identify(int(lines[number]))

    def story(now):
        until(lambda: now().state and now().state.address and (where.work / "scripts").exists())
        with connect(now().state.address, CERTIFICATE, KEY) as connection:
            connection.put(KEY_STATUS, record.text(saves).encode())
            os.kill(os.getpid(), signal.SIGTERM)
            until(lambda: connection.get(KEY_LEAVES) == encode([9.0, True]))
            for number in range(2):
                send(until(lambda number=number: script(number)), signal.SIGKILL)
                until(lambda number=number: len(ended) > number)
            connection.put(KEY_SAVED, b"")

    assert serve(server, where, story)[0] == 1
    left = read_run(server.objects[RECORD]["data"], 1)
    assert (left.ending, left.status.state) == (None, SUSPENDED)


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_run_that_is_to_stop_is_killed(server, place, when):
    """By a command that cannot ask the master, which starts nothing then."""
    where = place(FOREVER)

    def stop():
        data = server.objects[RECORD]["data"]
        server.put(
            RECORD, {"metadata": {}, "data": {**data, record.stop_key(1): "Stopped by ann."}}
        )

    def story(now):
        until(lambda: now().state)
        stop()
        os.kill(os.getpid(), signal.SIGTERM)

    if when == "before":
        stop()
    assert serve(server, where, None if when == "before" else story)[0] == 1
    found = read_run(server.objects[RECORD]["data"], 1)
    assert (found.ending.status.verdict.state, found.ending.status.verdict.summary) == (
        "KILLED",
        "Stopped by ann.",
    )
    assert (found.state is None) == (when == "before")


def test_pods_without_the_right_to_a_controller_belong_to_the_job(server, place):
    """An empty ConfigMap is the controller of pods, so that they can be drained."""
    own = server.objects["Pod/master"]
    api = PodApi(server.environ, server.account)
    where = place("true")
    server.unanswered = 1
    owner = main._owner(api, where, own)
    assert (owner["kind"], owner["name"], owner["controller"]) == ("ConfigMap", "master", True)
    made = server.objects["ConfigMap/master"]["metadata"]
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "tfapp-a-1", "uid": "u"}
    assert (made["ownerReferences"], made["uid"]) == ([job], owner["uid"])
    server.refusals.append(Answer({"reason": "Invalid", "message": "no"}, 422))
    assert main._owner(api, where, own) == job


def test_the_status_is_in_the_record_until_there_is_an_ending(server, place):
    where = place(FOREVER)
    verdict = Verdict(SUCCEEDED, 0, "well done")
    moment = Moment(1.0, "generation 1 starts", STARTS)
    shown = ApplicationStatus("a", "RUNNING", 1, 1.0, 1.0, (), timeline=(moment,))

    def told():
        made = [each for key, each in server.objects.items() if key.startswith("Event/")]
        return [(each["reason"], each["involvedObject"]["uid"]) for each in made]

    def story(now):
        state = until(lambda: now().state and now().state.address and now().state)
        with connect(state.address, CERTIFICATE, KEY) as connection:
            connection.put(KEY_STATUS, record.text(shown).encode())
            seen = until(lambda: now().status)
            assert until(told) == [("Formed", "u")]
            assert server.objects[RECORD]["data"][record.STATE] == "RUNNING"
            ended = dataclasses.replace(shown, state=SUCCEEDED, verdict=verdict)
            connection.put(KEY_STATUS, record.text(ended).encode())
            connection.shutdown(SUCCEEDED, "well done")
        return seen

    code, seen = serve(server, where, story)
    found = read_run(server.objects[RECORD]["data"], 1)
    assert (code, seen, found.status) == (0, shown, None)
    assert (found.ending.status.state, found.ending.diagnostics) == (SUCCEEDED, "well done")
    assert server.objects[RECORD]["data"][record.STATE] == SUCCEEDED
    assert told() == [("Formed", "u"), ("Succeeded", "u")]


def test_a_record_that_is_damaged(server, place):
    server.objects[RECORD]["data"]["run-1"] = "{}"
    with pytest.raises(UnavailableError, match="record is damaged"):
        serve(server, place("true"))


# The program of the pod. argv: the folder of its account.
POD = """
import os, pathlib, sys
from tfapp.engines.kubernetes.pod import main, transport
transport.PodApi.__init__.__defaults__ = (pathlib.Path(sys.argv[1]),)
sys.exit(main.main([], os.environ))
"""
WORKER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"labels": {**names.run_labels("a", 1), names.COMPONENT: "w"}},
    "spec": {"containers": [{"name": names.CONTAINER, "env": [{"name": ENV_WITNESS}]}]},
}
SILENT = "waiting for the end of the instance in its pod before, which is silent"
MAIN_RUNS = [{"name": names.CONTAINER, "state": {"running": {}}}]


class Pod:
    """The pod of a master that has a service "w" with two instances, and of which three masters
    may be lost."""

    def __init__(self, server, where):
        allows_masters(where, 3)
        spec = messages.ApplicationSpec.FromString((where.app / "spec").read_bytes())
        service = skein.Service(skein.Resources(32, 1), script="true", instances=2, max_restarts=0)
        spec.services["w"].MergeFromString(service.to_protobuf().SerializeToString())
        (where.app / "spec").write_bytes(spec.SerializeToString())
        (where.app / "pods").write_text(json.dumps({"w": WORKER}))
        self.server, self.where = server, where
        self.start()

    def start(self):
        server = self.server
        own = {"TFAPP_NAME": "a", "TFAPP_RUN": "1", "TFAPP_POD_NAME": self.where.pod}
        own |= {"TFAPP_POD_IP": "127.0.0.1", "TFAPP_ROOT": str(self.where.root)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", POD, str(server.account)],
            env={**os.environ, **own, **server.environ},
            start_new_session=True,
        )

    def now(self):
        return read_run(self.server.objects[RECORD]["data"], 1)

    @property
    def address(self):
        return until(lambda: self.now().state and self.now().state.address)

    def connect(self):
        return connect(self.address, CERTIFICATE, KEY)

    @property
    def master(self):
        """Its process; 0 while there is none. What the master has its parent start is in this
        session, too, until it has begun one of its own."""
        found = filter(None, map(stat, children(self.process.pid)))
        return min((each.pid for each in found if each.session == self.process.pid), default=0)

    def lose(self):
        """Kills the master and waits for the next one."""
        before = self.master
        os.kill(before, signal.SIGKILL)
        until(lambda: self.master not in (0, before))

    def signal(self, number):
        """All of it: its parent, the master, the script."""
        found = [identify(self.process.pid), *descendants(self.process.pid)]
        for process in filter(None, found):
            send(process, number)

    def next(self, **changes):
        """The pod that the Job starts in its place."""
        pod = copy.copy(self)
        root = self.where.root.with_name("second")
        shutil.copytree(self.where.root, root, ignore=shutil.ignore_patterns("work"))
        (root / "work").mkdir()
        pod.where = dataclasses.replace(self.where, pod="second", root=root)
        own = {**self.server.objects["Pod/master"]["metadata"], "name": "second"}
        self.server.put("Pod/second", {"metadata": own, "status": {}}, "ADDED")
        self.server.put("Job/tfapp-a-1", {**job(), "status": {"startTime": "t", "failed": 1}})
        pod.start()
        return pod

    def begins(self, name):
        """A pod of an instance comes, and its script begins."""
        args = self.server.await_object(f"Pod/{name}")["spec"]["containers"][0]["args"]
        self.server.change(name, "Running", "node", containerStatuses=MAIN_RUNS)
        client = MasterClient(args[0], *self.where.credentials)
        client.get(f"/containers/{args[1]}?attempt={name}", lambda answer, _: answer.read())
        client.close()

    def has(self, **states):
        with self.connect() as connection:
            found = connection.containers(("REQUESTED", "RUNNING", "SUCCEEDED", "FAILED", "KILLED"))
        return {container.id: container.state for container in found} == states


@pytest.fixture
def pod(server, place):
    server.put("Job/tfapp-a-1", {**job(), "status": {"startTime": "t"}})
    made = Pod(server, place("echo $$ > ../script; " + FOREVER))
    with ends(made):
        yield made


@contextlib.contextmanager
def ends(pod):
    try:
        yield pod
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pod.process.pid, signal.SIGKILL)
        pod.process.wait()
        for process in working_under(str(pod.where.work)):
            send(process, signal.SIGKILL)


def script_of(pod):
    """The process of the master script."""
    path = pod.where.work / "script"
    return identify(int(until(lambda: path.exists() and path.read_text())))


@pytest.mark.slow
def test_a_master_that_is_killed_in_its_pod(server, pod):
    """The next one serves at the same addresses, and goes on with the same pods. What has ended
    meanwhile it learns later, also where there is no API server when it begins. Nobody has renewed
    the witness meanwhile: a pod begins in the place of another when that one has ended."""
    pod.begins("tfapp-a-1-w-0")
    server.await_object("Pod/tfapp-a-1-w-1")
    with pod.connect() as connection:
        connection.put("kept", b"x")
    address, script = pod.address, script_of(pod)
    pod.lose()
    pod.begins("tfapp-a-1-w-1")
    until(lambda: pod.has(w_0="RUNNING", w_1="RUNNING"))
    with pod.connect() as connection:
        assert connection.get("kept") == b"x"
        server.go(away=True)
        pod.lose()
        connection.put("kept", b"y")
        ended = [{"name": names.CONTAINER, "state": {"terminated": {"exitCode": 0}}}]
        server.change("tfapp-a-1-w-0", "Succeeded", containerStatuses=ended)
        assert pod.has(w_0="RUNNING", w_1="RUNNING")
        server.go(away=False)
        until(lambda: pod.has(w_0="SUCCEEDED", w_1="RUNNING"))
        connection.kill_container("w_1")
        again = connection.add_container("w", {ENV_INSTANCE: "w/1"})
        until(lambda: [c.message for c in connection.containers() if c.id == again] == [SILENT])
    server.await_request("PATCH", "Pod/tfapp-a-1-w-1")
    assert again == "w_2"
    assert "Pod/tfapp-a-1-w-2" not in server.objects
    server.change("tfapp-a-1-w-1", "Failed", reason="DeadlineExceeded")
    server.await_object("Pod/tfapp-a-1-w-2")
    assert (pod.address, script_of(pod), pod.now().state.attempt) == (address, script, 1)
    made = [
        r.body["metadata"]["name"] for r in server.requests if (r.method, r.key) == ("POST", "Pod")
    ]
    assert sorted(set(made)) == ["tfapp-a-1-w-0", "tfapp-a-1-w-1", "tfapp-a-1-w-2"]
    assert "DELETE" not in [request.method for request in server.requests]
    with pod.connect() as connection:
        connection.shutdown(SUCCEEDED, "enough")
    assert pod.process.wait(60) == 0
    assert pod.now().ending.status.state == SUCCEEDED
    assert not is_alive(script)


def test_a_master_and_its_script_are_killed(server, pod):
    """Both are replaced: their parent has seen the end of the script, too."""
    pod.begins("tfapp-a-1-w-0")
    before, master = script_of(pod), pod.master
    os.kill(master, signal.SIGSTOP)
    until(lambda: stat(master).state == "T")
    send(before, signal.SIGKILL)
    pod.lose()
    until(lambda: script_of(pod) not in (None, before))
    assert pod.has(w_0="RUNNING", w_1="REQUESTED")
    told = environment(script_of(pod).pid)
    assert (told[b"TFAPP_COORDINATOR"], told[b"TFAPP_MASTER_TIMEOUT"]) == (b"1", b"300")


def test_masters_that_are_killed_too_often(server, pod):
    """Then the pod fails, and its Job starts another one."""
    pod.begins("tfapp-a-1-w-0")
    for _ in range(2):
        pod.lose()
        until(lambda: pod.has(w_0="RUNNING", w_1="REQUESTED"))
    os.kill(pod.master, signal.SIGKILL)
    assert pod.process.wait(60) == 128 + signal.SIGKILL
    assert pod.now().ending is None


def test_a_pod_that_ends_gets_no_other_master(server, pod):
    """What ends it is for the master, which says why; one that is killed meanwhile was the last."""
    until(lambda: pod.has(w_0="REQUESTED", w_1="REQUESTED"))
    master = pod.master
    os.kill(master, signal.SIGSTOP)
    until(lambda: stat(master).state == "T")
    os.kill(pod.process.pid, signal.SIGTERM)
    until(lambda: signal.SIGTERM in pending(master))
    os.kill(master, signal.SIGKILL)
    assert pod.process.wait(60) == 128 + signal.SIGKILL


def pending(pid):
    """The signals that wait for a process."""
    (mask,) = re.findall("ShdPnd:\\s*([0-9a-f]+)", Path(f"/proc/{pid}/status").read_text())
    return [number for number in signal.valid_signals() if int(mask, 16) >> (number - 1) & 1]


@pytest.mark.slow
def test_a_master_without_the_journal_of_the_one_before(server, pod):
    """It begins the next generation, with pods of other names, once the others have ended."""
    pod.begins("tfapp-a-1-w-0")
    server.await_object("Pod/tfapp-a-1-w-1")
    script = script_of(pod)
    (pod.where.work / "journal").write_bytes(b"damage\n" * 3)
    pod.lose()
    for name in ("tfapp-a-1-w-0", "tfapp-a-1-w-1"):
        server.await_request("DELETE", f"Pod/{name}")
    server.await_object("Pod/tfapp-a-1-w-10000")
    until(lambda: pod.now().state.attempt == 2 and not is_alive(script))
    with pod.connect() as connection:
        assert connection.get(KEY_LOST) == b""


def witness(server):
    return server.objects["ConfigMap/tfapp-a.witness"]["data"]


def others(server):
    """What was asked of pods other than to make them."""
    return {
        (r.method, r.key)
        for r in server.requests
        if r.method in ("DELETE", "PATCH") and r.key.startswith("Pod/")
    }


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
def test_a_master_that_is_lost_with_its_pod(server, pod, how):
    """It is killed with all of its pod; or the pod is to end; or its node hangs, and comes back
    when another master has its place. That one goes on with the same pods, all of which know it by
    the witness. The first one can do nothing any more."""
    server.put(
        "Job/tfapp-a-1", {**job(), "spec": {"backoffLimit": 2}, "status": {"startTime": "t"}}
    )
    pod.begins("tfapp-a-1-w-0")
    server.await_object("Pod/tfapp-a-1-w-1")
    with pod.connect() as connection:
        connection.put("kept", b"x")
    first = pod.address
    assert witness(server)["address"] == first
    script_of(pod)
    if how == signal.SIGTERM:
        pod.process.terminate()
        assert pod.process.wait(60) == 1
    else:
        pod.signal(how)
    why = ""
    if how == signal.SIGKILL:
        out = {"name": "tfapp", "state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}
        server.change(pod.where.pod, "Failed", containerStatuses=[out])
        why = "it was killed because it needed more memory than its limit: "
        why += "yarn.memory of slider-appmaster"
    with ends(pod.next()) as second:
        until(lambda: pod.now().state.pod == "second" and pod.now().state.address)
        with second.connect() as connection:
            assert json.loads(connection.get(KEY_BACK))[1] == why
        state = pod.now().state
        assert (state.attempt, state.address == first) == (2, False)
        told = witness(server)
        assert told["address"] == state.address
        assert told["containers"] == "container_1_0001_01"
        # The pod that has not begun yet finds its order where the witness says.
        client = MasterClient(told["files"], *second.where.credentials)
        args = server.objects["Pod/tfapp-a-1-w-1"]["spec"]["containers"][0]["args"]
        client.get(f"/containers/{args[1]}?attempt=x", lambda answer, _: answer.read())
        client.close()
        server.change("tfapp-a-1-w-1", "Running", "node", containerStatuses=MAIN_RUNS)
        until(lambda: second.has(w_0="RUNNING", w_1="RUNNING"))
        with second.connect() as connection:
            assert (connection.get("kept"), connection.get(KEY_LOST)) == (b"x", None)
        told = environment(script_of(second).pid)
        assert (told[b"TFAPP_COORDINATOR"], told[b"SKEIN_APPMASTER_ADDRESS"]) == (
            b"0",
            state.address.encode(),
        )
        if how == signal.SIGSTOP:
            pod.signal(signal.SIGCONT)
            assert pod.process.wait(60) == 1
        second.lose()
        until(lambda: second.has(w_0="RUNNING", w_1="RUNNING"))
        assert others(server) == set()
        with second.connect() as connection:
            connection.shutdown(SUCCEEDED, "enough")
        for name in ("tfapp-a-1-w-0", "tfapp-a-1-w-1"):
            server.await_request("PATCH", f"Pod/{name}")
            server.change(name, "Failed", reason="DeadlineExceeded")
        assert second.process.wait(60) == 0
    assert pod.now().ending.status.state == SUCCEEDED
    assert server.objects["ConfigMap/tfapp-a.journal"]["binaryData"] == {}


@pytest.mark.slow
def test_what_is_not_outside_is_not_gone_on_with(server, pod):
    """While the copy of the journal is refused nobody waits for it, and runners are told. The next
    master lets the witness name no container of before, and ends their pods."""
    pod.begins("tfapp-a-1-w-0")
    server.await_object("Pod/tfapp-a-1-w-1")
    damaged = {**server.objects["ConfigMap/tfapp-a.journal"], "binaryData": {"journal": "!"}}
    pod.signal(signal.SIGKILL)
    server.put("ConfigMap/tfapp-a.journal", damaged)
    with ends(pod.next()) as second:
        server.await_request("DELETE", "Pod/tfapp-a-1-w-0")
        assert witness(server)["containers"] == "container_1_0001_02"
        server.await_object("Pod/tfapp-a-1-w-10000")
        with second.connect() as connection:
            assert connection.get(KEY_LOST) == b""


@pytest.mark.slow
def test_a_copy_that_cannot_be_written_holds_nobody_up(server, pod):
    pod.begins("tfapp-a-1-w-0")
    with pod.connect() as connection:
        connection.put("kept", b"x")
        server.go(away=True)
        connection.put("kept", b"y")
        assert connection.get(KEY_KEPT) == b"false"
        server.go(away=False)
        until(lambda: connection.get(KEY_KEPT) == b"true")


class TestRecord:
    """What is written while the API server is away, and what would be too large."""

    @pytest.fixture
    def written(self, server, monkeypatch):
        monkeypatch.setattr(api_module, "LONGEST_PAUSE", 0.2)
        return PodRecord(PodApi(server.environ, server.account), "a", 1, "master")

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
        server.valid = "not known yet"
        with pytest.raises(AwayError, match="^the API server answers 401: Unauthorized$"):
            PodApi(server.environ, server.account).get("Pod", "master")
        server.token("first")
        server.forbidden = 2
        written.serving("h:1")
        assert self.found(server).state == RunState("master", "h:1")

    def test_it_is_forbidden(self, server, written, monkeypatch):
        monkeypatch.setattr(api_module, "FORBIDDEN_LIMIT", 0.2)
        server.forbidden = 1000
        with pytest.raises(UnavailableError, match="^the record cannot be written: no$"):
            written.serving("h:1")

    def test_a_status_does_not_come_after_the_ending(self, server, written):
        """The ending is the last that a master writes, when it follows nothing any more."""
        written._api.close()
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
        with pytest.raises(Exception, match="record cannot be written: ConfigMap/tfapp-a not"):
            written.serving("h:1")
