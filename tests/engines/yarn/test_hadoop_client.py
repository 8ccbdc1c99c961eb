"""The Hadoop client of this machine."""

import pytest

from tfapp.engines.yarn.hadoop_client import find_java, find_yarn, fingerprint, read_class_path
from tfapp.errors import UnavailableError


@pytest.fixture
def command(tmp_path):
    """Makes a `yarn` that runs `script`, and the environment in which it is found."""

    def make(script: str) -> dict[str, str]:
        path = tmp_path / "bin" / "yarn"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return {"PATH": str(path.parent)}

    return make


def test_java_is_that_of_java_home(tmp_path):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.touch(0o755)
    assert find_java({"JAVA_HOME": str(tmp_path), "PATH": "/nowhere"}) == str(java)
    assert find_java({"PATH": str(java.parent)}) == str(java)


@pytest.mark.parametrize("find", [find_java, find_yarn])
def test_what_is_not_on_path_is_missed(find):
    with pytest.raises(UnavailableError, match="not on PATH"):
        find({"PATH": "/nowhere"})


def test_a_class_path_has_a_configuration(command, tmp_path):
    (tmp_path / "yarn-site.xml").touch()
    assert read_class_path(command(f"echo {tmp_path}:/a.jar")) == f"{tmp_path}:/a.jar"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo /a.jar", "Hadoop's client has no yarn-site.xml (HADOOP_CONF_DIR is not set)"),
        ("echo no >&2; exit 3", "`yarn classpath --glob` failed: no"),
    ],
)
def test_a_class_path_that_is_none_is_refused(command, script, message):
    with pytest.raises(UnavailableError) as raised:
        read_class_path(command(script))
    assert raised.value.message == message


def test_another_configuration_is_another_cluster(tmp_path):
    environ = {"HADOOP_CONF_DIR": str(tmp_path), "PATH": "/nowhere"}
    site = tmp_path / "yarn-site.xml"
    site.write_text("<configuration/>")
    first = fingerprint(environ)
    assert fingerprint({**environ, "TERM": "dumb"}) == first
    site.write_text("<configuration><!-- moved --></configuration>")
    assert fingerprint(environ) != first
    assert fingerprint({**environ, "HADOOP_USER_NAME": "other"}) != fingerprint(environ)
