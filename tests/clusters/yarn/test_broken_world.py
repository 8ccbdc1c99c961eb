"""A cluster that cannot be reached, or does not work: one sentence, an exit code, no hanging."""

import json
import os
import re
import shutil
import subprocess

import pytest

from tests.clusters.yarn import programs
from tests.clusters.yarn.conftest import User
from tests.clusters.yarn.realm import adding
from tests.clusters.yarn.test_doctor import findings
from tests.end_to_end.command_line import read_until
from tests.gate import gate
from tfapp.engines.yarn.layout import YarnHome
from tfapp.engines.yarn.user_names import name_of


@pytest.fixture
def stranger(cluster, tmp_path):
    """A user without any driver yet."""
    found = User(tmp_path / "home", cluster.environ())
    yield found
    found.end_drivers()


def test_no_yarn_command(stranger):
    done = stranger.call("list", environ={"PATH": "/nowhere"})
    assert done.returncode == 53
    assert done.stderr.splitlines()[0] == "error: Hadoop's command yarn is not on PATH"


def test_no_java(stranger):
    done = stranger.call("list", environ={"JAVA_HOME": "/nowhere"})
    assert done.returncode == 53
    assert done.stderr.splitlines()[0] == "error: there is no Java in JAVA_HOME (/nowhere)"


def test_a_configuration_folder_without_configuration(stranger, cluster, tmp_path):
    empty = tmp_path / "conf"
    empty.mkdir()
    command = tmp_path / "bin" / "yarn"
    command.parent.mkdir()
    command.write_text(f"#!/bin/sh\necho {empty}\n")
    command.chmod(0o755)
    done = stranger.call(
        "list", environ={"HADOOP_CONF_DIR": str(empty), "PATH": str(command.parent)}
    )
    assert done.returncode == 53
    assert done.stderr.splitlines()[0] == (
        f"error: Hadoop's client has no yarn-site.xml (HADOOP_CONF_DIR is {empty})"
    )


@pytest.fixture
def configured(cluster, tmp_path):
    """Makes a copy of the cluster's configuration with some of its files changed by functions of
    their text, and the environment in which it counts."""

    def make(**changes) -> dict[str, str]:
        conf = tmp_path / "cluster" / "conf"
        shutil.copytree(cluster.folder / "conf", conf)
        shutil.copytree(cluster.commands, conf.parent / "bin")
        os.symlink(cluster.folder / "jars", conf.parent / "jars")
        for name, change in changes.items():
            site = conf / f"{name}-site.xml"
            site.write_text(change(site.read_text()))
        return {
            "HADOOP_CONF_DIR": str(conf),
            "YARN_CONF_DIR": str(conf),
            "PATH": f"{conf.parent / 'bin'}{os.pathsep}{os.environ['PATH']}",
        }

    return make


def test_the_resource_manager_is_down(stranger, configured):
    # Port 9 of a loopback address of its own: nobody listens there.
    environ = configured(yarn=lambda text: re.sub(r"127\.0\.0\.1:\d+", "127.0.0.99:9", text))
    done = stranger.call("list", environ=environ)
    assert done.returncode == 53
    assert done.stderr.splitlines()[0] == "error: YARN did not list applications within 10 s"


@pytest.mark.weekly
def test_the_resource_manager_is_silent_while_an_application_is_followed(
    user, cluster, configured, tmp_path
):
    """It goes on, and so does who follows it, who is told."""
    script = tmp_path / "train.py"
    script.write_text(programs.TAKES_A_WHILE)
    address = re.compile(r"(<name>yarn\.resourcemanager\.address</name><value>127\.0\.0\.1:)(\d+)")
    real = address.search((cluster.folder / "conf" / "yarn-site.xml").read_text())
    with gate(int(real[2])) as way:
        # By default Hadoop's client leaves 30 s between its attempts to connect.
        often = {"yarn.resourcemanager.connect.retry-interval.ms": 1000}
        environ = configured(
            yarn=lambda text: adding(address.sub(rf"\g<1>{way.port}", text), often)
        )
        follower = User(user.home, cluster.environ() | environ)
        with follower.start("run", str(script), "-w", "1", "--name", "steadfast") as process:
            try:
                read_until(process, process.stdout, "begins")
                way.shut()
                read_until(process, process.stderr, "tfapp goes on asking")
                way.open()
                _, said = process.communicate(timeout=300)
            finally:
                process.kill()
                follower.end_drivers()
    assert process.returncode == 0, said
    assert said.splitlines()[-1].startswith("steadfast: Succeeded: ")


def test_the_cluster_has_names_of_its_own_for_principals(cluster, configured, tmp_path):
    """Hadoop's own program applies the rules, once for each principal."""
    rule = r"RULE:[1:$1@$0](.*@AD\.EXAMPLE\.ORG)s/@.*///L DEFAULT"
    environ = cluster.environ() | configured(
        core=lambda text: adding(text, {"hadoop.security.auth_to_local": rule})
    )
    home = YarnHome(tmp_path / "home")
    assert name_of(home, environ, "JDoe@AD.EXAMPLE.ORG") == "jdoe"
    (record,) = (tmp_path / "home" / "users").iterdir()
    assert json.loads(record.read_text()) == {"JDoe@AD.EXAMPLE.ORG": "jdoe"}
    record.write_text('{"JDoe@AD.EXAMPLE.ORG": "known"}')
    assert name_of(home, environ, "JDoe@AD.EXAMPLE.ORG") == "known"
    # No rule fits: what is asked of the cluster next fails for it.
    assert name_of(home, environ, "Ann@ELSEWHERE.ORG") == "Ann"
    assert name_of(home, cluster.environ(), "JDoe@AD.EXAMPLE.ORG") == "JDoe"


@pytest.mark.weekly
def test_hdfs_is_in_safe_mode(user, cluster, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(programs.HELLO)
    before = cluster.metric("appsSubmitted")
    safe_mode(cluster, "enter")
    try:
        done = user.call("run", str(script), "-w", "1", "--name", "unsafe")
        code, found, _ = findings(user)
    finally:
        safe_mode(cluster, "leave")
    assert done.returncode == 53
    assert "safe mode" in done.stderr
    assert cluster.metric("appsSubmitted") == before
    assert user.call("exists", "unsafe").returncode == 69
    # The doctor says it too.
    assert code == 53
    assert [subject for subject, level in found.items() if level != "ok"] == ["hdfs"]


def safe_mode(cluster, action: str) -> None:
    subprocess.run(
        ["hdfs", "dfsadmin", "-safemode", action],
        env=cluster.environ(),
        capture_output=True,
        check=True,
        timeout=180,
    )
