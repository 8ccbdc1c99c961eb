"""The Python that a specification asks for."""

import hashlib
from pathlib import Path

import pytest

from tests import python_environments
from tests.compiler.packages import compile_with, component, options, package
from tfapp.compiler.python import find_python
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


def own_python(built, name="", **changes) -> tuple[str, str]:
    """The interpreter of tfapp's own part, and the key that names it."""
    found = find_python(built, options(**changes), name)
    return found.own, found.key


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
    assert files(compiled.spec.services["worker"]) == files(compiled.spec.master) == travels
    assert compiled.job.component("worker").python == "tfapp-python/bin/python"
    spec = compile_with(built, cache=tmp_path, python_runs=True).spec
    assert files(spec.services["worker"]) == travels
    assert files(spec.master) == {}  # this Python runs the coordinator


def test_at_its_place_it_is_named_by_its_content(archive, tmp_path):
    built = package(settings={ARCHIVE: f"file://{archive}"})
    compiled = compile_with(built, cache=tmp_path, place=PLACE)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    url = f"{PLACE}/{digest}.tar.gz"
    assert files(compiled.spec.services["worker"]) == {"tfapp-python": (url, "ARCHIVE", "PRIVATE")}
    travelling = compiled.environments["worker"]
    assert (travelling.path, travelling.name) == (archive, f"{digest}.tar.gz")


def test_one_that_a_dry_run_has_not_made_has_its_name_here(tmp_path):
    made = tmp_path / "0123.tar.gz"
    built = package(settings={PACKAGES: "tensorflow"})
    compiled = compile_with(built, place=PLACE, python_archive=made)
    url = f"{PLACE}/0123.tar.gz"
    assert files(compiled.spec.services["worker"]) == {"tfapp-python": (url, "ARCHIVE", "PRIVATE")}


def test_one_on_a_cluster_stays_there():
    built = package(settings={ARCHIVE: "hdfs:///shared/${USER_NAME}/env.pex"})
    compiled = compile_with(built, place=PLACE)
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
    built = package(settings=settings)
    assert own_python(built) == own_python(built, "worker") == (python, key)
    here = own_python(built, "worker", python_runs=True)
    assert here == ("/opt/python/bin/python3", EXECUTABLE)


HDFS = {"tfapp-python": ("hdfs:///own.tgz", "ARCHIVE", "APPLICATION")}
RUNS = "tfapp-python/bin/python"


@pytest.mark.parametrize(
    ("settings", "of_all", "coordinator", "program"),
    [
        # What the others and the coordinator have.
        ({}, {}, "/opt/python/bin/python3", "/opt/python/bin/python3"),
        ({EXECUTABLE: "/opt/tf/python"}, {}, "/opt/tf/python", "/opt/tf/python"),
        ({RUNNER: "/usr/bin/python3"}, {}, "/usr/bin/python3", "/usr/bin/python3"),
        (
            {ARCHIVE: "hdfs:///all.pex"},
            {"tfapp-python.pex": ("hdfs:///all.pex", "FILE", "APPLICATION")},
            RUNS,
            RUNS,
        ),
        (
            {PACKAGES: "tensorflow"},
            {"tfapp-python": ("file:///made.tar.gz", "ARCHIVE", "APPLICATION")},
            RUNS,
            RUNS,
        ),
    ],
)
def test_an_archive_of_a_component_takes_the_place_of_what_all_have(
    settings, of_all, coordinator, program
):
    built = package(
        component("worker"),
        component("ps"),
        settings=settings,
        own={"worker": {ARCHIVE: "hdfs:///own.tgz"}},
    )
    made = Path("/made.tar.gz") if PACKAGES in settings else None
    compiled = compile_with(built, python_archive=made)
    spec, job = compiled.spec, compiled.job
    assert files(spec.services["worker"]) == HDFS
    assert files(spec.services["ps"]) == files(spec.master) == of_all
    assert own_python(built) == own_python(built, "ps")
    assert own_python(built)[0] == coordinator
    runner = settings.get(RUNNER)
    expected = (runner, RUNNER) if runner else (RUNS, ARCHIVE)
    assert own_python(built, "worker") == expected
    assert (job.component("worker").python, job.component("ps").python) == (RUNS, program)


def test_each_archive_that_is_none_is_named_where_it_stands(archive, tmp_path):
    built = package(
        component("worker"),
        component("ps"),
        settings={ARCHIVE: str(archive)},
        own={name: {ARCHIVE: "/no/${COMPONENT_NAME}.tgz"} for name in ("worker", "ps")},
    )
    with pytest.raises(InvalidPackageError) as error:
        compile_with(built, cache=tmp_path)
    assert [(p.position.line, p.message) for p in error.value.problems] == [
        (50, f"/no/{name}.tgz cannot be read: No such file or directory")
        for name in ("ps", "worker")
    ]


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
