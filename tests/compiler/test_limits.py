"""Deadlines: their defaults, and values that cannot be deadlines."""

from __future__ import annotations

import pytest

from tests.compiler.packages import component, package, values
from tfapp.compiler.limits import KEYS, check_limits, progress_timeout, read_limits
from tfapp.contract.limits import Limits
from tfapp.schema import defaults


def test_the_schema_and_the_contract_agree_on_the_defaults():
    declared = defaults("appConfig")
    assert Limits(**{field: declared[key] for key, field in KEYS.items()}) == Limits()


def test_as_appconfig_says():
    texts = ("1", "0", "1.5", "1e3")
    built = package(settings=dict(zip(KEYS, texts)))
    assert list(check_limits(built)) == []
    assert read_limits(built) == Limits(gang=1, lifetime=0, evaluator=1.5, stop_grace=1000)


@pytest.mark.parametrize("text", ["soon", "-1", "inf", "nan", ""])
def test_no_number_of_seconds(text):
    built = package(settings={"site.global.evaluator.timeout": text})
    assert [str(problem) for problem in check_limits(built)] == [
        f"app/appConfig.yaml:11:20: error: site.global.evaluator.timeout is {text!r}, expected a "
        "number of seconds, 0 or more [duration]"
    ]


def test_the_gang_deadline_cannot_be_switched_off():
    built = package(settings={"site.global.gang.timeout": "0"})
    assert [str(problem) for problem in check_limits(built)] == [
        "app/appConfig.yaml:11:20: error: site.global.gang.timeout is '0', expected a number of "
        "seconds, above 0 [duration]"
    ]


@pytest.mark.parametrize("settings", [{}, {"site.global.gang.timeout": "7"}])
def test_one_component_alone_has_none(settings):
    built = package(
        component("ps"),
        component("worker"),
        settings=settings,
        own={"worker": {"site.global.gang.timeout": "5"}},
    )
    assert [str(problem) for problem in check_limits(built)] == [
        "app/appConfig.yaml:50:3: error: site.global.gang.timeout holds for the whole "
        "application, not for worker alone [application-wide]"
    ]


def test_the_same_written_for_one_component_is_nothing():
    same = {"site.global.gang.timeout": "600.0"}
    assert list(check_limits(package(own={"worker": same}))) == []


def test_components_may_carry_the_schemas_default():
    built = package()
    inherited = values(0, {key: str(getattr(Limits(), field)) for key, field in KEYS.items()})
    built.config.components["worker"].update(inherited)
    assert list(check_limits(built)) == []
    assert read_limits(built) == Limits()


def test_progress_is_expected_of_who_trains_and_of_whom_it_is_asked():
    key = "site.global.progress.timeout"
    components = [component(name) for name in ("chief", "worker", "ps", "evaluator")]
    own = {"worker": {key: "9"}, "evaluator": {key: "60"}}
    built = package(*components, settings={key: "30"}, own=own)
    found = {each.name: progress_timeout(built, each) for each in components}
    assert found == {"chief": 30.0, "worker": 9.0, "ps": 0.0, "evaluator": 60.0}
