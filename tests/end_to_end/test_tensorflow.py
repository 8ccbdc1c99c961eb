"""The examples under tfapp, with real TensorFlow and real TensorBoard."""

import json
import re
import urllib.request
from pathlib import Path

import pytest

from tests.end_to_end.command_line import LIMIT, STAMP, CommandLine, read_until
from tests.waiting import wait
from tfapp.shipped import app_packages_dir

pytestmark = pytest.mark.trains

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str) -> tuple[object, ...]:
    """The flags of `create` that name an example."""
    folder = EXAMPLES / name
    return (
        *("--appdef", app_packages_dir() / "tensorflow", "--files", folder / "train.py"),
        *("--template", folder / "appConfig.yaml", "--resources", folder / "resources.yaml"),
    )


def states(tfapp: CommandLine, name: str) -> dict[str, str]:
    instances = tfapp.status(name)["status"]["instances"]
    return {i["instance"]: i["state"] for i in instances}


def test_parameter_servers_end_with_their_chief(tfapp):
    one = ("--component", "worker", 1)
    out = tfapp.ok("create", "digits", *example("digits-parameter-server"), *one)
    accuracy = re.search(r"^test accuracy (0\.\d{3})$", out, re.MULTILINE)
    assert accuracy, out
    assert float(accuracy.group(1)) > 0.9
    assert tfapp.living() == []
    ended = states(tfapp, "digits")
    assert ended.pop("chief/0") == "SUCCEEDED"
    assert ended.pop("evaluator/0") == "SUCCEEDED"
    assert set(ended) == {"worker/0", "ps/0"}
    assert set(ended.values()) == {"STOPPED"}
    status = tfapp.status("digits")["status"]
    assert (status["state"], status["verdict"]["exit_code"]) == ("SUCCEEDED", 0)
    logs = tfapp.asks("logs", "digits", "--timestamps", "--since", "1h")
    named = set(re.findall(rf"^(\w+/\d) \| {STAMP} ", logs, re.MULTILINE))
    assert named == {i["instance"] for i in status["instances"]}


def test_a_stopped_training_goes_on_where_it_was(tfapp):
    """Both runs are stopped in the middle, by the signal that TensorFlow does not catch;
    checkpoints outlive even the application."""
    args = "--checkpoint-dir ${CHECKPOINT_DIR} --epochs 10000"
    option = ("--option", "site.global.user.scripts.args", args)
    tfapp.ok("create", "digits", *example("digits-multiworker"), *option, "--detach")
    assert first_epoch(tfapp, until=3) == 1
    assert states(tfapp, "digits") == {"worker/0": "KILLED", "worker/1": "KILLED"}
    tfapp.ok("start", "digits", "--detach")
    assert first_epoch(tfapp, until=3) >= 3
    found = tfapp.status("digits")
    assert (found["run"], found["status"]["state"]) == (2, "KILLED")
    tfapp.ok("destroy", "digits")
    assert any((tfapp.home / "checkpoints" / "digits").iterdir())


def first_epoch(tfapp: CommandLine, until: int) -> int:
    """Stops the run once it has begun so many epochs; the number of its first one."""
    following = tfapp.start("logs", "digits", "worker/0", "-f")
    first = int(re.findall(r"Epoch (\d+)/", read_until(following, following.stdout, "Epoch "))[0])
    for _ in range(until - 1):
        read_until(following, following.stdout, "Epoch ")
    tfapp.ok("stop", "digits")
    exits = [i["exit"]["text"] for i in tfapp.status("digits")["status"]["instances"]]
    # The first to go may take the other with it, in the middle of a step.
    assert "killed by SIGINT (2)" in exits and "killed by SIGKILL (9)" not in exits
    following.communicate(timeout=LIMIT)
    assert tfapp.living() == []
    return first


