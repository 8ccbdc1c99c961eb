"""Whatever is wrong with this machine's disks: a call says it in a sentence, as an error of tfapp
with the system's own as its cause. Each entry point in each world."""

from __future__ import annotations

import errno
import functools
import inspect
import os
import shutil
import tempfile

import pytest

import tfapp
from tests.cli.commands.test_damaged import succeeded
from tfapp.api.handle import Application
from tfapp.disk import make_private
from tfapp.errors import TfappError, UnavailableError, causes


@pytest.fixture
def place(tmp_path, tfapp_home, monkeypatch):
    """A folder of our own. TFAPP_HOME has "app", which has succeeded; no master can be started."""
    made = tmp_path / "environment"  # pip is not what is tried here
    (made / "bin").mkdir(parents=True)
    monkeypatch.setattr("tfapp.environment.build._make", lambda *_: made)
    succeeded(tmp_path, tfapp_home, monkeypatch)
    (tmp_path / "train.py").write_text("print(1)")
    make_private(tmp_path / "there")
    monkeypatch.chdir(tmp_path / "there")
    return tmp_path


class Feeds:
    """In the place of what feeds an application: it uses the disk, and nothing else."""

    stopped = False

    def __getattr__(self, name):
        return lambda *_: os.listdir(os.environ["TFAPP_HOME"] + "/apps")


NEW = {"name": "new", "show": False}
CALLS = {
    "run": lambda place: tfapp.run(place / "train.py", **NEW),
    "submit": lambda place: tfapp.submit(place / "train.py", packages=["mine"], **NEW),
    "compile": lambda place: tfapp.compile(place / "train.py", name="new"),
    "write_package": lambda place: tfapp.write_package(
        place / "package", place / "train.py", name="new"
    ),
    "open": lambda place: tfapp.open("app", "local"),
}
# Values, and what uses no disk of this machine here; a program calls the others.
NO_CALLS = {"Application", "Component", "Context", "Experiment", "KerasExperiment", "Result"}
NO_CALLS |= {"NamedFunction", "all_reduce", "errors", "parameter_servers", "single_server"}
NO_CALLS |= {"log_to_mlflow"}  # MLflow's own errors

METHODS = {
    "destroy": lambda app, place: app.destroy(),
    "end_feed": lambda app, place: app.end_feed(),
    "exec": lambda app, place: app.exec("w/0", "true"),
    "exports": lambda app, place: app.exports(),
    "feed": lambda app, place: app.feed([]),
    "feed_is_over": lambda app, place: app.feed_is_over,
    "fetch": lambda app, place: app.fetch(place / "fetched"),
    "finished": lambda app, place: app.finished(app._application.status),
    "flex": lambda app, place: app.flex("w", 2),
    "follow": lambda app, place: app.follow(),
    "follow_with": None,  # of `run` alone
    "infer": lambda app, place: app.infer([], "x int"),
    "kill": lambda app, place: app.kill("w/0"),
    "logs": lambda app, place: app.logs(),
    "open_feed": lambda app, place: app.open_feed(None),
    "profile": lambda app, place: app.profile(),
    "result": lambda app, place: app.result(),
    "stacks": lambda app, place: app.stacks(),
    "status": lambda app, place: app.status(),
    "stop": lambda app, place: app.stop(),
    "tensorboard": lambda app, place: app.tensorboard(),
    "wait": lambda app, place: app.wait(),
    "wait_until_running": lambda app, place: app.wait_until_running(),
    "__enter__": lambda app, place: app.__enter__(),
    "__exit__": lambda app, place: app.__exit__(),
    "result.logs": lambda app, place: dict(app.finished(app._application.status).logs),
    "result.returned": lambda app, place: dict(app.finished(app._application.status).returned),
}
ENTRIES = [*CALLS, *(f"app.{name}" for name, call in METHODS.items() if call)]


def test_the_table_has_all_entry_points():
    assert {*CALLS} | NO_CALLS == {*tfapp.__all__}
    public = {name for name, _ in inspect.getmembers(Application) if not name.startswith("_")}
    assert {name for name in METHODS if "." not in name and "__" not in name} == public


def failing(name: str, number: int, home, monkeypatch) -> None:
    """Lets a call of the system fail, for paths that are tfapp's."""
    sound = getattr(os, name)

    def fails(path=None, *args, **more):
        place = str(path)
        if "/tfapp-" in place or place.startswith(os.environ["TFAPP_HOME"]):
            raise OSError(number, os.strerror(number), place)
        return sound(path, *args, **more)

    monkeypatch.setattr(os, name, fails)


def a_file(home, monkeypatch):
    shutil.rmtree(home)
    home.write_text("")


def a_ring(home, monkeypatch):
    """Below `home`: at its end pytest follows the links among its own folders."""
    (home / "ring").symlink_to("ring")
    monkeypatch.setenv("TFAPP_HOME", str(home / "ring"))


def a_folder_that_nobody_may_write(home, monkeypatch):
    monkeypatch.setenv("TFAPP_HOME", "/sys/tfapp")


def no_working_folder(home, monkeypatch):
    shutil.rmtree(os.getcwd())


def no_temporary_folder(home, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/sys"])


WORLDS = {
    "TFAPP_HOME is a file": a_file,
    "TFAPP_HOME is a ring of links": a_ring,
    "TFAPP_HOME is nobody's": a_folder_that_nobody_may_write,
    "no working folder": no_working_folder,
    "no temporary folder": no_temporary_folder,
}
for number in (errno.ENOSPC, errno.EACCES, errno.EIO):
    for name in ("listdir", "mkdir"):
        broken = functools.partial(failing, name, number)
        WORLDS[f"{errno.errorcode[number]} of {name}"] = broken


@pytest.mark.parametrize("world", WORLDS)
def test_each_entry_point_says_what_is_wrong(place, tfapp_home, monkeypatch, world):
    sound = shutil.copytree(tfapp_home, place / "sound")
    told = {}
    for entry in ENTRIES:
        tfapp_home.unlink() if not tfapp_home.is_dir() else shutil.rmtree(tfapp_home)
        shutil.copytree(sound, tfapp_home)
        (place / "there").mkdir(exist_ok=True)
        os.chdir(place / "there")
        app = tfapp.open("app", "local")
        app._show, app._feeding = False, Feeds()
        method = entry.removeprefix("app.")
        with monkeypatch.context() as patch:
            WORLDS[world](tfapp_home, patch)
            try:
                METHODS[method](app, place) if method != entry else CALLS[entry](place)
            except TfappError as error:
                told[entry] = error
            except OSError as error:
                pytest.fail(f"{entry}: {error!r}")
    for entry, error in told.items():
        if isinstance(error, UnavailableError):
            assert str(error).startswith(error.message), entry
            assert any(isinstance(one, OSError) for one in causes(error)), (entry, error)
    assert told, "this world is not broken"


def test_an_error_of_the_caller_is_left_alone(place):
    def changed(status):
        raise FileNotFoundError("mine")

    with pytest.raises(FileNotFoundError, match="mine"):
        tfapp.open("app", "local").follow(changed)
