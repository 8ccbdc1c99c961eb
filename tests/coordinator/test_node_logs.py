"""A container's last words, from a web server that speaks as a NodeManager does."""

from __future__ import annotations

import http.server
import threading
import time

import pytest

from tests.tls import make_certificate
from tfapp.coordinator import node_logs
from tfapp.skein_calls.containers import Container

FRAME = (
    b"Container: container_1_0001_01_000002 on 127.0.0.3\n"
    b"LogAggregationType: LOCAL\n"
    b"LogType:worker.log\nLogLastModifiedTime:Sat Nov 21 2026\nLogLength:26\nLogContents:\n"
    b"first line\nand the last one\nEnd of LogType:worker.log. It goes on.\n*****\n"
)


@pytest.fixture(params=["http", "https"])
def node(request, tmp_path, monkeypatch):
    """Its address, and the paths that it was asked for."""
    asked = []

    class Pages(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(FRAME)

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    if request.param == "https":
        context = make_certificate(tmp_path / "node.pem")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "node.pem"))
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}", asked
    server.shutdown()
    thread.join()
    server.server_close()


def ended(node: str, message: str = "Container failed during execution.") -> Container:
    return Container("worker_1", "worker", "FAILED", "h", message, "container_1", node)


def test_it_is_read_without_its_frame(node):
    address, asked = node
    assert node_logs.read_log(ended(address)) == "first line\nand the last one"
    assert asked == ["/ws/v1/node/containers/container_1/logs/worker.log?size=-4096"]


@pytest.mark.parametrize(
    "reason", ["Container released on a *lost* node", "preempted by scheduler"]
)
def test_a_node_that_is_gone_is_not_asked(node, reason):
    address, asked = node
    assert node_logs.read_log(ended(address, reason)) == ""
    assert asked == []


@pytest.mark.parametrize("address", ["", "127.0.0.1:0", "127.0.0.1:9"])
def test_nobody_there(address):
    begun = time.monotonic()
    assert node_logs.read_log(ended(address)) == ""
    assert time.monotonic() - begun < node_logs.LIMIT
