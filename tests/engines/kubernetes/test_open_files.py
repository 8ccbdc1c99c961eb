"""What commands leave open in a process that goes on: nothing that grows with their number."""

import os
import threading

import pytest

import tfapp
from tests.clusters.kubernetes.packaged import packaged
from tests.end_to_end.command_line import call
from tests.engines.applications import FOREVER, compiled, service
from tests.engines.kubernetes.api_server import Answer, ApiServer
from tests.engines.kubernetes.pod.test_record import RUNNING
from tests.waiting import wait
from tfapp.contract.names import LOG_BEGINS
from tfapp.engines.kubernetes import run
from tfapp.engines.kubernetes.engine import KubernetesEngine
from tfapp.engines.kubernetes.pod import names, record
from tfapp.engines.kubernetes.pod.record import RunState

LIMIT = 60.0  # seconds
TIMES = 4
OURS = ("log ", "port-forward", "tfapp-close")  # what the names of such threads begin with


class Server(ApiServer):
    """Everybody may do everything, and a log that is followed says nothing more until the end."""

    following = 0

    def answer(self, request):
        if request.path.endswith("selfsubjectaccessreviews"):
            return Answer({"status": {"allowed": True}})
        if request.path.endswith("/log"):
            return Answer(self._lines("follow" in request.query))
        return super().answer(request)

    def _lines(self, follow):
        yield f"2026-11-23T05:00:00.000000000Z {LOG_BEGINS}\n".encode()
        with self.changed:
            self.following += follow
            self.changed.wait_for(lambda: self.away or not follow, 2 * LIMIT)


@pytest.fixture
def opened(tmp_path, tfapp_home, kubeconfig, monkeypatch):
    """Opens the engine anew; an application of one instance runs, whose log says nothing."""
    with Server().running() as server:
        environ = {"KUBECONFIG": str(kubeconfig(server.address, namespace=server.namespace))}

        def open_engine():
            return KubernetesEngine(tfapp_home, environ)

        engine = open_engine()
        engine.create("train", packaged(compiled("train", master=FOREVER, w=service()), engine))
        told = {record.status_key(1): RUNNING, record.state_key(1): RunState("m", "10.1.1.1:5")}
        data = server.objects["ConfigMap/tfapp-train"]["data"]
        data.update({key: record.text(value) for key, value in told.items()})
        labels = {**names.run_labels("train", 1), names.INSTANCE: names.instance_label("w/0")}
        running = {"name": names.CONTAINER, "state": {"running": {}}}
        status = {"phase": "Running", "podIP": "10.1.1.2", "containerStatuses": [running]}
        for name, more in (("w", labels), ("m", names.run_labels("train", 1))):
            pod = {"metadata": {"name": name, "labels": more}, "status": status}
            server.put(f"Pod/{name}", pod)
        for key, value in environ.items():
            monkeypatch.setenv(key, value)
        yield server, open_engine


def files():
    return len(os.listdir("/proc/self/fd"))


def threads():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(OURS)]


def looks(engine, server):
    engine.find("train")
    engine.list()


def reads(engine, server):
    assert [log.instance for log in engine.logs("train")] == ["w/0"]


def follows(engine, server):
    before = server.following
    reads(engine, server)
    reads(engine, server)
    wait(lambda: server.following == before + 2, "a log of w/0 and of the master", LIMIT)


def reaches(engine, server):
    engine._open(engine._record("train"), 1).address()


def check(ask, server):
    ask()  # what is loaded once
    wait(lambda: not threads(), threads, LIMIT)
    before = files()
    for _ in range(TIMES):
        ask()
    wait(lambda: not threads(), threads, LIMIT)
    server.go(True)  # it notices those that are gone when it writes
    wait(lambda: files() <= before, lambda: f"{files()} files are open, and {before} were", LIMIT)


@pytest.mark.parametrize("ask", [looks, reads, follows, reaches])
def test_what_a_call_has_opened_ends_with_the_engine(opened, ask):
    server, open_engine = opened
    check(lambda: ask(open_engine(), server), server)


@pytest.mark.parametrize("command", ["status", "logs", "exports", "report", "diagnostics"])
def test_what_a_command_has_opened_ends_with_it(opened, tmp_path, command):
    server, _ = opened

    def call_it():
        told = call((command, "train", "--engine", "kubernetes"), os.environ, tmp_path)
        assert told.code == 0, told.err

    check(call_it, server)


def test_what_a_handle_has_opened_ends_with_it(opened):
    server, _ = opened

    def polls():
        before = server.following
        application = tfapp.open("train", "kubernetes")
        assert application.status().state == "RUNNING"
        assert [list(application.logs()) for _ in range(2)] == [["w/0"]] * 2
        wait(lambda: server.following == before + 2, "a log of w/0 and of the master", LIMIT)

    check(polls, server)


def test_one_engine_that_goes_on_keeps_few_ways_to_pods(opened, monkeypatch):
    """Such as that of a page, which is asked about one application after the other."""
    monkeypatch.setattr(run, "MOST_FORWARDS", 2)
    _, open_engine = opened
    engine = open_engine()
    ways = [engine._forwards.to("m", f"10.1.1.1:{port}") for port in (1, 2, 1, 3)]
    assert ways[0] == ways[2]
    assert [port for _, port in engine._forwards._open] == [1, 3]
    assert engine._forwards.to("m", "10.1.1.1:2") not in ways[:2]
    wait(lambda: len(threads()) == 2, threads, LIMIT)
