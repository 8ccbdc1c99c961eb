"""The package data-service: which programs it starts, and the example with the real service."""

import dataclasses
import re
import signal
import sys

import pytest

from tests.app_packages.test_tensorflow import context  # noqa: F401
from tests.end_to_end.conftest import tfapp  # noqa: F401
from tests.end_to_end.trainings import EXAMPLES, Application, wait_until
from tests.runner.test_tensorflow_env import cluster
from tests.storage import s3_server
from tfapp.runner import data_service
from tfapp.runner.package_script import load_script
from tfapp.shipped import app_packages

CONFIG = {"user.scripts.entry": "train.py", "user.checkpoint.prefix": "/ckpt"}
MEMBERS = cluster(worker=1, dispatcher=1, dataworker=2)
DISPATCHER, *DATA_WORKERS = (one.exports[one.component]["host_port"] for one in MEMBERS[1:])


@pytest.fixture(params=[("data-service", "data_service.py"), ("tensorflow", "tensorflow.py")])
def script(request):
    package, name = request.param
    return load_script(app_packages()[package], f"scripts/{name}")


def test_trainers_get_the_address_of_the_dispatcher(script, context):  # noqa: F811
    env = script.start(context(members=MEMBERS, config=CONFIG)).env
    assert env["TFAPP_DATA_SERVICE"] == f"grpc://{DISPATCHER}"
    assert "dataworker" not in env["TF_CONFIG"] and "dispatcher" not in env["TF_CONFIG"]
    alone = script.start(context(members=cluster(worker=1), config=CONFIG))
    assert "TFAPP_DATA_SERVICE" not in alone.env


def test_a_data_worker_is_told_its_own_address_and_the_dispatchers(script, context):  # noqa: F811
    env = {"http_proxy": "http://p:1"}
    made = context("dataworker", members=MEMBERS, config=CONFIG, index=1, env=env)
    script.prepare(made)
    started = script.start(made)
    port = DATA_WORKERS[1].rpartition(":")[2]
    words = (data_service.DATA_WORKER_PROGRAM, port, DATA_WORKERS[1], DISPATCHER)
    assert started.argv == (sys.executable, "-c", *words)
    hosts = ",".join(dict.fromkeys(one.host for one in MEMBERS))
    assert started.env == {"no_grpc_proxy": hosts}, "the dispatcher is reached directly"


def test_a_dispatcher_keeps_its_journal_within_a_generation(script, context):  # noqa: F811
    made = context("dispatcher", members=MEMBERS, config=CONFIG, checkpoint_dir="/ckpt/digits")
    later = dataclasses.replace(made, generation=made.generation + 1)
    started = [script.start(one).argv[-2:] for one in (made, made, later)]
    journal = "/ckpt/digits/data-service"
    assert started == [(journal, "anew"), (journal, "again"), (journal, "anew")]


def test_where_checkpoints_have_a_url_the_journal_stays_here(script, context):  # noqa: F811
    made = context("dispatcher", members=MEMBERS, config=CONFIG, checkpoint_dir="s3://bucket/x")
    assert script.start(made).argv[-2] == str(made.work_dir / "data-service")


@pytest.mark.trains
def test_trainers_go_on_while_each_part_of_the_service_is_killed(tfapp, tmp_path):  # noqa: F811
    trains_while_each_part_is_killed(tfapp, tmp_path)


@pytest.mark.weekly
@pytest.mark.trains
def test_the_same_training_with_checkpoints_on_s3(tfapp, tmp_path):  # noqa: F811
    """Which Keras deletes at the end. The journal of the dispatcher stays in its container."""
    with s3_server.running(tmp_path / "s3", ("bucket",)) as environ:
        flags = s3_server.options(environ)
        trains_while_each_part_is_killed(tfapp, "s3://bucket", *flags)


def trains_while_each_part_is_killed(tfapp, prefix, *flags):  # noqa: F811
    """With one data worker no epoch ends without it, and none begins without the dispatcher."""
    folder = EXAMPLES / "digits-data-service"
    digits = Application(
        tfapp,
        "digits",
        *("--appdef", "data-service", "--template", folder / "appConfig.yaml"),
        *("--resources", folder / "resources.yaml", "--files", folder / "train.py"),
        *("--component", "dataworker", 1, "--option", "env.EPOCHS", 80),
        *("--option", "site.global.user.checkpoint.prefix", prefix),
        *flags,
    )

    def epochs() -> list[int]:
        return [int(number) for number in re.findall(r"Epoch (\d+)/", digits.log("worker/0"))]

    def data_workers() -> list[str]:
        states = {one["instance"]: one["state"] for one in digits.status()["instances"]}
        return [state for name, state in states.items() if name.startswith("dataworker/")]

    for restarts, instance in enumerate(("dataworker/0", "dispatcher/0"), start=1):
        before = len(epochs())
        wait_until(lambda before=before: len(epochs()) > before, digits.told)
        digits.signal(instance, "tf.data", signal.SIGKILL)
        wait_until(lambda count=restarts: digits.status()["restarts"] == count, digits.told)
    tfapp.ok("flex", "digits", "--component", "dataworker", "+1")
    wait_until(lambda: data_workers() == ["RUNNING"] * 2, digits.told)
    status = digits.ends(0)
    assert (status["generation"], status["restarts"]) == (1, 2), digits.told()
    assert epochs() == list(range(1, 81))
    (accuracy,) = re.findall(r"(?m)^test accuracy (0\.\d+)$", digits.log("worker/0"))
    assert float(accuracy) > 0.9
