"""Deadlines, in all units, and the components that have to show progress."""

import dataclasses

from tests.compiler.packages import component, package
from tests.contract_values import make_limits
from tfapp.compiler.job import progress_timeout, read_limits
from tfapp.contract.job import Settings


def test_as_appconfig_says():
    settings = Settings(
        {
            "site.global.gang.timeout": "10 min",
            "site.global.application.lifetime": "1.5 d",
            "site.global.evaluator.timeout": "1.5",
            "site.global.stop.grace": "0",
            "site.global.elastic.wait": "2 min",
            "site.global.save.grace": "3 min",
            "site.global.elastic.interval": "1 h",
            "site.global.master.timeout": "3 min",
        }
    )
    limits = make_limits(gang=600, lifetime=129600, evaluator=1.5, stop_grace=0, settle=6)
    limits = dataclasses.replace(limits, elastic_wait=120, elastic_interval=3600)
    limits = dataclasses.replace(limits, save_grace=180, master=180)
    assert read_limits(settings, settle=6) == limits


def test_progress_is_expected_of_who_trains_and_of_whom_it_is_asked():
    key = "site.global.progress.timeout"
    components = [component(name) for name in ("chief", "worker", "ps", "evaluator")]
    own = {"worker": {key: "9"}, "evaluator": {key: "1 min"}}
    built = package(*components, settings={key: "30"}, own=own)
    found = {each.name: progress_timeout(built, each) for each in components}
    assert found == {"chief": 30.0, "worker": 9.0, "ps": 0.0, "evaluator": 60.0}
