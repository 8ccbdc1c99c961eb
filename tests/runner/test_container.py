"""Reading of a container, and the folders of its programs."""

import dataclasses
from pathlib import Path

import pytest

from tests.test_script import context_of
from tfapp.contract.encoding import encode
from tfapp.contract.job import Private
from tfapp.contract.names import JOB_FILE, PRIVATE_FILE
from tfapp.runner.container import Container, ContainerError

ENVIRON = {
    "TFAPP_INSTANCE": "worker/1",
    "TFAPP_GENERATION": "3",
    "SKEIN_CONTAINER_ID": "worker_7",
    "CONTAINER_ID": "container_1_0001_01_000002",
    "LOG_DIRS": "/logs/a,/logs/b",
    "NM_HOST": "node7",
}


@pytest.fixture
def root(tmp_path):
    (tmp_path / JOB_FILE).write_bytes(encode(context_of({}).job))
    (tmp_path / PRIVATE_FILE).write_bytes(encode(Private({"worker": {"A": "1"}}, ("s3cret",))))
    return tmp_path


def test_a_container_is_read(root):
    container = Container.read(root, ENVIRON)
    assert (container.component.name, container.index, container.generation) == ("worker", 1, 3)
    assert (container.id, str(container.log_dir)) == ("worker_7", "/logs/a")
    assert container.private == Private({"worker": {"A": "1"}}, ("s3cret",))
    assert container.known() == {
        "COMPONENT_ID": "1",
        "CONTAINER_ID": "container_1_0001_01_000002",
        "AGENT_WORK_ROOT": str(root),
        "AGENT_LOG_ROOT": "/logs/a",
        "WORK_DIR": f"{root}/work",
    }


def test_the_containers_that_a_service_begins_with_are_known_by_their_number(root):
    container = Container.read(root, {"SKEIN_CONTAINER_ID": "worker_1"})
    assert (container.component.name, container.index, container.generation) == ("worker", 1, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"TFAPP_INSTANCE": None, "SKEIN_CONTAINER_ID": "chief_0"}, "chief is not known in this"),
        ({"TFAPP_INSTANCE": "worker"}, "'worker' is not an instance such as 'worker/0'"),
        ({"TFAPP_INSTANCE": "ps/0"}, "ps is not known in this container"),
        ({"SKEIN_CONTAINER_ID": None}, "SKEIN_CONTAINER_ID is not known in this container"),
        ({"TFAPP_GENERATION": "x"}, "invalid literal for int"),
    ],
)
def test_what_is_no_container_says_why(root, changes, message):
    environ = {name: value for name, value in {**ENVIRON, **changes}.items() if value is not None}
    with pytest.raises(ContainerError, match=message):
        Container.read(root, environ)


def test_a_container_without_its_job_says_so(root):
    (root / JOB_FILE).unlink()
    with pytest.raises(ContainerError, match="No such file"):
        Container.read(root, ENVIRON)


@pytest.mark.parametrize(
    ("site", "environ", "host"),
    [
        ({}, {}, "127.0.0.1"),
        ({}, ENVIRON, "node7"),
        ({"site.global.advertise.host": "10.0.0.5"}, ENVIRON, "10.0.0.5"),
    ],
)
def test_the_advertised_host(root, site, environ, host):
    container = dataclasses.replace(Container.read(root, ENVIRON), environ=environ)
    assert container.host(site) == host


@pytest.mark.parametrize(
    ("prefix", "folder"),
    [
        ("/mnt/ckpt", "/mnt/ckpt/digits"),
        ("/mnt/ckpt/", "/mnt/ckpt/digits"),
        ("/", "/digits"),
        ("hdfs://nn/ckpt", "hdfs://nn/ckpt/digits"),
    ],
)
def test_checkpoints_stand_under_their_prefix(root, prefix, folder):
    container = Container.read(root, ENVIRON)
    assert container.checkpoint_dir({"site.global.user.checkpoint.prefix": prefix}) == folder


def test_without_a_prefix_checkpoints_stay_in_the_container(root):
    assert Container.read(root, ENVIRON).checkpoint_dir({}) == f"{root}/checkpoints"


@pytest.mark.parametrize(
    ("prefix", "kind", "cleared"),
    [
        ("", "folder", True),
        ("", "link", True),
        ("", "nothing", False),
        ("ROOT/own", "folder", True),
        ("SHARED", "folder", False),
        ("hdfs://namenode/ckpt", "nothing", False),
    ],
)
def test_only_checkpoints_in_the_container_are_cleared(
    root, tmp_path_factory, prefix, kind, cleared
):
    shared = tmp_path_factory.mktemp("shared")
    prefix = prefix.replace("ROOT", str(root)).replace("SHARED", str(shared))
    site = {"site.global.user.checkpoint.prefix": prefix} if prefix else {}
    container = Container.read(root, ENVIRON)
    folder = Path(container.checkpoint_dir(site))
    kept = shared / "kept" / "ckpt-1"
    kept.parent.mkdir()
    kept.touch()
    if kind == "folder":
        folder.mkdir(parents=True)
        (folder / "ckpt-1").touch()
    elif kind == "link":
        folder.symlink_to(kept.parent)
    before = {path.name for path in root.iterdir()}
    assert container.clear_checkpoints(site) is cleared
    assert folder.exists() is (kind != "nothing" and not cleared)
    assert kept.exists()
    assert {path.name for path in root.iterdir()} == before - {"checkpoints"}


def test_the_interpreter_and_the_data(root):
    container = Container.read(root, ENVIRON)
    assert (container.python({}), container.data_dir({})) == ("python3", "")
    site = {"site.global.python.executable": "/opt/tf/python", "site.global.user.data.dir": "/d"}
    assert (container.python(site), container.data_dir(site)) == ("/opt/tf/python", "/d")


def test_a_program_does_not_see_skein(root):
    environ = Container.read(root, ENVIRON).inherited_environ()
    assert environ == {key: value for key, value in ENVIRON.items() if "SKEIN" not in key}


def test_the_work_folder_links_to_the_files(root):
    (root / "files" / "data").mkdir(parents=True)
    (root / "files" / "train.py").write_text("pass")
    container = Container.read(root, ENVIRON)
    container.make_work_dir()
    (container.work_dir / "train.py").unlink()
    (container.work_dir / "train.py").write_text("own")
    container.make_work_dir()
    assert (container.work_dir / "train.py").read_text() == "own"
    assert (container.work_dir / "data").resolve() == (root / "files" / "data").resolve()


def test_an_application_without_files_has_an_empty_work_folder(root):
    container = Container.read(root, ENVIRON)
    container.make_work_dir()
    assert list(container.work_dir.iterdir()) == []
