from __future__ import annotations

import dataclasses
import io
import stat
import sys

import pytest
import yaml

from tfapp.errors import ExistsError, InvalidPackageError, UsageError
from tfapp.launch.caller import Caller
from tfapp.launch.submission import Request, compile_request, write_request
from tfapp.package.overrides import Overrides
from tfapp.shipped import app_packages_dir


@pytest.fixture
def caller(tmp_path):
    return Caller(
        out=io.StringIO(),
        err=io.StringIO(),
        environ={},
        cwd=tmp_path,
        home=tmp_path / "home",
        user="ann",
        python=sys.executable,
    )


def request(tmp_path, **more) -> Request:
    program = tmp_path / "go.py"
    program.write_text("print('hello')\n")
    program.chmod(0o755)
    overrides = Overrides(
        options=(("site.global.user.scripts.entry", "go.py"), ("site.global.stop.grace", "7")),
        compopts=(("worker", "env.OMP_NUM_THREADS", "4"),),
        rescompopts=(("worker", "yarn.memory", "3 GiB"),),
        components=(("worker", "4"), ("ps", "0")),
        max_restarts="5",
    )
    base = {
        "name": "app",
        "appdef": app_packages_dir() / "tensorflow",
        "overrides": overrides,
        "files": {"go.py": program},
        "programs": False,
        "environment": {"GREETING": "good morning", "NUMBER": "007"},
    }
    return Request(**{**base, **more})


def test_what_is_written_means_the_same(tmp_path, caller):
    asked = request(tmp_path)
    folder = write_request(asked, tmp_path / "package", caller)
    engine = caller.engine("local")
    meant = compile_request(asked, caller, engine, dry_run=True)
    written = compile_request(Request("app", folder), caller, engine, dry_run=True)
    assert meant.job.options  # how they came into the job; the package has them now
    assert written.job == dataclasses.replace(meant.job, options=())
    assert written.private == meant.private
    assert written.spec.to_dict()["services"].keys() == meant.spec.to_dict()["services"].keys()
    assert written.job.failure.max_restarts == 5


def test_what_is_written_is_a_package_to_be_read(tmp_path, caller):
    folder = write_request(request(tmp_path), tmp_path / "package", caller)
    resources = yaml.safe_load((folder / "resources-default.yaml").read_text())
    assert resources["components"]["worker"]["yarn.component.instances"] == 4
    assert resources["components"]["worker"]["yarn.memory"] == "3 GiB"
    config = yaml.safe_load((folder / "appConfig-default.yaml").read_text())
    assert config["global"]["env.NUMBER"] == "007"
    files = [path.name for path in (folder / "files").iterdir()]
    assert files == ["go.py"]
    assert (folder / "files" / "go.py").stat().st_mode & stat.S_IXUSR


def test_secrets_are_not_written(tmp_path, caller):
    asked = request(tmp_path, secret_environment={"TOKEN": "s3cret-token"})
    folder = write_request(asked, tmp_path / "package", caller)
    content = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert b"s3cret-token" not in content
    assert "TOKEN; give them by --secret-env-file" in caller.err.getvalue()


def test_a_folder_with_something_in_it_is_let_alone(tmp_path, caller):
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "mine").write_text("mine")
    with pytest.raises(ExistsError, match="not an empty folder"):
        write_request(request(tmp_path), folder, caller)
    assert [path.name for path in folder.iterdir()] == ["mine"]


def test_nothing_is_written_of_what_is_wrong(tmp_path, caller):
    wrong = Overrides(rescompopts=(("worker", "yarn.memory", "lots"),))
    with pytest.raises(InvalidPackageError):
        write_request(request(tmp_path, overrides=wrong), tmp_path / "package", caller)
    assert not (tmp_path / "package").exists()


def test_a_variable_that_a_package_would_read_otherwise(tmp_path, caller):
    asked = request(tmp_path, environment={"TEMPLATE": "${HOME}/x"})
    with pytest.raises(UsageError, match="TEMPLATE"):
        write_request(asked, tmp_path / "package", caller)
