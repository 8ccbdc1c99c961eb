"""What a runner understands of its master's words."""

from __future__ import annotations

import pytest

from tfapp.contract.encoding import encode
from tfapp.contract.names import KEY_GENERATION, attempt_of
from tfapp.errors import UnreachableError
from tfapp.runner import events
from tfapp.runner.master import MasterLink


class Mute:
    """A connection over which nothing is said."""

    container = "worker_0"


def test_a_master_of_another_attempt_is_not_this_containers():
    link = MasterLink(Mute(), "worker/0", 1.0, attempt=2)
    seen = link.understand(KEY_GENERATION, encode({"generation": 3, "attempt": 2}))
    assert seen == (events.GenerationSeen(3),)
    for other in (1, 3):
        with pytest.raises(UnreachableError, match=f"of attempt {other}, and this container of 2"):
            link.understand(KEY_GENERATION, encode({"generation": 3, "attempt": other}))


@pytest.mark.parametrize(
    ("container", "attempt"),
    [
        ("container_1700000000000_0007_01_000001", 1),
        ("container_1700000000000_0007_12_000345", 12),
        ("container_e17_1700000000000_0007_02_000001", 2),
        ("worker_3", 1),
        ("", 1),
    ],
)
def test_the_attempt_of_a_container(container, attempt):
    assert attempt_of(container) == attempt
