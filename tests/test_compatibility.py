"""docs/compatibility.md says what the tests ran with, and what tfapp is made of."""

import configparser
import importlib.metadata
import re

import pytest

from tests.readme import README

ROOT = README.parent
PAGE = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")


def row(what: str) -> str:
    """The second column of a row."""
    (found,) = re.findall(rf"(?m)^\| {re.escape(what)}(?: \([^|]*\))? \| ([^|]*) \|", PAGE)
    return found


@pytest.mark.parametrize(
    ("what", "file", "pattern"),
    [
        ("Hadoop", "examples/yarn-cluster/pom.xml", r"<hadoop.version>([\d.]+)<"),
        ("Kubernetes", "examples/kubernetes-cluster/go.mod", r"k8s.io/kubernetes v([\d.]+)"),
        ("Kueue", "examples/kubernetes-cluster/kueue/go.mod", r"k8s.io/kueue v([\d.]+)"),
        ("Spark", "examples/spark-cluster/cluster.py", r'VERSION = "([\d.]+)"'),
        (
            "TensorFlow with Estimators",
            "tests/python_environments.py",
            r"tensorflow-cpu==([\d.]+)\.\*",
        ),
    ],
)
def test_versions_are_those_of_the_tests(what, file, pattern):
    (version,) = re.findall(pattern, (ROOT / file).read_text(encoding="utf-8"))
    assert version in row(what)


def test_skein_is_the_one_that_is_installed():
    assert row("Skein") == importlib.metadata.version("skein")


def test_all_that_it_needs_is_named_with_its_licence():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    extras = config["options.extras_require"]
    lists = [config["options"]["install_requires"], *(extras[e] for e in extras if e != "test")]
    needed = {name for text in lists for name in re.findall(r"(?m)^([\w-]+)", text)}
    told = re.findall(r"(?m)^\| (.*?) \|", PAGE.partition("## Licences")[2])
    assert {name for names in told for name in names.split(", ")} - {"package", "---"} == needed
    assert config["metadata"]["license"] == "Apache-2.0"
    assert "Version 2.0, January 2004" in (ROOT / "LICENSE").read_text(encoding="utf-8")
