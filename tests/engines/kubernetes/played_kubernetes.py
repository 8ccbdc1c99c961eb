"""A Kubernetes in memory whose Jobs have masters, which speak the real protocol and write the
record as the pod of a master does. They run no containers."""

import base64
import contextlib
import json
import time
from collections.abc import Callable
from typing import Any

from tests.engines.kubernetes.api_server import ApiServer
from tests.engines.yarn.played_yarn import PlayedMaster
from tfapp.engines.kubernetes.pod import record
from tfapp.engines.kubernetes.pod.api import Api
from tfapp.engines.kubernetes.pod.record import RunState
from tfapp.errors import NotFoundError
from tfapp.master.ending import ending

COMPLETE = {"conditions": [{"type": "Complete", "status": "True"}]}


class PlayedKubernetes(Api):
    """Also its client. `begun` is called with each new master and what it is made of: Skein's spec
    as plain data."""

    context, in_cluster = "here", False

    def __init__(self, begun: Callable[[PlayedMaster, Any], None]) -> None:
        server = ApiServer()
        super().__init__(server, server.namespace)
        self.objects = server.objects
        self._begun = begun
        self.masters: list[PlayedMaster] = []

    def create(self, body, **more):
        made = super().create(body, **more)
        if body["kind"] == "Job":
            self._run(body["metadata"]["name"], made["metadata"]["ownerReferences"][0]["name"])
        return made

    def _run(self, job: str, recorded: str) -> None:
        data = self.require("ConfigMap", recorded)["data"]
        run = record.run_numbers(data)[-1]
        secret = self.require("Secret", job)["data"]
        keys = (base64.b64decode(secret[key]) for key in ("certificate", "key"))

        def end(final: str, diagnostics: str) -> None:
            data = self.require("ConfigMap", recorded)["data"]
            last = record.read_run(data, run).last_known
            found = ending(final, diagnostics, last, time.time())
            self._write(recorded, record.ending_key(run), found)
            with contextlib.suppress(KeyError):
                self.objects[f"Job/{job}"]["status"] = COMPLETE
            master.stop(grace=1)

        master = PlayedMaster(*keys, end)
        master.publishes = lambda status: self._write(recorded, record.status_key(run), status)
        self.masters.append(master)
        pod = {"metadata": {"name": f"{job}-m"}, "status": {"phase": "Running"}}
        self.objects[f"Pod/{job}-m"] = pod
        state = RunState(f"{job}-m", f"127.0.0.1:{master.port}")
        self._write(recorded, record.state_key(run), state)
        self._begun(master, json.loads(data[record.DEFINITION])["spec"])

    def _write(self, recorded: str, key: str, value: Any) -> None:
        with contextlib.suppress(NotFoundError):  # it was destroyed
            self.patch("ConfigMap", recorded, {"data": {key: record.text(value)}})

    @contextlib.contextmanager
    def forward(self, pod, port):
        yield "127.0.0.1", port

    def watch(self, kind, labels=None, name="", timeout=0.0, **more):
        deadline, version = time.monotonic() + timeout, ""
        while time.monotonic() < deadline:
            item = self.get(kind, name)
            if item["metadata"]["resourceVersion"] != version:
                version = item["metadata"]["resourceVersion"]
                yield "MODIFIED", item
            time.sleep(0.01)

    def close(self) -> None:
        for master in self.masters:
            master.stop(0)
