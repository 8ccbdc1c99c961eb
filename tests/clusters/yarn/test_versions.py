"""This tfapp and the last release on the real cluster: each with an application of the other."""

import pytest

from tests import wheel
from tests.end_to_end.command_line import CommandLine
from tests.test_versions import serves_the_other

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.weekly]


@pytest.mark.parametrize("newer", [True, False], ids=["newer-command", "older-command"])
def test_each_serves_the_other(newer, user, tfapp, tmp_path):
    released = wheel.released(tmp_path).parent / "tfapp"
    more = {"program": (str(released),), "environ": user.environ, "flags": ("--engine", "yarn")}
    old = CommandLine(tmp_path, user.home, **more)
    flags = ("--resopt", "yarn.memory", 256)
    serves_the_other(*((old, tfapp) if newer else (tfapp, old)), *flags)
