"""A YARN in memory, behind the interface of Skein's client for its driver. A submitted application
gets a master at once, which speaks the real protocol; it runs no containers."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from concurrent import futures
from types import SimpleNamespace
from typing import Any

import grpc
from skein.proto import skein_pb2, skein_pb2_grpc

from tests.small_master import Master
from tfapp.contract.encoding import encode
from tfapp.contract.names import KEY_STATUS, KEY_STOP
from tfapp.contract.status import ApplicationStatus
from tfapp.skein_library import skein

NODE = SimpleNamespace(
    host="n1",
    rack_name="/default-rack",
    labels=set(),
    total_resources=SimpleNamespace(memory=8192, vcores=8, gpus=0),
    http_address="n1:8042",
)
QUEUE = SimpleNamespace(name="default", state="RUNNING", node_labels={"*"}, default_node_label="")


class PlayedMaster(Master):
    """The master of one application. `on_stop` is what its coordinator does when it is asked to
    stop; `publishes` is called with each status; `deaf`: it takes no order to end."""

    def __init__(self, certificate: bytes, key: bytes, end: Callable[[str, str], None]):
        super().__init__()
        self._end = end
        self.on_stop: Callable[[], None] = lambda: None
        self.publishes: Callable[[ApplicationStatus], None] = lambda status: None
        self.deaf = False
        trust = grpc.ssl_server_credentials([(key, certificate)], certificate, True)
        self.server = grpc.server(futures.ThreadPoolExecutor(20))
        skein_pb2_grpc.add_AppMasterServicer_to_server(self, self.server)
        self.port = self.server.add_secure_port("127.0.0.1:0", trust)
        self.server.start()

    def stop(self, grace: float) -> None:
        """Ends its watches and takes no more calls: whoever asked before has `grace` seconds."""
        for _, _, events in self.watches:
            events.put(None)
        self.server.stop(grace)

    def PutKey(self, request, context):
        answer = super().PutKey(request, context)
        if request.key == KEY_STOP:
            self.on_stop()
        return answer

    def publish(self, status: ApplicationStatus) -> None:
        request = skein_pb2.PutKeyRequest(key=KEY_STATUS, value=encode(status))
        self.PutKey(request, SimpleNamespace())
        self.publishes(status)

    def shutdown(self, request, context):
        if not self.deaf:
            final = skein_pb2.FinalStatus.Type.Name(request.final_status)
            self._end(final, request.diagnostics)
        return skein_pb2.Empty()


class PlayedYarn:
    """Applications by id. `waits`: new ones get no master, and YARN says this. `failures` are
    raised by the next questions, one by each. `begun` is called with each new master and what it
    is made of: Skein's spec as plain data."""

    def __init__(self, user: str = "ann", begun: Callable[..., None] = lambda master, spec: None):
        self.user = user
        self._begun = begun
        self.reports: dict[str, SimpleNamespace] = {}
        self.masters: dict[str, PlayedMaster] = {}
        self.waits = ""
        self.failures: list[Exception] = []
        self.refusal: Exception | None = None  # of what is submitted
        self.killed: list[str] = []
        self.opened = 0
        self.began = 1700000000000

    def open_driver(self, *_: Any) -> PlayedYarn:
        self.opened += 1
        return self

    def close(self) -> None:
        for master in self.masters.values():
            master.stop(0)

    # -- what Skein's client offers --
    def submit(self, spec: skein.ApplicationSpec) -> str:
        self._fail()
        if self.refusal is not None:
            raise self.refusal
        number = len(self.reports) + 1
        application = f"application_{self.began}_{number:04}"
        report = self.reports[application] = SimpleNamespace(
            id=application,
            name=spec.name,
            user=self.user,
            tags=set(spec.tags),
            state="ACCEPTED",
            final_status="UNDEFINED",
            diagnostics=self.waits,
            host="N/A",
            port=-1,
            tracking_url=f"http://manager:8088/proxy/{application}/",
            start_time=datetime.datetime.fromtimestamp(1.7e9 + number),
            finish_time=None,
        )
        if not self.waits:
            security = spec.master.security
            master = PlayedMaster(
                security._get_bytes("cert"),
                security._get_bytes("key"),
                lambda final, text: self.end(application, "FINISHED", final, text),
            )
            self.masters[application] = master
            report.state, report.host, report.port = "RUNNING", "127.0.0.1", master.port
            self._begun(master, spec.to_dict())
        return application

    def application_report(self, application: str) -> SimpleNamespace:
        self._fail()
        self._know(application)
        return self.reports[application]

    def get_applications(self, states, name=None, user=None) -> list[SimpleNamespace]:
        self._fail()
        found = (r for r in self.reports.values() if r.user == user and r.state in states)
        return [report for report in found if name in (None, report.name)]

    def kill_application(self, application: str) -> None:
        self._know(application)
        self.killed.append(application)
        if self.reports[application].state not in ("FINISHED", "KILLED"):
            self.end(application, "KILLED", "KILLED", "Application killed by user.")

    def get_all_queues(self) -> list[SimpleNamespace]:
        self._fail()
        return [QUEUE]

    def get_nodes(self, states) -> list[SimpleNamespace]:
        self._fail()
        return [NODE] if "RUNNING" in states else []

    # -- what happens --
    def lose(self, application: str) -> None:
        """Its master dies. YARN is about to start another one."""
        self.masters[application].stop(0)
        report = self.reports[application]
        report.state, report.host, report.port = "ACCEPTED", "N/A", -1

    def restart(self) -> None:
        """The ResourceManager starts again, without recovery: all masters end with it."""
        self.close()
        self.reports, self.masters, self.began = {}, {}, self.began + 5000

    def _know(self, application: str) -> None:
        if application not in self.reports:
            raise ValueError(f"Application with id '{application}' doesn't exist in RM.")

    def end(self, application: str, state: str, final: str, diagnostics: str) -> None:
        report = self.reports[application]
        report.state, report.final_status, report.diagnostics = state, final, diagnostics
        report.finish_time = datetime.datetime.fromtimestamp(1.7e9 + 100)
        report.host, report.port = "N/A", -1
        if application in self.masters:
            self.masters[application].stop(grace=1)

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)