def test_tensorboard_answers_at_the_url_that_is_exported(tfapp):
    program = """
import os, pathlib, signal
model = pathlib.Path(os.environ["TFAPP_CHECKPOINT_DIR"], "export", "weights")
model.parent.mkdir(parents=True)
model.write_text("trained")
print("at work", flush=True)
signal.pause()
"""
    tfapp.program(program, "train.py")
    tfapp.ok("run", "train.py", "-w", 1, "--tensorboard", "--name", "app", "--detach")
    following = tfapp.start("logs", "app", "tensorboard/0", "-f")
    read_until(following, following.stdout, "http://")
    found = json.loads(tfapp.asks("registry", "--name", "app", "--getexp", "tensorboard"))
    (export,) = found["url"]
    with urllib.request.urlopen(export["value"], timeout=LIMIT) as page:
        assert (page.status, b"TensorBoard" in page.read()) == (200, True)
    assert f"tensorboard  url        tensorboard/0  {export['value']}\n" in tfapp.asks(
        "exports", "app"
    )
    assert tfapp.ok("tensorboard", "app") == f"{export['value']}\n"
    assert tfapp.ok("fetch", "app", "export", "out") == "out/export/weights\n"
    tfapp.ok("stop", "app", "--force")
    following.communicate(timeout=LIMIT)
    assert tfapp.living() == []
    assert tfapp("fetch", "app", "out").code == 75
    assert tfapp("fetch", "app", "export", "new").out == "new/export/weights\n"
    assert (tfapp.work / "new" / "export" / "weights").read_text() == "trained"


# The generator of worker/1 stands still, and so all wait in the same call.
HANGS = """
import os, time
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()

def rows():
    for step in range(1000):
        if step == 40 and os.environ["TFAPP_INSTANCE"] == "worker/1":
            time.sleep(600)  # line 11
        yield np.ones(4, "float32"), np.ones(1, "float32")

signature = (tf.TensorSpec(4), tf.TensorSpec(1))
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
data = tf.data.Dataset.from_generator(rows, output_signature=signature)
data = data.batch(2).with_options(options)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
model.fit(data, steps_per_epoch=400, verbose=0)  # line 22
"""


# Of its peers one never comes to the first call that needs all, and one has ended before.
LONELY = """
import os, time

def load():
    time.sleep(600)  # line 5

if os.environ["TFAPP_INSTANCE"] == "worker/1":
    load()
if os.environ["TFAPP_INSTANCE"] == "worker/2":
    raise SystemExit

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()  # line 14
"""


def says_where_it_hung(tfapp, name: str, places: dict[str, str]) -> str:
    """Waits for its end. What its verdict says of where all were, which `places` has."""
    tfapp("wait", name)
    verdict = tfapp.status(name)["status"]["verdict"]
    assert (verdict["exit_code"], verdict["cause"]["exit"]["reason"]) == (65, "hang")
    said = verdict["summary"].partition("Before its end, ")[2]
    for instance, place in places.items():
        assert f"{instance} is in {place}" in said
    return said


@pytest.mark.weekly
def test_peers_that_have_not_come_are_named(tfapp):
    tfapp.program(LONELY, "lonely.py")
    flags = ("-w", 3, "--name", "lonely", "--retries", 0, "--detach", "--wait", LIMIT)
    tfapp.ok("run", "lonely.py", *flags, "--option", "site.global.progress.timeout", 60)
    places = {"worker/0": "<module> at lonely.py:14", "worker/1": "load at lonely.py:5"}

    def told() -> tuple[dict[str, str], list[str]]:
        found = json.loads(tfapp.asks("stacks", "lonely", "--format", "json"))
        groups = found["groups"]
        return {n: g["place"] for g in groups for n in g["instances"]}, found["ended"]

    wait(lambda: told() == (places, ["worker/2 has ended: exit code 0"]), told, LIMIT)
    said = says_where_it_hung(tfapp, "lonely", places)
    assert "worker/2 (exit code 0) has ended before" in said
    assert tfapp.living() == []


def test_a_hang_says_who_it_is_that_all_wait_for(tfapp):
    """Both workers are silent; `tfapp stacks` and the verdict tell them apart."""
    tfapp.program(HANGS, "hang.py")
    flags = ("-w", 2, "--name", "hangs", "--retries", 0, "--detach", "--wait", LIMIT)
    tfapp.ok("run", "hang.py", *flags, "--option", "site.global.progress.timeout", 60)
    waits = "fit at hang.py:22"
    places = {"worker/0": waits, "worker/1": f"{waits}, a thread in rows at hang.py:11"}

    def told() -> dict[str, str]:
        groups = json.loads(tfapp.asks("stacks", "hangs", "--format", "json"))["groups"]
        return {name: group["place"] for group in groups for name in group["instances"]}

    wait(lambda: told() == places, "the two are told apart", LIMIT)
    says_where_it_hung(tfapp, "hangs", places)
    log = tfapp.ok("logs", "hangs", "worker/1")
    assert "tfapp:     rows at hang.py:11\n" in log
    assert tfapp.living() == []
