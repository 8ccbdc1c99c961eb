import dataclasses
import json

import pytest

from tests.cli.commands.call import call
from tests.cli.played_engine import PlayedEngine, failure, instance, status
from tfapp.contract.status import Moment

FAILED = dataclasses.replace(
    status(
        "FAILED",
        instance("worker/0", "FAILED"),
        verdict=failure("worker/0", "Traceback\nValueError: no\n"),
    ),
    generation=3,
    restarts=2,
    losses=1,
    timeline=(Moment(1.0e9 + 1.25, "generation 1 starts, 1 instance", "starts", "", 1),),
)

pytestmark = pytest.mark.usefixtures("utc")


def test_after_the_end(tmp_path):
    code, shell = call(tmp_path, PlayedEngine(tmp_path, [FAILED]), "diagnostics", "app")
    assert code == 0
    assert shell.out.text == (
        "Failed: worker/0: exit code 3\n"
        "Generation 3; restarts: 2 after failures of programs, 1 after losses by the "
        "infrastructure.\n"
        "\n"
        "Last lines of worker/0:\n"
        "  Traceback\n"
        "  ValueError: no\n"
        "\n"
        "2001-09-09 01:46:41  +1.2 s  generation 1 starts, 1 instance\n"
    )


def test_while_it_runs(tmp_path):
    running = status("RUNNING", instance("worker/0", "RUNNING"))
    _, shell = call(tmp_path, PlayedEngine(tmp_path, [running]), "diagnostics", "app")
    assert shell.out.text == (
        "app is RUNNING.\n"
        "Generation 1; restarts: 0 after failures of programs, 0 after losses by the "
        "infrastructure.\n"
    )


def test_after_an_end_without_a_word(tmp_path):
    unknown = dataclasses.replace(
        FAILED, generation=None, restarts=None, losses=None, timeline=(), verdict=None
    )
    _, shell = call(tmp_path, PlayedEngine(tmp_path, [unknown]), "diagnostics", "app")
    assert shell.out.text == (
        "app is FAILED.\n"
        "Its generation and restarts are unknown: its coordinator left no word of them.\n"
    )
    _, shell = call(tmp_path, PlayedEngine(tmp_path, [unknown]), "status", "app")
    assert "\nrestarts  unknown\n" in shell.out.text


def test_as_json(tmp_path):
    engine = PlayedEngine(tmp_path, [FAILED])
    _, shell = call(tmp_path, engine, "diagnostics", "app", "--format", "json")
    told = json.loads(shell.out.text)
    assert list(told) == [
        "version",
        "name",
        "state",
        "generation",
        "restarts",
        "losses",
        "verdict",
        "timeline",
    ]
    assert told["timeline"] == [
        {
            "time": 1.0e9 + 1.25,
            "text": "generation 1 starts, 1 instance",
            "kind": "starts",
            "instance": None,
            "generation": 1,
        }
    ]


def test_status_tells_the_restarts(tmp_path):
    _, shell = call(tmp_path, PlayedEngine(tmp_path, [FAILED]), "status", "app")
    assert "restarts  3, 1 of them after losses; generation 3\n" in shell.out.text
