import pytest

from tfapp.contract.exit import REASONS, container_message, read_container_message


@pytest.mark.parametrize("reason", ["", *REASONS])
def test_a_reason_travels_in_the_message(reason):
    assert read_container_message(container_message("It ended.", reason)) == ("It ended.", reason)


@pytest.mark.parametrize("text", ["", "plain", "out of [reason: moonlight]", "[reason: memory]!"])
def test_other_messages_tell_no_reason(text):
    assert read_container_message(text) == (text, "")
