"""What a verdict says of where the last generation began, without a folder that all see."""

import pytest

from tests.contract_values import make_failure_policy
from tests.coordinator.world import World, job
from tfapp.frozen import replace

UNSET = "(site.global.user.checkpoint.prefix is not set)."
KILLED, LOST = "9 worker/0 killed 9", "9 worker/0 lost"
NOTHING = "9 worker/0 beats"
EMPTY = f" Generation 2 began with empty checkpoint folders {UNSET}"
KEPT = " Generation 2 had the checkpoint folder of the same container."
MOVED = (
    f" worker/0 began generation 2 with an empty checkpoint folder, in another container {UNSET}"
)


@pytest.mark.parametrize(
    ("layout", "happens", "shared", "said"),
    [
        ("worker=2", KILLED, False, f" It was restarted once before.{EMPTY}"),
        ("worker=2", LOST, False, f" It was restarted once before.{EMPTY}"),
        ("worker=1 helper=1", KILLED, False, f" It was restarted once before.{EMPTY}"),
        ("worker=1", KILLED, False, f" It was restarted once before.{KEPT}"),
        ("worker=1 ps=1 tensorboard=1", KILLED, False, f" It was restarted once before.{KEPT}"),
        ("worker=1 ps=1", LOST, False, f" It was restarted once before.{MOVED}"),
        ("worker=1 ps=1", "9 ps/0 lost", False, f" It was restarted once before.{KEPT}"),
        ("worker=1", "9 flex worker +1\n9.1 worker/1 answers", False, EMPTY),
        ("worker=2", NOTHING, False, ""),
        ("worker=2", KILLED, True, " It was restarted once before."),
        ("worker=1", LOST, True, " It was restarted once before."),
    ],
)
def test_the_verdict_says_where_the_last_generation_began(layout, happens, shared, said):
    made = job(layout, success=("worker",), failure=make_failure_policy())
    if not shared:
        bare = (replace(c, site={}) for c in made.components)
        made = replace(made, components=tuple(bare))
    world = World(made).play(
        f"""
        1 all answer
        {happens}
        10 all answer
        30 stop enough
        60
        """
    )
    assert world.state.verdict is not None
    assert world.state.verdict.summary == f"Killed: enough.{said}"
