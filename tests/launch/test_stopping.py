from __future__ import annotations

import re
import time

from tests.cli.played_engine import PlayedEngine, instance, shell, status
from tfapp.launch.stopping import telling

LIMIT = 60.0


def said_while_it_stops(tmp_path, *instances, wanted: str) -> str:
    """Until it has said what is `wanted`."""
    engine = PlayedEngine(tmp_path, [status("STOPPING", *instances)])
    caller = shell(tmp_path)
    end = time.monotonic() + LIMIT
    with telling(engine, engine.find_first(), caller, every=0.01):
        while not re.search(wanted, caller.err.text):
            assert time.monotonic() < end, caller.err.text
            time.sleep(0.01)
    return caller.err.text


def test_who_has_not_ended_is_named_with_the_time_that_is_left(tmp_path):
    instances = [instance(f"worker/{n}", "STOPPING") for n in range(6)]
    ended = instance("worker/6", "SUCCEEDED")
    said = said_while_it_stops(tmp_path, ended, *instances, wanted="waits for .*\\n")
    first, second, *_ = said.splitlines()
    assert first == "app: its programs are asked to end, and have 30 s"
    named = "worker/0, worker/1, worker/2, worker/3 and 2 more"
    assert re.fullmatch(
        rf"app waits for {named}, killed at \d\d:\d\d:\d\d \(TensorFlow may ignore SIGTERM: "
        r"see site.global.stop.signal; "
        r"--force does not wait\)",
        second,
    )
