import io
from pathlib import Path

import pytest
import yaml

from tests.cli.commands.call import call
from tests.cli.played_engine import SUCCESS, PlayedEngine, status
from tfapp.shipped import app_packages_dir
from tfapp.skein_library import skein

TENSORFLOW = str(app_packages_dir() / "tensorflow")
ENDED = status("SUCCEEDED", verdict=SUCCESS)
PREFIX = "site.global.user.checkpoint.prefix"


def create(tmp_path: Path, *words: str, name: str = "app"):
    engine = PlayedEngine(tmp_path / "played", [ENDED])
    code, a_shell = call(tmp_path, engine, "create", name, "--appdef", TENSORFLOW, *words)
    return code, a_shell, engine


def test_it_submits_and_follows(tmp_path):
    code, a_shell, engine = create(tmp_path, "--component", "worker", "3")
    assert code == 0, a_shell.err.text
    ((name, compiled),) = engine.created
    assert name == "app"
    assert compiled.job.component("worker").instances == 3
    assert all(file.path.read_bytes() == file.data for file in compiled.files)
    assert a_shell.err.text.endswith("app: Succeeded: all workers exited 0\n")


def test_checkpoints_have_a_place_that_is_named(tmp_path):
    _, a_shell, engine = create(tmp_path)
    prefix = tmp_path / "home" / "checkpoints"
    assert f"checkpoints go to {prefix}/app ({PREFIX} is not set)\n" in a_shell.err.text
    job = engine.created[0][1].job
    assert job.component("worker").site[PREFIX] == str(prefix)


@pytest.mark.parametrize("flags", [("-O", PREFIX, "/mnt/x"), ("--co", "worker", PREFIX, "/mnt/x")])
def test_a_place_for_checkpoints_that_was_given_stays(tmp_path, flags):
    _, a_shell, engine = create(tmp_path, *flags)
    assert engine.created[0][1].job.component("worker").site[PREFIX] == "/mnt/x"
    assert "checkpoints go to" not in a_shell.err.text


def test_a_dry_run_prints_the_specification_and_makes_nothing(tmp_path):
    code, a_shell, engine = create(tmp_path, "--dry-run")
    assert (code, engine.created) == (0, [])
    assert yaml.safe_load(a_shell.out.text)["name"] == "app"
    assert not (tmp_path / "home").exists()


def test_what_is_wrong_is_not_made(tmp_path):
    code, a_shell, engine = create(tmp_path, "--option", "site.global.user.scripts.entrry", "x")
    assert (code, engine.created, engine.calls) == (77, [], [])
    assert "site.global.user.scripts.entry" in a_shell.err.text
    assert a_shell.err.text.endswith("error: 1 error in the package\n")
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("name", ["App", "1app", "a.b", "-", "a b", "a" * 101])
def test_a_name_that_cannot_be_is_wrong_usage(tmp_path, name):
    code, a_shell, engine = create(tmp_path, name=name)
    assert (code, engine.created) == (2, [])


def test_a_name_that_is_taken_is_75(tmp_path):
    code, a_shell, _ = create(tmp_path, name="taken")
    assert (code, a_shell.err.text.splitlines()[-1]) == (75, "error: taken exists already")


def test_credentials_come_from_the_submitting_user(tmp_path):
    template = tmp_path / "appConfig.yaml"
    text = Path(TENSORFLOW, "appConfig-default.yaml").read_text()
    template.write_text(text + "\ncredentials:\n  API_KEY: env:MY_KEY\n  TOKEN: file:token\n")
    (tmp_path / "token").write_text("t0ken-value\n")
    engine = PlayedEngine(tmp_path / "played", [ENDED])
    words = ("create", "app", "--appdef", TENSORFLOW, "--template", str(template))
    code, a_shell = call(tmp_path, engine, *words, environ={"MY_KEY": "key-value"})
    assert code == 0, a_shell.err.text
    private = engine.created[0][1].private
    assert private.env["worker"]["API_KEY"] == "key-value"
    assert private.env["worker"]["TOKEN"] == "t0ken-value"
    code, a_shell = call(tmp_path, engine, *words)
    assert code == 77
    assert "MY_KEY" in a_shell.err.text


def test_compile_prints_what_skein_reads_back(tmp_path):
    words = ("compile", TENSORFLOW, "--name", "app", "--component", "worker", "4")
    code, a_shell = call(tmp_path, PlayedEngine(tmp_path, []), *words)
    assert code == 0, a_shell.err.text
    spec = skein.ApplicationSpec.from_yaml(io.StringIO(a_shell.out.text))
    assert (spec.name, spec.services["worker"].instances) == ("app", 4)
    sources = [file.source for file in spec.services["worker"].files.values()]
    compiled = f"file://{tmp_path}/home/compiled/"
    assert all(source.startswith(compiled) for source in sources)
    assert all(Path(source.removeprefix("file://")).is_file() for source in sources)


def test_what_was_compiled_is_not_deleted_with_another_application(tmp_path):
    """One that ships the same files, and could not be launched."""
    words = ("--appdef", TENSORFLOW)
    code, a_shell = call(
        tmp_path, PlayedEngine(tmp_path, []), "compile", TENSORFLOW, "--name", "app"
    )
    assert code == 0, a_shell.err.text
    before = files_below(tmp_path / "home" / "compiled")
    code, a_shell = call(tmp_path, PlayedEngine(tmp_path, [ENDED]), "create", "taken", *words)
    assert code == 75, a_shell.err.text
    assert files_below(tmp_path / "home" / "compiled") == before
    assert files_below(tmp_path / "home" / "cache") == {"private.key", ".lock", "known-to-fit"}


def files_below(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}
