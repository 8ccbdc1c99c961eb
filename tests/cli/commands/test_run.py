from __future__ import annotations

import argparse
import re
import zipfile
from pathlib import Path

import pytest

from tests.cli.commands.call import call
from tests.cli.played_engine import SUCCESS, PlayedEngine, status
from tfapp.cli.commands import run
from tfapp.cli.main import parse
from tfapp.contract.private import Private
from tfapp.errors import UsageError


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    run.add_arguments(parser)
    return parse(parser, ["dir/train.py", *words])


@pytest.mark.parametrize(
    ("words", "counts"),
    [
        ((), {"worker": 2}),
        (("-w", "4"), {"worker": 4}),
        (("-w", "2", "--ps", "1"), {"chief": 1, "worker": 2, "ps": 1}),
        (
            ("-w", "1", "--evaluator", "--tensorboard"),
            {"worker": 1, "evaluator": 1, "tensorboard": 1},
        ),
    ],
    ids=str,
)
def test_components(words, counts):
    everything = dict.fromkeys(("chief", "worker", "ps", "evaluator", "tensorboard"), 0)
    expected = {name: str(count) for name, count in {**everything, **counts}.items()}
    assert dict(run.components_of(parsed(*words))) == expected


def test_a_package_is_not_a_script(tmp_path):
    (tmp_path / "package").mkdir()
    code, a_shell = call(tmp_path, None, "run", f"{tmp_path}/package")
    assert (code, a_shell.err.text) == (
        44,
        f"error: there is no file {tmp_path}/package\n"
        f"  It is a folder; a package: `tfapp create NAME --appdef {tmp_path}/package`.\n",
    )


def test_no_workers_at_all():
    with pytest.raises(UsageError, match="there is nothing to run with no workers"):
        run.components_of(parsed("-w", "0"))


ENTRY, ARGS = "site.global.user.scripts.entry", "site.global.user.scripts.args"


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ((), {ENTRY: "train.py", ARGS: ""}),
        (("--", "-x", "a b"), {ENTRY: "train.py", ARGS: "-x 'a b'"}),
        (
            ("-c", "bin/entry.sh", "--", "-x"),
            {ENTRY: "entry.sh", ARGS: "train.py -x"},
        ),
        (
            ("-i", "tf:2", "-p", "1999"),
            {
                ENTRY: "train.py",
                ARGS: "",
                "site.global.run.mode": "docker",
                "site.global.docker.image": "tf:2",
                "site.global.worker.port": "${worker.ALLOCATED_PORT}{DEFAULT_1999}{PER_CONTAINER}",
            },
        ),
    ],
    ids=str,
)
def test_options(words, options):
    assert dict(run.options_of(parsed(*words))) == options


@pytest.mark.parametrize(
    ("script", "pattern"),
    [
        ("train.py", r"train-[0-9a-f]{4}"),
        ("My Model_2.py", r"my-model_2-[0-9a-f]{4}"),
        ("2nd.py", r"run-2nd-[0-9a-f]{4}"),
        ("ünder.py", r"nder-[0-9a-f]{4}"),
        ("__.py", r"run-[0-9a-f]{4}"),
        (f"{'a' * 200}.py", r"a{95}-[0-9a-f]{4}"),
    ],
)
def test_names(script, pattern):
    assert re.fullmatch(pattern, run.name_for(Path(script)))


def test_the_script_its_environment_and_tags_are_submitted(tmp_path):
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / "env").write_text("S3_SECRET_KEY=hunter22\n")
    engine = PlayedEngine(tmp_path, [status("SUCCEEDED", verdict=SUCCESS)])
    words = (f"{tmp_path}/train.py", "-w", "3", "-e", f"{tmp_path}/env", "-t", "b", "-t", "a")
    code, a_shell = call(tmp_path, engine, "run", *words, "--name", "app")
    assert code == 0, a_shell.err.text
    ((name, compiled),) = engine.created
    counts = {component.name: component.instances for component in compiled.job.components}
    assert (name, counts.get("worker"), counts.get("chief", 0)) == ("app", 3, 0)
    assert {"a", "b"} <= set(compiled.spec.tags)
    assert isinstance(compiled.private, Private)
    assert compiled.private.env["worker"]["S3_SECRET_KEY"] == "hunter22"
    assert "hunter22" in compiled.private.redact
    assert "hunter22" not in repr(compiled) + a_shell.out.text + a_shell.err.text


