"""Unmodified programs with folders on an object store, on the local engine."""

import functools
import json
import re
import sysconfig
from pathlib import Path

import pytest

import tfapp
from tests import python_environments
from tests.cli.commands.test_tensorboard import scalars
from tests.end_to_end.command_line import CommandLine
from tests.storage import functions, s3_server, sftp_server

pytestmark = pytest.mark.trains

TRAINS = """
import os, sys
import tensorflow as tf
step, folder = tf.Variable(0), os.environ["TFAPP_CHECKPOINT_DIR"]
manager = tf.train.CheckpointManager(tf.train.Checkpoint(step=step), folder, max_to_keep=2)
print("restores", manager.restore_or_initialize(), flush=True)
with tf.summary.create_file_writer(folder + "/events").as_default():
    for _ in range(3):
        tf.summary.scalar("steps", step.assign_add(1), step=int(step))
        manager.save()
with open("result.txt", "w") as file:
    file.write(str(int(step)))
"""


@pytest.fixture(name="tfapp")
def command_line(tmp_path):
    (tmp_path / "work").mkdir()
    return CommandLine(tmp_path / "work", tmp_path / "home")


@pytest.fixture
def s3(tmp_path):
    with s3_server.running(tmp_path / "s3", ("bucket",)) as environ:
        yield environ


def test_a_program_keeps_what_it_saves_on_s3(tfapp, s3, monkeypatch):
    for name, value in s3.items():
        monkeypatch.setenv(name, value)
    (tfapp.work / "trains.py").write_text(TRAINS)
    given = [word for name in s3 for word in ("-e", name)]
    history = "s3://bucket/history"
    kept = ("-O", "site.global.history.dir", history, "-O", "site.global.history.max.age", "1 d")
    flags = ("-w", "1", "--name", "app", "--checkpoints", "s3://bucket/saved", *kept)
    ran = tfapp("run", "trains.py", *flags, *given)
    assert ran.code == 0, ran.err + ran.out
    status = tfapp.status("app")["status"]
    assert "events/steps" in json.dumps(status)
    again = tfapp("start", "app")
    assert "it may go on from what earlier runs have saved in s3://bucket/saved/app" in again.err
    assert tfapp("wait", "app").code == 0
    restored = re.findall("^restores (.*)$", tfapp.ok("logs", "app", "worker/0"), re.MULTILINE)
    assert restored == ["s3://bucket/saved/app/ckpt-3"]
    listed = json.loads(tfapp.asks("history", "--dir", history, "--format", "json"))["runs"]
    assert [run["state"] for run in listed] == ["SUCCEEDED", "SUCCEEDED"]
    ids = [run["id"] for run in listed]
    assert "worker/0 step" in tfapp.asks("history", "--dir", history, *ids)
    tfapp.asks("history", "--dir", history, ids[0], "--remove")
    assert ids[1] in tfapp.asks("history", "--dir", history)
    assert ids[0] not in tfapp.asks("history", "--dir", history)

    tfapp.ok("fetch", "app", "kept", "--outputs")
    assert (tfapp.work / "kept/worker_0/result.txt").read_text() == "6"
    tfapp.ok("fetch", "app", "model")
    assert {"checkpoint", "ckpt-6.index"} <= {one.name for one in (tfapp.work / "model").iterdir()}
    destroyed = tfapp("destroy", "app", "--checkpoints")
    places = "s3://bucket/saved/app and s3://bucket/saved/app.outputs"
    assert f"its files stay in {places}, which is not tfapp's own place" in (
        destroyed.out + destroyed.err
    )


@pytest.mark.weekly
def test_a_program_keeps_what_it_saves_by_a_protocol_of_fsspec(tfapp, tmp_path, monkeypatch):
    """Which its key names, also for commands on this machine, which has the credentials."""
    (tfapp.work / "trains.py").write_text(TRAINS)
    with sftp_server.running(tmp_path / "served") as (url, environ):
        secrets = tfapp.work / "sftp.env"
        secrets.write_text(f"FSSPEC_SFTP={environ['FSSPEC_SFTP']}\n")
        flags = ("-w", "1", "--name", "app", "--checkpoints", f"{url}/saved")
        options = ("--option", "site.global.storage.schemes", "sftp", "--secret-env-file", secrets)
        ran = tfapp("run", "trains.py", *flags, *options)
        assert ran.code == 0, ran.err + ran.out
        assert "events/steps" in json.dumps(tfapp.status("app")["status"])
        monkeypatch.setenv("FSSPEC_SFTP", environ["FSSPEC_SFTP"])
        again = tfapp("start", "app")
        assert f"it may go on from what earlier runs have saved in {url}/saved/app" in again.err
        assert tfapp("wait", "app").code == 0
        tfapp.ok("fetch", "app", "kept", "--outputs")
        assert (tfapp.work / "kept/worker_0/result.txt").read_text() == "6"
        tfapp.ok("fetch", "app", "model")
        destroyed = tfapp("destroy", "app", "--checkpoints")
        assert f"its files stay in {url}/saved/app and {url}/saved/app.outputs, which is" in (
            destroyed.out + destroyed.err
        )
    assert "ckpt-6.index" in {one.name for one in (tfapp.work / "model").iterdir()}


def test_a_function_opens_urls_in_an_environment_that_travels(s3, tmp_path):
    """As conda-pack and venv-pack make it. The function's argument alone has the URL."""
    environment = python_environments.make(tmp_path / "environment")
    archive = python_environments.pack(environment, tmp_path / "environment.tar.gz")
    result = tfapp.run(
        functools.partial(functions.opens, folder="s3://bucket/opened"),
        {"worker": tfapp.Component("512 MiB")},
        name="app",
        show=False,
        env={**s3, "PYTHONPATH": sysconfig.get_path("purelib"), "TF_CPP_MIN_LOG_LEVEL": "2"},
        options={"site.global.python.archive": str(archive)},
    )
    prefix, listed = result.returned["worker/0"]
    assert (Path(prefix).name, listed) == ("tfapp-python", "['one']")


SHOWN = """
import os, sys, time
import tensorflow as tf
with tf.summary.create_file_writer(os.environ["TFAPP_CHECKPOINT_DIR"] + "/train").as_default():
    tf.summary.scalar("loss", 0.5, step=1)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.1)
"""


def test_tensorboard_shows_what_is_on_s3(tfapp, s3, tmp_path, monkeypatch):
    for name, value in s3.items():
        monkeypatch.setenv(name, value)
    (tfapp.work / "shown.py").write_text(SHOWN)
    given = [word for name in s3 for word in ("-e", name)]
    flags = ("-w", "1", "--tensorboard", "--name", "shown", "--checkpoints", "s3://bucket/saved")
    tfapp.ok("run", *flags, *given, "--detach", "shown.py", "--", str(tmp_path / "end"))
    assert scalars(f"{tfapp.ok('tensorboard', 'shown').strip()}/") == {"train": ["loss"]}
    (tmp_path / "end").touch()
    assert tfapp("wait", "shown").code == 0


def test_without_its_packages_the_start_fails_and_says_why(tfapp):
    (tfapp.work / "trains.py").write_text(TRAINS)
    flags = ("--checkpoints", "s3://bucket/saved", "--option", "site.global.storage", "false")
    ran = tfapp("run", "trains.py", "--name", "app", *flags)
    assert ran.code != 0
    assert "cannot open s3://: site.global.storage is false" in ran.err + ran.out
