"""Run mode docker on a real cluster: containers of YARN, with programs in containers of Docker."""

import re

import pytest

from tests.clusters.yarn.conftest import ROOT
from tests.end_to_end.sessions import (
    VERY_LARGE,
    check_commands,
    check_end_of_runner,
    check_terminal,
    check_what_ends,
    create,
)
from tests.runner.docker.flags import in_docker

pytestmark = pytest.mark.usefixtures("nothing_left")

EXAMPLE = ROOT / "examples" / "digits-multiworker"
ARGUMENTS = "--checkpoint-dir ${CHECKPOINT_DIR} --epochs 6"


@pytest.mark.weekly
def test_the_two_worker_example_trains_on_two_nodes(user, docker_engine, tmp_path):
    done = user.call(
        *("create", "digits-docker", "--appdef", "app-packages/tensorflow"),
        *("--template", str(EXAMPLE / "appConfig.yaml")),
        *("--resources", str(EXAMPLE / "resources.yaml")),
        *("--files", str(EXAMPLE / "train.py")),
        *("--option", "site.global.user.scripts.args", ARGUMENTS),
        *("--option", "site.global.user.checkpoint.prefix", str(tmp_path)),
        *("--option", "site.global.docker.host", docker_engine.host),
        *in_docker(),
    )
    assert done.returncode == 0, done.stderr + user.call("logs", "digits-docker").stdout
    assert docker_engine.containers() == []
    accuracies = re.findall(r"test accuracy (\d\.\d+)", done.stdout)
    assert accuracies and float(accuracies[-1]) > 0.9
    instances = user.status("digits-docker")["status"]["instances"]
    assert {i["host"] for i in instances} == {"127.0.0.2", "127.0.0.3"}
    # Each ran in a container of Docker's, which the last report still names.
    assert len({i["docker"] for i in instances} - {None}) == 2


@pytest.mark.weekly
def test_commands_beside_a_program(tfapp, docker_engine):
    """In its container of Docker, at a port of the runner's node."""
    host = ("--option", "site.global.docker.host", docker_engine.host)
    create(tfapp, *in_docker(), *host, "--option", "site.global.exec", "true")
    check_commands(tfapp, "executable file not found in $PATH", VERY_LARGE)
    check_terminal(tfapp)
    check_what_ends(tfapp)
    check_end_of_runner(tfapp)
    tfapp.ok("stop", "app", "--force")
    tfapp.ok("destroy", "app")
