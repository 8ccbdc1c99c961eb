"""What TensorFlow allows when one process of a running cluster is started again."""

import contextlib
import os
import socket
import subprocess
import sys

import pytest

from tests.end_to_end.command_line import LIMIT

pytestmark = pytest.mark.trains

SERVER = """
import sys, time
sys.modules["sklearn"] = None  # Keras would load it, which takes long
import tensorflow as tf
server = tf.distribute.Server({"worker": [sys.argv[1]]}, job_name="worker", task_index=0)
print("up", flush=True)
time.sleep(100000)
"""

CLIENT = """
import sys
sys.modules["sklearn"] = None
import tensorflow as tf
tf.config.experimental_connect_to_host(sys.argv[1], "worker")
for line in sys.stdin:
    try:
        with tf.device("/job:worker/replica:0/task:0"):
            print(tf.reduce_sum(tf.ones(3)).numpy(), flush=True)
    except tf.errors.OpError as error:
        print(type(error).__name__, str(error).replace(chr(10), " "), flush=True)
"""


@contextlib.contextmanager
def running(code: str, address: str):
    with subprocess.Popen(
        [sys.executable, "-c", code, address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "TF_GRPC_REUSE_PORT": "true"},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def serving(address: str):
    with running(SERVER, address) as server:
        assert server.stdout.readline() == "up\n"
        yield


def send(client: subprocess.Popen) -> None:
    client.stdin.write("\n")
    client.stdin.flush()


def ask(client: subprocess.Popen) -> str:
    send(client)
    return client.stdout.readline()


@pytest.mark.timeout(2 * LIMIT)
def test_a_process_is_found_again_at_its_old_address():
    """A server elsewhere is none that anybody looks for. So a process that moves needs a new
    cluster spec in all the others, which is a new generation."""
    with contextlib.ExitStack() as started:
        # Nobody else gets these ports, and nobody listens at them but the servers.
        sockets = [started.enter_context(socket.socket()) for _ in range(2)]
        for each in sockets:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            each.bind(("127.0.0.1", 0))
        first, second = (f"127.0.0.1:{each.getsockname()[1]}" for each in sockets)
        with serving(first):
            client = started.enter_context(running(CLIENT, first))
            assert ask(client) == "3.0\n"
        with serving(second):
            assert ask(client).startswith("UnavailableError")
            send(client)  # waits for the server of before
        with serving(first):
            answer = client.stdout.readline()
            while answer.startswith("UnavailableError"):
                answer = ask(client)
            # It is reached. What it had in its memory is gone, which a strategy brings back.
            assert answer.startswith("AbortedError"), answer
