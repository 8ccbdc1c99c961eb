"""An application that Prometheus reads while it runs."""

import socket
import urllib.request

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as families

from tests.end_to_end.command_line import LIMIT, PLAIN_PACKAGE
from tests.waiting import wait

PROGRAM = """
import json, os, pathlib, time
path = os.environ["TFAPP_METRICS_FILE"]
pathlib.Path(path + ".new").write_text(json.dumps({"step": 3, "metrics": {"loss": 0.5}}))
os.replace(path + ".new", path)
while not pathlib.Path(os.environ["GO"]).exists():
    time.sleep(0.05)
"""


@pytest.mark.slow
def test_numbers_while_it_runs(tfapp, tmp_path):
    tfapp.program(PROGRAM)
    with socket.create_server(("", 0)) as found:
        port = found.getsockname()[1]
    go = tmp_path / "go"
    words = ("--appdef", PLAIN_PACKAGE, "--files", "program.py", "--component", "worker", 1)
    options = ("--option", "site.global.metrics.port", port, "--option", "env.GO", go)
    tfapp.ok("create", "app", *words, *options, "--detach", "--wait", LIMIT)

    def read() -> dict[str, float]:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            told = answer.read().decode()
        samples = [sample for family in families(told) for sample in family.samples]
        assert {sample.labels["application"] for sample in samples} == {"app"}
        return {sample.name: sample.value for sample in samples}

    wait(lambda: read().get("tfapp_metric") == 0.5, "the metric is not there", LIMIT)
    assert read()["tfapp_step"] == 3
    # Another one that wants the same port runs without it.
    tfapp.ok("create", "other", *words, *options, "--detach", "--wait", LIMIT)
    go.touch()
    assert [tfapp("wait", name).code for name in ("app", "other")] == [0, 0]
    log = tfapp.ok("logs", "other", "coordinator")
    assert f"port {port} shows no metrics: Address already in use" in log
