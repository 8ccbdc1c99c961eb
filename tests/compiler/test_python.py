"""The Python that a specification asks for."""

from __future__ import annotations

import hashlib

import pytest

from tests import python_environments
from tests.compiler.packages import compile_with, options, package
from tfapp.compiler.python import node_python
from tfapp.compiler.specification import container_script
from tfapp.errors import InvalidPackageError

ARCHIVE = "site.global.python.archive"
PACKAGES = "site.global.python.packages"
EXECUTABLE = "site.global.python.executable"
RUNNER = "site.global.python.runner"
PLACE = "hdfs://namenode:9000/user/ann/.tfapp/cache"


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    folder = tmp_path_factory.mktemp("python")
    environment = python_environments.make(folder / "env", borrow=False)
    return python_environments.pack(environment, folder / "env.tar.gz")


def files(part) -> dict[str, tuple[str, str, str]]:
    return {
        name: (file.source, str(file.type), str(file.visibility))
        for name, file in part.files.items()
        if name.startswith("tfapp-python")
    }


def test_an_archive_lies_in_every_container_that_runs_it(archive, tmp_path):
    built = package(settings={ARCHIVE: str(archive)})
    compiled = compile_with(built, cache=tmp_path)
    travels = {"tfapp-python": (f"file://{archive}", "ARCHIVE", "APPLICATION")}
    assert files(compiled.spec.services["worker"]) == travels
    assert files(compiled.spec.master) == {}  # this Python runs the coordinator
    assert compiled.job.python == "tfapp-python/bin/python"
    spec = compile_with(built, cache=tmp_path, python="tfapp-python/bin/python").spec
    assert files(spec.master) == travels


def test_at_its_place_it_is_named_by_its_content(archive, tmp_path):
    built = package(settings={ARCHIVE: f"file://{archive}"})
    compiled = compile_with(built, cache=tmp_path, place=PLACE)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    url = f"{PLACE}/{digest}.tar.gz"
    assert files(compiled.spec.services["worker"]) == {"tfapp-python": (url, "ARCHIVE", "PRIVATE")}
    assert compiled.travelling is not None
    assert (compiled.travelling.path, compiled.travelling.name) == (archive, f"{digest}.tar.gz")


def test_one_on_a_cluster_stays_there():
    built = package(settings={ARCHIVE: "hdfs:///shared/${USER_NAME}/env.pex"})
    compiled = compile_with(built, place=PLACE, python="tfapp-python/bin/python")
    worker, url = compiled.spec.services["worker"], "hdfs:///shared/ann/env.pex"
    assert files(worker) == {"tfapp-python.pex": (url, "FILE", "APPLICATION")}
    assert "PEX_INTERPRETER=1" in worker.script
    assert "PEX_INTERPRETER=1" in compiled.spec.master.script


@pytest.mark.parametrize(
    ("settings", "python", "key"),
    [
        ({}, "/opt/python/bin/python3", EXECUTABLE),
        ({EXECUTABLE: "/opt/tf/python"}, "/opt/tf/python", EXECUTABLE),
        ({EXECUTABLE: "python3", RUNNER: "/usr/bin/python3"}, "/usr/bin/python3", RUNNER),
        ({ARCHIVE: "hdfs:///env.tgz"}, "tfapp-python/bin/python", ARCHIVE),
        ({PACKAGES: "tensorflow"}, "tfapp-python/bin/python", PACKAGES),
        ({PACKAGES: "tensorflow", RUNNER: "/usr/bin/python3"}, "/usr/bin/python3", RUNNER),
    ],
)
def test_what_runs_tfapp_on_a_node(settings, python, key):
    assert node_python(package(settings=settings), options()) == (python, key)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("{}/no.tar.gz", "{}/no.tar.gz cannot be read: No such file or directory"),
        ("{}/text.tgz", "{}/text.tgz cannot be read: not a gzip file"),
        ("{}/${{USER_NAME}}.zip", "{}/ann.zip is not the absolute path of an archive of Python"),
    ],
)
def test_what_is_no_archive(tmp_path, path, said):
    (tmp_path / "text.tgz").write_text("hello")
    (tmp_path / "ann.zip").touch()
    built = package(settings={ARCHIVE: path.format(tmp_path)})
    for place in ("", PLACE):
        with pytest.raises(InvalidPackageError) as error:
            compile_with(built, cache=tmp_path, place=place)
        (problem,) = error.value.problems
        assert problem.code == "python-environment"
        assert problem.message == said.format(tmp_path)


def test_scripts_without_a_pex_do_not_mention_one():
    assert "PEX" not in container_script("/opt/python", "runner", "key")
