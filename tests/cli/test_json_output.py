"""Each JSON document is as schemas/output.schema.json and docs/json.md describe it."""

from __future__ import annotations

import argparse
import copy
import dataclasses
import importlib
import json
import re

import jsonschema
import pytest

from tests.cli.commands.call import call
from tests.cli.played_engine import SUCCESS, PlayedEngine, failure, instance, status
from tests.cli.played_runners import PlayedRunners, PlayedTracers
from tests.readme import README
from tfapp.cli.commands import COMMANDS
from tfapp.contract.exit import Exit
from tfapp.contract.status import STARTS, Curve, FeedStatus, Moment, Samples, Series
from tfapp.engines.base import DAMAGED, Application, Link
from tfapp.engines.diagnosis import WARNING, Finding
from tfapp.shipped import app_packages_dir, schemas_dir

TENSORFLOW = str(app_packages_dir() / "tensorflow")
SCHEMA = json.loads((schemas_dir() / "output.schema.json").read_text())
PAGE = README.parent / "docs" / "json.md"
FOREIGN = {"schema"}  # --format json, but no document of tfapp's own

WORKER = instance(
    "worker/0",
    "FAILED",
    host="n1",
    exports={"worker": {"host_port": "n1:4000", "note": ""}},
    exit=Exit(3, None, "exit", "exit code 3"),
    metrics={"loss": "nan"},
    step=3,
)
FAILED = dataclasses.replace(
    status("FAILED", WORKER, instance("ps/0", "REQUESTED"), verdict=failure("worker/0")),
    timeline=(
        Moment(1.0e9, "generation 1 starts", STARTS, "", 1),
        Moment(1.0e9 + 1, "as an older version wrote it"),
    ),
    curves=(Curve("worker/0", "loss", ((0.5, 1, 0.25), (1.5, None, "nan"))),),
    samples=Samples((0.5, 5.5), (Series("worker/0", "cpu", "- 1.5"),)),
    feed=FeedStatus(20, {"worker/0": 20}, seconds=1.5, lost=3, error="a column has a null"),
)
RUNNING = status("RUNNING", WORKER)
RUNS = status("RUNNING", instance("worker/0", "RUNNING"), instance("ps/0", "RUNNING"))
SUCCEEDED = status("SUCCEEDED", verdict=SUCCESS)


class Engine(PlayedEngine):
    """Also knows an application whose record cannot be read."""

    def list(self):
        broken = Application("broken", "local", "", 0, False, status(DAMAGED), waits="damaged")
        return (*super().list(), broken)

    profiled = False

    def connect(self, name):
        if self.profiled:
            return PlayedTracers({"worker/0": "", "ps/0": "it runs no TensorFlow"})
        return PlayedRunners({"worker/0": 12, "ps/0": 0})

    def examine(self, python, options):
        yield Finding("java", "ok", "17")
        yield Finding("docker", WARNING, "no engine answers", "Start it.")


def strict(schema):
    """The same, but keys that are not described are refused."""
    schema = copy.deepcopy(schema)
    for name, described in schema["$defs"].items():
        if name == "row":  # a part of another object
            continue
        parts = [described, *described.get("properties", {}).values()]
        for part in [*parts, *(part.get("items", {}) for part in parts)]:
            if "properties" in part or "allOf" in part:
                part["unevaluatedProperties"] = False
    return schema


def document(text: str, kind: str) -> dict:
    found = json.loads(text)
    schema = {**strict(SCHEMA), "anyOf": [{"$ref": f"#/$defs/{kind}"}]}
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(found)
    assert list(found)[0] == "version"
    return found


def described() -> dict[str, str]:
    """{command: kind of document} of the page's table."""
    rows = re.findall(r"^\| (`tfapp .*) \| `(\w+)` \|$", PAGE.read_text(), re.MULTILINE)
    return {name: kind for words, kind in rows for name in re.findall(r"`tfapp ([\w-]+)", words)}


CALLS = [
    (("create", "app", "--appdef", TENSORFLOW, "--detach"), RUNNING, 0),
    (("create", "app", "--appdef", TENSORFLOW, "--detach", "--wait", "60"), SUCCEEDED, 0),
    (("run", "train.py", "-w", "1", "--name", "app", "--detach"), SUCCEEDED, 0),
    (("grid", "train.py", "--points", "points.yaml", "--dry-run"), RUNNING, 0),
    (("start", "app", "--detach"), RUNNING, 0),
    (("start", "app", "--detach", "--wait", "60"), FAILED, 65),
    (("status", "app"), RUNNING, 0),
    (("status", "app"), FAILED, 0),
    (("wait", "app"), FAILED, 65),
    (("list",), FAILED, 0),
    (("stop", "app"), RUNNING, 0),
    (("diagnostics", "app"), FAILED, 0),
    (("stacks", "app"), RUNS, 0),
    (("profile", "app"), RUNS, 0),
    (("exports", "app"), FAILED, 0),
    (("packages",), RUNNING, 0),
    (("history", "--dir", "none-yet"), RUNNING, 0),
    (("doctor",), RUNNING, 0),
    (("validate", TENSORFLOW), RUNNING, 0),
    (("validate", TENSORFLOW, "-O", "site.global.user.scripts.entrry", "x"), RUNNING, 77),
]


