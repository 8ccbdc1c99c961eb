"""The numbers of an application in OpenMetrics' text format, for Prometheus and what reads the same
(https://prometheus.io/docs/specs/om/open_metrics_spec/). Whoever asks gets them, without a login:
no log, option, address or sentence is among them."""

from __future__ import annotations

import contextlib
import http.server
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tfapp.contract.metrics import floats
from tfapp.contract.names import (
    ACCEPTED,
    FINAL_STATES,
    FORMING,
    METRICS_PATH,
    RUNNING,
    STOPPING,
    SUSPENDED,
)
from tfapp.contract.status import ApplicationStatus
from tfapp.listener import Admit, Listener

TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_ALIVE = (ACCEPTED, FORMING, RUNNING, STOPPING, SUSPENDED)

Sample = tuple[str, dict[str, str], float]  # suffix of the name, labels, value


def text(status: ApplicationStatus) -> bytes:
    """All families of `status`. What is not known is left out."""
    lines: list[str] = []
    for name, kind, meaning, samples in _families(status):
        found = [sample for sample in samples if sample is not None]
        if found:
            lines += [f"# TYPE {name} {kind}", f"# HELP {name} {meaning}"]
            for suffix, labels, value in found:
                labels = {"application": status.name, **labels}
                told = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
                lines.append(f"{name}{suffix}{{{told}}} {_number(value)}")
    return "\n".join([*lines, "# EOF", ""]).encode()


def _families(
    status: ApplicationStatus,
) -> Iterator[tuple[str, str, str, Iterable[Sample | None]]]:
    """Name, type, meaning and samples of each family."""
    states = ({"tfapp_state": state} for state in (*_ALIVE, *FINAL_STATES))
    yield (
        *("tfapp_state", "stateset", "The state of the application."),
        [("", one, float(one["tfapp_state"] == status.state)) for one in states],
    )
    generation = status.generation
    yield "tfapp_generation", "gauge", "The number of the cluster.", [_of("", generation)]
    restarts = [
        _of("_total", status.restarts, cause="program"),
        _of("_total", status.losses, cause="infrastructure"),
    ]
    yield "tfapp_restarts", "counter", "Restarts after failures, by what caused them.", restarts
    counted = Counter((i.component, i.state) for i in status.instances)
    yield (
        *("tfapp_instances", "gauge", "Instances of a component in a state."),
        [_of("", n, component=name, state=state) for (name, state), n in sorted(counted.items())],
    )
    for name, meaning, values in (
        ("tfapp_step", "The step that a program has reported.", "step"),
        ("tfapp_step_end", "The step at which its training ends.", "total"),
        ("tfapp_steps_per_second", "Its speed.", "steps_per_second"),
    ):
        found = [_of("", getattr(i, values), instance=i.instance) for i in status.instances]
        yield name, "gauge", meaning, found
    used = [(i.instance, i.usage) for i in status.instances if i.usage is not None]
    cpu = [_of("", usage.cpu, instance=name) for name, usage in used]
    yield "tfapp_processors", "gauge", "Processors that a program uses.", cpu
    memory = [_of("", usage.memory, instance=name) for name, usage in used]
    yield "tfapp_memory_bytes", "gauge", "Memory that it uses.", memory
    yield (
        *("tfapp_metric", "gauge", "The value of a metric that a program has reported."),
        [
            _of("", value, instance=i.instance, metric=metric)
            for i in status.instances
            for metric, value in floats(i.metrics).items()
        ],
    )
    feed = status.feed
    if feed is not None:
        rows = "Rows of the feed from Spark that are with the programs of the present generation."
        yield "tfapp_feed_rows", "gauge", rows, [_of("", feed.rows)]
        speed = [_of("", feed.rows_per_second)]
        yield "tfapp_feed_rows_per_second", "gauge", "Its speed.", speed
        lost = "Rows of programs that failed without a state that has them."
        yield "tfapp_feed_lost_rows", "gauge", lost, [_of("", feed.lost)]


def _of(suffix: str, value: float | None, **labels: str) -> Sample | None:
    return None if value is None else (suffix, labels, value)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}.get(str(value), repr(value))


@contextlib.contextmanager
def served(port: int, newest: Callable[[], ApplicationStatus]) -> Iterator[None]:
    """Answers at `port` of all addresses of this machine, as long as the `with` block runs. OSError
    if the port is taken."""
    dual = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if dual else socket.AF_INET
    listening = socket.create_server(("", port), family=family, dualstack_ipv6=dual)
    listener = Listener("metrics", listening, lambda *come: _Handler(newest, *come))
    try:
        yield
    finally:
        listener.close()


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers one request. Nobody is admitted: each has little time."""

    def __init__(self, newest: Callable[[], ApplicationStatus], made: Any, peer: Any, _: Admit):
        self._newest = newest
        super().__init__(made, peer, None)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != METRICS_PATH:
            self.send_error(404, "the metrics are at /metrics")
            return
        body = text(self._newest())
        self.send_response(200)
        self.send_header("Content-Type", TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def version_string(self) -> str:
        return "tfapp"

    def log_message(self, format: str, *args: object) -> None:
        """Writes no log: a request every few seconds would fill it."""
