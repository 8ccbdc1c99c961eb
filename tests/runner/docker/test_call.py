"""A Python call whose programs run in Docker containers of the image that it names."""

import json

from tests import programs
from tests.runner.docker.engine import BASE
from tests.runner.docker.instances import LIMIT

CALL = f"""
import json
import tfapp

def train(context):
    import os, pathlib
    context.report(loss=0.5, step=3)
    container = pathlib.Path("/.dockerenv").exists()
    return {{"container": container, "index": context.index, "greeting": os.environ["GREETING"]}}

if __name__ == "__main__":
    result = tfapp.run(
        train,
        {{"worker": tfapp.Component("512 MiB", instances=2)}},
        image="{BASE}",
        env={{"GREETING": "hello"}},
        name="contained",
    )
    print(json.dumps([dict(result.returned), result.metrics, result.instances["worker/1"].step]))
"""


def test_a_function_runs_in_the_containers_of_an_image(engine, tmp_path):
    (tmp_path / "call.py").write_text(CALL)
    printed = programs.printed("call.py", cwd=tmp_path, limit=2 * LIMIT)
    returned, metrics, step = json.loads(printed.splitlines()[-1])
    value = {"container": True, "greeting": "hello"}
    assert returned == {"worker/0": {**value, "index": 0}, "worker/1": {**value, "index": 1}}
    assert (metrics, step) == ({"loss": 0.5}, 3)
    assert engine.containers() == []
