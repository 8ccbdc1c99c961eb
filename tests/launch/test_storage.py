"""When the packages travel by which programs open URLs."""

import pytest

from tests.cli.played_engine import PlayedEngine, shell
from tfapp.environment import libraries
from tfapp.errors import InvalidPackageError, UnavailableError
from tfapp.launch import storage
from tfapp.package.load import load_package
from tfapp.package.overrides import Overrides
from tfapp.shipped import app_packages_dir

PREFIX, ARGUMENTS = "site.global.user.checkpoint.prefix", "site.global.user.scripts.args"
SWITCH = "site.global.storage"


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Calls made_storage for a program with a text, with options and values of variables."""
    monkeypatch.setattr(storage.unpacked, "unpack", lambda archive, environments: archive)

    def call(text="", variables=(), caller=None, works=True, closed="", **options):
        def make(place, *others):
            if not works:
                raise UnavailableError("pip cannot fetch them", "Install them.")

        monkeypatch.setattr(libraries, "make", make)
        program = tmp_path / "train.py"
        program.write_text(text)
        package = load_package(
            app_packages_dir() / "tensorflow",
            overrides=Overrides(options=tuple(options.pop("options", ()))),
            user_files={"train.py": program},
        ).package
        assert package is not None
        caller = caller or shell(tmp_path)
        engine = PlayedEngine(tmp_path / "played", [])
        engine.closed = lambda url: closed
        return storage.made_storage(package, engine, caller, tmp_path / "e", False, variables)

    return call


@pytest.mark.parametrize(
    ("given", "travel"),
    [
        ({}, False),
        ({"text": "open('s3://')"}, True),
        ({"text": "# Hs3://bucket, as a pickle has a URL of 72 letters"}, True),
        ({"text": "# https://x, a path /s3/x, gs://bucket/x"}, False),
        ({"options": [(ARGUMENTS, "--data hdfs://n/data")]}, True),
        ({"options": [("env.DATA", "s3a://bucket/data")]}, True),
        ({"variables": ["abfss://container@account/data"]}, True),
        ({"variables": ["/data"]}, False),
        ({"options": [(PREFIX, "viewfs://cluster/saved")]}, True),
        ({"options": [(PREFIX, "gs://bucket/saved")]}, False),
        ({"options": [(SWITCH, "true")]}, True),
        ({"options": [(f"{SWITCH}.schemes", "sftp, oss")]}, True),
        ({"options": [(SWITCH, "false"), (PREFIX, "s3://bucket/saved")]}, False),
    ],
)
def test_they_travel_where_something_names_a_url(made, given, travel):
    assert (made(**given) is not None) == travel


def test_a_folder_that_cannot_be_opened_is_an_error_at_its_place(made):
    with pytest.raises(InvalidPackageError) as error:
        made(works=False, options=[(PREFIX, "s3://bucket/saved")])
    (problem,) = error.value.problems
    assert problem.position.file == f"--option {PREFIX}"
    assert problem.message == "s3://bucket/saved cannot be opened: pip cannot fetch them"


def test_so_is_one_that_containers_cannot_open(made):
    folder = (PREFIX, "hdfs://namenode/saved")
    with pytest.raises(InvalidPackageError) as error:
        made(closed="it is locked", options=[folder])
    (problem,) = error.value.problems
    assert problem.position.file == f"--option {PREFIX}"
    assert problem.message == "hdfs://namenode/saved cannot be opened: it is locked"
    assert made(closed="it is locked", options=[folder, (SWITCH, "false")]) is None


def test_a_url_in_a_program_that_cannot_be_opened_is_a_warning(made, tmp_path):
    caller = shell(tmp_path)
    assert made("# s3://bucket", caller=caller, works=False) is None
    assert "programs open no hdfs:// and s3://: pip cannot fetch them" in caller.err.text
