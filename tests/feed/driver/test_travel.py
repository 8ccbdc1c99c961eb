"""What Spark's executors run travels to them, which have no tfapp."""

import subprocess
import sys

from tests.feed.world import LIMIT

DRIVER = """
import sys, types
import cloudpickle
import pyarrow as pa

sys.modules["pyspark"] = types.SimpleNamespace(cloudpickle=cloudpickle)
from tfapp.feed.task import asker, sender
from tfapp.feed.driver.travel import task

order = ("127.0.0.1:1", "", 1)
tasks = [
    (task(sender.send_frame, order, ["value"]), ([],)),
    (task(sender.send_elements, order, ["value"], None), (0, [])),
    (task(asker.ask_frame, order, pa.schema([]), None, ["value"]), ([],)),
    (task(asker.ask_elements, order, None), (0, [])),
]
sys.stdout.buffer.write(cloudpickle.dumps(tasks))
"""
# Each task ends where it reads the credentials of the driver.
EXECUTOR = """
import json, pickle, sys, types

sys.modules["tfapp"] = None  # whoever imports it fails
place = types.SimpleNamespace(partitionId=lambda: 0, taskAttemptId=lambda: 1, stageId=lambda: 2)
context = types.SimpleNamespace(get=lambda: place)
sys.modules["pyspark"] = types.SimpleNamespace(TaskContext=context)
for run, args in pickle.load(sys.stdin.buffer):
    try:
        list(run(*args))
    except json.JSONDecodeError:
        print("no credentials")
"""


def run(code: str, given: bytes = b"") -> bytes:
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, input=given, capture_output=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_executors_need_no_tfapp():
    assert run(EXECUTOR, run(DRIVER)).splitlines() == 4 * [b"no credentials"]
