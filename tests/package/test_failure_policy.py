import pytest

from tests.package.packages import make_package, sound
from tfapp.contract.exit import REASONS
from tfapp.contract.job import (
    FAIL_APPLICATION,
    IGNORE,
    RESTART_CLUSTER,
    RESTART_INSTANCE,
    FailurePolicy,
    FailureRule,
)
from tfapp.schema.load import effective_schema

METAINFO = """
  failurePolicy:
    maxRestarts: 5
    maxInfrastructureRestarts: 0
    startupSeconds: 2.5
    endOnRepeatedFailure: false
    rules:
      - {components: [ps], onExitCodes: [42, 1-3, 9-7], onReasons: [hang], action: RestartInstance}
      - {action: FailApplication}
"""


def test_a_policy_is_read(tmp_path):
    folder = make_package(tmp_path)
    metainfo = folder / "metainfo.yaml"
    metainfo.write_text(metainfo.read_text().rstrip("\n") + METAINFO)
    assert sound(folder).failure == FailurePolicy(
        max_restarts=5,
        max_losses=0,
        startup=2.5,
        repeats_end=False,
        rules=(
            FailureRule(RESTART_INSTANCE, ("ps",), (42, 1, 2, 3, 7, 8, 9), ("hang",)),
            FailureRule(FAIL_APPLICATION),
        ),
    )


def test_defaults_and_the_words_of_the_contract(tmp_path):
    assert sound(make_package(tmp_path)).failure == FailurePolicy(3, 10, 10.0, True)
    rule = effective_schema("metainfo")["$defs"]["failureRule"]["properties"]
    actions = (RESTART_CLUSTER, RESTART_INSTANCE, FAIL_APPLICATION, IGNORE)
    assert tuple(rule["action"]["enum"]) == actions
    assert tuple(rule["onReasons"]["items"]["enum"]) == REASONS


WINDOWS = [
    ("", "", 6 * 3600.0),
    ("yarn.container.failure.window.minutes: 10", "", 600.0),
    ("yarn.container.failure.window.days: 1", "yarn.container.failure.window.seconds: 5", 5.0),
    ("yarn.container.failure.window.hours: 0", "", 0.0),
]


@pytest.mark.parametrize(("shared", "own", "seconds"), WINDOWS)
def test_a_window_is_the_sum_of_its_parts(tmp_path, shared, own, seconds):
    folder = make_package(tmp_path)
    (folder / "resources-default.yaml").write_text(
        f"global: {{{shared}}}\n"
        "components:\n"
        f"  worker: {{yarn.role.priority: 1, yarn.component.instances: 1, {own}}}\n"
    )
    found = sound(folder).resources["worker"]
    assert (found.failure_threshold, found.failure_window) == (5, seconds)
