"""Whatever has become of a file that tfapp wrote: a command does without it, or says one sentence
that names it, with an exit code that is documented."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import time
import zipfile
from pathlib import Path

import pytest

from tests import python_environments
from tests.cli.commands.call import call
from tests.cli.played_engine import SUCCESS, PlayedEngine, status
from tests.engines.applications import compiled, environ, run_folder, service
from tests.engines.yarn.file_system import FileSystem
from tests.engines.yarn.played_yarn import PlayedYarn
from tfapp.contract.names import INSTANCE_FILE, RETURNED_FILE
from tfapp.contract.status import conclude
from tfapp.disk import make_private, write_json
from tfapp.engines.credentials import new_credentials
from tfapp.engines.local.engine import LocalEngine
from tfapp.engines.machine.folders import RunFolder
from tfapp.engines.machine.state import MasterState, RunConfig, read_config
from tfapp.engines.spark.driver import _address
from tfapp.engines.spark.engine import SparkEngine
from tfapp.engines.yarn.engine import YarnEngine
from tfapp.engines.yarn.run import YarnRun
from tfapp.engines.yarn.shared_folder import SharedRecord
from tfapp.environment.archive import UnfitError, look
from tfapp.environment.interpreter import installations
from tfapp.environment.probe import CannotRunError, ask
from tfapp.errors import ExitCode, UnavailableError
from tfapp.master.ending import Ending
from tfapp.processes import Process, identify
from tfapp.shipped import app_packages_dir

GONE = Process(2**22 + 1, 1)  # no process has this number

# What becomes of a file, by the file that it was.
CONTENT = {
    "nothing": lambda path: b"",
    "half": lambda path: path.read_bytes()[: path.stat().st_size // 2],
    "bytes": lambda path: b'{"name": "\xff\xfe"}',
    "a list": lambda path: b"[]",
    "a text": lambda path: b'"x"',
    "a number": lambda path: b"3",
    "null": lambda path: b"null",
    "no field": lambda path: b"{}",
    "other fields": lambda path: json.dumps(other(json.loads(path.read_bytes()))).encode(),
    "deep": lambda path: b"[" * 100_000,
}
OF_ANY = ["nothing", "bytes", "a folder", "a dangling link", "a ring of links"]
OF_ANY += ["forbidden"] if os.getuid() else []  # root may read all
OF_JSON = [*CONTENT, *OF_ANY[2:]]
OF_FOLDERS = [*OF_ANY[:1], *OF_ANY[3:]]


def other(data):
    """The same JSON, with values of another type."""
    if isinstance(data, dict):
        return {key: other(value) for key, value in data.items()}
    return {"x": 3} if isinstance(data, (str, list)) else [data]


def damage(path: Path, how: str) -> None:
    new = CONTENT[how](path) if how in CONTENT else b"{}"
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    if how == "a folder":
        path.mkdir()
    elif "link" in how:
        path.symlink_to("nowhere" if how == "a dangling link" else path.name)
    else:
        path.write_bytes(new)
        path.chmod(0 if how == "forbidden" else 0o600)


def check(tmp_path: Path, engine, file: str, how: str, command: str) -> str:
    """Calls a command, and returns what it says on standard error."""
    code, a_shell = call(tmp_path, engine, *command.split())
    said, row = a_shell.err.text, (file, how, command)
    assert code in set(ExitCode) - {ExitCode.INTERNAL_ERROR}, (*row, said)
    assert "Traceback" not in said, (*row, said)
    if code in (ExitCode.UNAVAILABLE, ExitCode.BAD_STATE, ExitCode.UNREACHABLE):
        # YARN has another copy of credentials, which is tried.
        named = str(tmp_path / "home" / file) in said or "credentials of application_" in said
        assert said.count("error: ") == 1 and named, (*row, said)
    return said


class NoMaster:
    """In the place of a master that is started."""

    run = None

    def __init__(self, *_):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def wait_for_process(self):
        return GONE, GONE

    def go(self):
        pass

    wait = go


def succeeded(folder: Path, home: Path, monkeypatch) -> LocalEngine:
    """Of one application, which has succeeded, with a checkpoint in `folder`. No master starts."""
    monkeypatch.setattr("tfapp.engines.machine.runs.MasterStart", NoMaster)
    engine = LocalEngine(home, environ=environ())
    engine.create("app", compiled(w=service("exit 0")))
    run = run_folder(engine)
    done = conclude(read_config(run).accepted, SUCCESS, 1e9, "SUCCEEDED")
    done = dataclasses.replace(done, checkpoint_dir=str(make_private(folder / "saved")))
    write_json(run.ending, Ending("SUCCEEDED", "done", done))
    (folder / "saved" / "ckpt").touch()
    return engine


@pytest.fixture
def engine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # `fetch` writes there
    engine = succeeded(tmp_path, tmp_path / "home", monkeypatch)
    run = run_folder(engine)
    for name, text in {
        "w.log": "one\ntwo\n",
        "w.log.times": "0 1000000000.00\n4 1000000001.00\n",
        INSTANCE_FILE: "w/0",
        RETURNED_FILE: '{"generation": 1, "value": 3}',
    }.items():
        (make_private(run.logs / "w_0") / name).write_text(text)
    for name in (".lock", ".tidied"):
        (make_private(tmp_path / "home" / "cache") / name).touch()
    made_from = {"id": engine.find("app").id, "package": "", "files": {"/a": [1, 2, "x"]}}
    write_json(make_private(tmp_path / "home" / "sources" / "local") / "app.json", made_from)
    return engine


RUN = "apps/app/runs/1"
FILES = {
    "apps/app/definition.json": OF_JSON,
    "apps/app/runs": OF_FOLDERS,
    f"{RUN}/run.json": OF_JSON,
    f"{RUN}/state.json": OF_JSON,
    f"{RUN}/verdict.json": OF_JSON,
    f"{RUN}/logs": OF_FOLDERS,
    f"{RUN}/logs/master": OF_FOLDERS,
    f"{RUN}/logs/w_0": OF_FOLDERS,
    f"{RUN}/logs/w_0/w.log": OF_ANY,
    f"{RUN}/logs/w_0/w.log.times": OF_ANY,
    f"{RUN}/logs/w_0/{INSTANCE_FILE}": OF_ANY,
    f"{RUN}/logs/w_0/{RETURNED_FILE}": OF_JSON,
    "locks/app": OF_ANY,
    "last-id": [*OF_ANY, "a text"],
    "gpus": OF_FOLDERS,
    "cache": OF_FOLDERS,
    "cache/.lock": OF_ANY,
    "cache/.tidied": OF_ANY,
    "sources/local/app.json": OF_JSON,
}
# The last but one changes the application.
READING = "list|status app --format json|logs app|logs app w/0 --timestamps|wait app|stop app"
COMMANDS = [
    *READING.split("|"),
    "fetch app fetched",
    "report app -o app.html",
    "start app --detach",
]


@pytest.mark.parametrize("file", FILES)
def test_of_an_application_that_has_ended(tmp_path, engine, file):
    sound = shutil.copytree(tmp_path / "home", tmp_path / "sound", symlinks=True)
    for how in FILES[file]:
        for commands in (COMMANDS, ["destroy app"]):
            for folder in ("home", "fetched"):
                shutil.rmtree(tmp_path / folder, ignore_errors=True)
            shutil.copytree(sound, tmp_path / "home", symlinks=True)
            damage(tmp_path / "home" / file, how)
            for command in commands:
                check(tmp_path, engine, file, how, command)


def test_a_definition_that_is_gone_is_no_unknown_application(tmp_path, engine):
    engine._home.app("app").definition.unlink()
    said = check(tmp_path, engine, "apps/app/definition.json", "gone", "start app --detach")
    assert "definition.json is missing" in said


# An empty one makes gRPC abort the process.
CREDENTIALS = [("pem", how) for how in ("nothing", "half", "bytes", "a folder", "a ring of links")]
CREDENTIALS += [("crt", "nothing"), ("crt", "half")]


@pytest.mark.slow
def test_credentials_of_one_that_runs(tmp_path, engine):
    run = run_folder(engine)
    run.ending.unlink()
    with contextlib.ExitStack() as stack:
        master = stack.enter_context(subprocess.Popen(["sleep", "1000"]))
        stack.callback(master.kill)
        process = identify(master.pid)
        write_json(run.state, MasterState(process, os.uname().nodename, "127.0.0.1:1"))
        pem = dict(zip(("crt", "pem"), new_credentials(time.time())))
        for kind, how in CREDENTIALS:
            for each, content in pem.items():
                damage(run.security / f"skein.{each}", "nothing")
                (run.security / f"skein.{each}").write_bytes(content)
            file = f"{RUN}/security/skein.{kind}"
            damage(tmp_path / "home" / file, how)
            said = check(tmp_path, engine, file, how, "status app")
            assert "`tfapp stop app --force` ends it." in said
        check(tmp_path, engine, file, how, "list")
        assert check(tmp_path, engine, file, how, "stop app --force") == "app: KILLED\n"


MADE = {
    "cache": OF_FOLDERS,
    "cache/.lock": OF_ANY,
    "cache/known-to-fit": OF_ANY,
    "cache/private.key": [*OF_ANY, "half"],
    "sources": OF_FOLDERS,
    "sources/local/app.json": OF_ANY,
}


@pytest.mark.slow
def test_what_is_shared_when_another_is_made(tmp_path):
    engine = PlayedEngine(tmp_path / "played", [status("SUCCEEDED", verdict=SUCCESS)])
    create = f"create app --appdef {app_packages_dir() / 'tensorflow'} --detach"
    for file, hows in MADE.items():
        for how in hows:
            check(tmp_path, engine, "", "sound", create)
            damage(tmp_path / "home" / file, how)
            check(tmp_path, engine, file, how, create)
            damage(tmp_path / "home" / file, "nothing")
            (tmp_path / "home" / file).unlink()


# ---- Python environments in the cache ------------------------------------------------------------
OF_ARCHIVES = ["nothing", "bytes", "deep", *OF_FOLDERS[1:], "a folder"]
ENVIRONMENTS = {
    "archive": {"cache/environments/{}": OF_FOLDERS, "cache/environments/{}/bin": OF_FOLDERS},
    "packages": {"cache/environments/{}.tar.gz": OF_ARCHIVES, "cache/environments": OF_FOLDERS},
}
PLAIN = Path(__file__).parents[2] / "end_to_end" / "packages" / "plain"


@pytest.mark.slow
@pytest.mark.parametrize(("key", "file"), [(k, f) for k in ENVIRONMENTS for f in ENVIRONMENTS[k]])
def test_an_environment_is_made_again(tmp_path, monkeypatch, key, file):
    made = python_environments.make(tmp_path / "env", borrow=False)
    archive = python_environments.pack(made, tmp_path / "env.tar.gz")
    monkeypatch.setattr("tfapp.environment.build._make", lambda *_: made)
    engine = PlayedEngine(tmp_path / "played", [status("SUCCEEDED", verdict=SUCCESS)])
    value = archive if key == "archive" else "mine"
    create = f"create app --appdef {PLAIN} --detach --option site.global.python.{key} {value}"
    said = check(tmp_path, engine, "", "sound", create)
    assert "once" in said
    cache = tmp_path / "home" / "cache" / "environments"
    (name,) = {p.name.partition(".")[0] for p in cache.iterdir() if key == "archive" or p.is_file()}
    hows, file = ENVIRONMENTS[key][file], file.format(name)
    for how in hows:
        damage(tmp_path / "home" / file, how)
        said = check(tmp_path, engine, file, how, create)
        if file == "cache/environments":  # its content is not known
            damage(tmp_path / "home" / file, "a folder")
            said = check(tmp_path, engine, file, how, create)
        assert "once" in said and "error" not in said, (file, how, said)
        assert "once" not in check(tmp_path, engine, file, how, create)


def test_an_archive_that_was_cut_is_named_with_a_way_out(tmp_path, monkeypatch):
    made = python_environments.make(tmp_path / "env", borrow=False)
    (made / "lib" / "much").write_bytes(os.urandom(1 << 20))
    monkeypatch.setattr("tfapp.environment.build._make", lambda *_: made)
    engine = PlayedEngine(tmp_path / "played", [status("SUCCEEDED", verdict=SUCCESS)])
    create = f"create app --appdef {PLAIN} --detach --option site.global.python.packages mine"
    check(tmp_path, engine, "", "sound", create)
    (archive,) = (tmp_path / "home" / "cache" / "environments").glob("*.tar.gz")
    damage(archive, "half")
    said = check(tmp_path, engine, "", "half", create)
    assert f"{archive} cannot be unpacked: " in said
    assert "delete it, and it is made again" in said
    archive.unlink()
    assert "error" not in check(tmp_path, engine, "", "gone", create)


ALONE = [how for how in CONTENT if how not in ("half", "other fields")]  # what needs no file before


@pytest.mark.parametrize("how", ALONE)
def test_a_pex_with_any_content(tmp_path, how):
    path = tmp_path / "env.pex"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("PEX-INFO", CONTENT[how](path))
    path.chmod(0o700)
    with pytest.raises(UnfitError, match="is not a PEX: its|without a virtual environment"):
        look(path)


@pytest.mark.parametrize("how", ALONE)
def test_an_interpreter_that_says_anything(tmp_path, how):
    (tmp_path / "says").write_bytes(CONTENT[how](tmp_path))
    python = tmp_path / "python3"
    python.write_text(f"#!/bin/sh\ncat {tmp_path}/says\n")
    python.chmod(0o700)
    with pytest.raises(CannotRunError, match="does not run"):
        ask([str(python)], environ(), (), b"")
    assert list(installations("3", str(python), {"PATH": "", "HOME": str(tmp_path)})) == []


# ---- what a master leaves for the driver of Spark ------------------------------------------------
OF_DRIVERS = [*ALONE, *OF_ANY[2:]]
CONFIG = RunConfig("app", "application_1_1", 1, "", "me", {}, "", (), 0, status("ACCEPTED"))


@pytest.mark.parametrize("how", OF_DRIVERS)
@pytest.mark.parametrize("file", ["control", "security/skein.crt", "security/skein.pem"])
def test_of_a_master_that_a_driver_looks_for(tmp_path, file, how):
    run = RunFolder(tmp_path / "runs" / "1")
    make_private(run.security)
    write_json(run.config, CONFIG)
    for path, content in zip((run.certificate, run.key), new_credentials(time.time())):
        path.write_bytes(content)
    (run.path / "control").write_text("127.0.0.1:1")
    damage(run.path / file, how)
    engine = SparkEngine(tmp_path, {})
    engine._context = object()
    with pytest.raises(UnavailableError, match="master cannot be reached: ") as error:
        engine.launched(run)
    assert str(run.path / file) in error.value.message


@pytest.mark.parametrize("address", ["127.0.0.1", ":1", "127.0.0.1:99999", "x:-1", "a b:1"])
def test_of_an_address_that_is_none(tmp_path, address):
    (tmp_path / "control").write_text(address)
    with pytest.raises(ValueError, match="control is damaged"):
        _address(tmp_path / "control")


# ---- what a command keeps of applications on a cluster ------------------------------------------
KEPT = {
    "applications/{}/definition.json": OF_JSON,
    "applications/{}/cluster": OF_ANY,
    "applications/{}/report.json": OF_JSON,
    "applications/{}/ended.json": OF_JSON,
    "applications/{}/skein.crt": OF_ANY,
    "places/{}.json": OF_JSON,
    "locks/app": OF_ANY,
}


@pytest.mark.slow
def test_of_one_on_yarn(tmp_path, monkeypatch):
    played = PlayedYarn()
    monkeypatch.setattr("tfapp.engines.yarn.cluster.open_driver", played.open_driver)
    monkeypatch.setattr(YarnRun, "wait_every", 0.01)
    files = FileSystem(tmp_path)
    (tmp_path / "system").write_text("file:///")
    home = tmp_path / "home"
    engine = YarnEngine(home, files.environ, user="ann")
    id = engine.create("app", compiled(w=service())).id
    engine.find("app")
    place = engine._shared._path.stem
    seen: set[str] = set()
    SharedRecord("hdfs://there", {"a": "b"}, ("a",), 1.0, 2.0).write(engine._shared._path)
    try:
        for live in (True, False):
            sound = shutil.copytree(home, tmp_path / f"sound-{live}", symlinks=True)
            for file, hows in KEPT.items():
                path = f"yarn/{file.format(place if 'places' in file else id)}"
                there = (sound / path).exists()
                seen.update({file} if there else ())
                for how in hows if there else ():
                    shutil.rmtree(home)
                    shutil.copytree(sound, home, symlinks=True)
                    damage(home / path, how)
                    for command in ("list", "status app"):
                        check(tmp_path, engine, path, how, command)
            shutil.rmtree(home)
            shutil.copytree(sound, home, symlinks=True)
            engine.stop("app", "enough", force=True)
            played.restart()  # what is known now is known here
            engine.find("app")
        assert seen == set(KEPT)
    finally:
        played.close()