def test_nothing_but_what_is_given_is_shipped_beside_the_script(tmp_path):
    (tmp_path / "go.py").write_text("import train\n")
    engine = PlayedEngine(tmp_path, [status("SUCCEEDED", verdict=SUCCESS)])
    code, a_shell = call(tmp_path, engine, "run", f"{tmp_path}/go.py")
    assert (code, a_shell.err.text.count("[missing-module]")) == (77, 1)
    (tmp_path / "train.py").write_text("print(1)\n")
    words = (f"{tmp_path}/go.py", "--files", f"{tmp_path}/train.py")
    code, a_shell = call(tmp_path, engine, "run", *words)
    assert code == 0, a_shell.err.text
    names = [zipfile.ZipFile(path).namelist() for path in tmp_path.glob("**/cache/*.zip")]
    assert ["go.py", "train.py"] in names
    code, a_shell = call(tmp_path, engine, "run", f"{tmp_path}/train.py")
    assert code == 0, a_shell.err.text
    names = [zipfile.ZipFile(path).namelist() for path in tmp_path.glob("**/cache/*.zip")]
    assert ["train.py"] in names


def test_what_is_refused_leaves_no_secret_in_the_cache(tmp_path):
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / "env").write_text("S3_SECRET_KEY=hunter22\n")
    engine = PlayedEngine(tmp_path, [status("SUCCEEDED", verdict=SUCCESS)])
    words = (f"{tmp_path}/train.py", "-e", f"{tmp_path}/env", "--name", "taken")
    code, a_shell = call(tmp_path, engine, "run", *words)
    assert code == 75, a_shell.err.text
    kept = {path.name for path in tmp_path.glob("**/cache/*") if path.is_file()}
    assert kept == {".lock", "private.key"}


def test_single_keys_are_set_as_for_other_packages(tmp_path):
    (tmp_path / "train.py").write_text("print(1)\n")
    engine = PlayedEngine(tmp_path, [status("SUCCEEDED", verdict=SUCCESS)])
    keys = (
        *("--rescompopt", "worker", "yarn.memory", "300", "--resopt", "yarn.vcores", "3"),
        *("-O", "site.global.stop.grace", "7", "--component", "evaluator", "1"),
    )
    code, a_shell = call(tmp_path, engine, "run", f"{tmp_path}/train.py", "-w", "1", *keys)
    assert code == 0, a_shell.err.text
    ((_, compiled),) = engine.created
    assert compiled.job.limits.stop_grace == 7
    sizes = {c.name: (c.instances, c.memory, c.vcores) for c in compiled.job.components}
    assert (sizes["worker"], sizes["evaluator"]) == ((1, 300, 3), (1, 2048, 3))


def test_a_missing_script_is_44(tmp_path):
    code, a_shell = call(tmp_path, PlayedEngine(tmp_path, []), "run", "none.py")
    assert (code, a_shell.err.text) == (44, "error: there is no file none.py\n")


def test_a_misspelt_script_is_guessed(tmp_path):
    (tmp_path / "train.py").write_text("")
    script = tmp_path / "tarin.py"
    code, a_shell = call(tmp_path, PlayedEngine(tmp_path, []), "run", str(script))
    assert code == 44
    assert a_shell.err.text == (
        f"error: there is no file {script}\n  Did you mean {tmp_path}/train.py?\n"
    )


@pytest.mark.parametrize(
    "words", [("-w", "many"), ("-p", "0"), ("-p", "70000"), ("--wait", "-1"), ("--wait", "nan")]
)
def test_wrong_numbers_are_wrong_usage(tmp_path, words, capsys):
    with pytest.raises(SystemExit) as caught:
        call(tmp_path, None, "run", "train.py", *words)
    assert caught.value.code == 2
    assert f"argument {words[0]}" in capsys.readouterr().err
