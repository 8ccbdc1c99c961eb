"""The table of engines."""

import pytest

from tfapp.engines import open_engine
from tfapp.errors import UnknownApplicationError, UsageError


def test_unknown_engine(tmp_path):
    with pytest.raises(UsageError, match="there is no engine 'moon'"):
        open_engine("moon", tmp_path, {})


@pytest.mark.parametrize(
    ("environ", "flags"), [({}, ""), ({"TFAPP_ENGINE": "yarn"}, " --engine local")]
)
def test_hints_name_the_engine_where_it_is_not_the_default(tmp_path, environ, flags):
    with pytest.raises(UnknownApplicationError) as caught:
        open_engine("local", tmp_path, environ).find("app")
    assert caught.value.hint == f"`tfapp list{flags}` shows all."
