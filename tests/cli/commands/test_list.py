import json

import pytest

from tests.cli.commands.call import call
from tests.cli.played_engine import PlayedEngine, status
from tfapp.engines.base import DAMAGED, Application

REASON = "/home/ada/.tfapp/apps/broken/runs/0001/run.json cannot be read: JSONDecodeError"


class Damaged(PlayedEngine):
    """An engine that also has an application whose record cannot be read."""

    def list(self):
        broken = Application("broken", "local", "", 0, False, status(DAMAGED), waits=REASON)
        return (*super().list(), broken)


@pytest.fixture
def engine(tmp_path):
    return Damaged(tmp_path, [status("RUNNING")])


def test_a_damaged_application_is_one_row_and_its_reason(tmp_path, engine):
    code, shell = call(tmp_path, engine, "list")
    assert code == 0
    _, sound, broken = shell.out.text.splitlines()
    assert sound.split()[:2] == ["app", "RUNNING"]
    assert broken.split()[:3] == ["broken", "DAMAGED", "-"]
    assert broken.split()[-2:] == ["-", "-"]
    assert shell.err.text == (f"warning: broken: {REASON}\n  `tfapp destroy broken` deletes it.\n")


def test_damaged_is_a_state_to_ask_for(tmp_path, engine):
    code, shell = call(tmp_path, engine, "list", "--state", "DAMAGED", "--format", "json")
    assert code == 0
    (broken,) = json.loads(shell.out.text)["applications"]
    assert (broken["name"], broken["state"]) == ("broken", "DAMAGED")
    assert (broken["id"], broken["run"], broken["ended"]) == (None, None, None)
    assert REASON in shell.err.text