@pytest.mark.parametrize(("words", "history", "code"), CALLS, ids=lambda x: str(x)[:40])
def test_it_is_as_described(tmp_path, words, history, code):
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / "points.yaml").write_text("rate: [1, 2]\n")
    links = (Link("", "page", "http://n1/"),)
    engine = Engine(tmp_path, [history], tags=("a",), links=links)
    engine.profiled = words[0] == "profile"
    words = [str(tmp_path / "train.py") if word == "train.py" else word for word in words]
    ended, a_shell = call(tmp_path, engine, *words, "--format", "json")
    assert ended == code, a_shell.err.text
    document(a_shell.out.text, described()[words[0]])
    engine.stop("app", "end of the test")


def test_every_command_with_json_is_described_and_called():
    with_json = set()
    for name, (module, _) in COMMANDS.items():
        parser = argparse.ArgumentParser()
        importlib.import_module(module).add_arguments(parser)
        flag = parser._option_string_actions.get("--format")
        if flag and "json" in flag.choices:
            with_json.add(name)
    assert set(described()) == with_json - FOREIGN == {words[0] for words, _, _ in CALLS}
    assert {ref["$ref"].rpartition("/")[2] for ref in SCHEMA["anyOf"]} == set(described().values())


def test_what_is_not_there_is_null_and_what_a_program_says_stays(tmp_path):
    engine = Engine(tmp_path, [FAILED])
    _, a_shell = call(tmp_path, engine, "status", "app", "--format", "json")
    found = document(a_shell.out.text, "application")
    worker, ps = found["status"]["instances"]
    assert (found["waits"], found["status"]["checkpoint_dir"]) == (None, None)
    assert (ps["host"], ps["container"], ps["docker"], ps["exit"]) == (None, None, None, None)
    assert worker["exports"] == {"worker": {"host_port": "n1:4000", "note": ""}}
    assert found["status"]["verdict"]["cause"]["last_lines"] is None


def test_stop_says_whether_it_ran(tmp_path):
    for history, was_live in ((RUNNING, True), (FAILED, False)):
        engine = Engine(tmp_path, [history])
        _, a_shell = call(tmp_path, engine, "stop", "app", "--format", "json")
        (row,) = document(a_shell.out.text, "stopped")["applications"]
        assert (row["name"], row["state"], row["was_live"]) == ("app", "KILLED", was_live)


@pytest.mark.parametrize("words", [("start", "app"), ("create", "app", "--appdef", TENSORFLOW)])
def test_a_command_that_follows_has_none(tmp_path, words):
    engine = Engine(tmp_path, [SUCCEEDED])
    code, a_shell = call(tmp_path, engine, *words, "--format", "json")
    assert (code, a_shell.out.text, engine.created, engine.calls) == (2, "", [], [])
    assert a_shell.err.text.startswith("error: --format json: standard output has")


def test_the_paths_of_the_page_lead_to_text(tmp_path):
    lines = re.findall(r"^\$ tfapp (.+) \| jq -r '?([.\w\[\]]+)'?$", PAGE.read_text(), re.MULTILINE)
    assert len(lines) == PAGE.read_text().count("\n$ ") == 3
    for words, path in lines:
        engine = Engine(tmp_path, [SUCCEEDED])
        mine = words.replace("mnist", "app").replace("my-app", TENSORFLOW).split()
        _, a_shell = call(tmp_path, engine, *mine)
        assert all(isinstance(text, str) for text in selected(json.loads(a_shell.out.text), path))
        engine.stop("app", "end of the test")


def selected(value, path):
    """What jq selects by a path of keys and `[]`, at least one value."""
    values = [value]
    for key, each in re.findall(r"\.(\w+)(\[\])?", path):
        values = [found[key] for found in values]
        values = [item for found in values for item in found] if each else values
    assert values
    return values


def test_a_key_that_is_not_described_is_noticed():
    row = {"version": 1, "exports": [], "more": 1}
    with pytest.raises(jsonschema.ValidationError, match="more"):
        document(json.dumps(row), "exports")
