"""The examples under tfapp, with real TensorFlow and real TensorBoard."""

import json
import re
import urllib.request
from pathlib import Path

import pytest

from tests.end_to_end.command_line import LIMIT, STAMP, CommandLine, read_until
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
