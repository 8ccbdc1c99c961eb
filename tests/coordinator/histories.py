"""Histories of applications, as files of text: see policy/step.txt. A paragraph is a title, the
instances with what is set for them, and then each happening (see world.py) with what the policy
orders and publishes at it, which is indented, and the verdict. For a new case write the lines that
are not indented; `pytest tests/coordinator --update-golden` writes the others."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import yaml

from tests.contract_values import make_failure_policy, make_limits
from tests.coordinator.world import World, job
from tfapp.contract.job import FailurePolicy, FailureRule, Limits
from tfapp.coordinator.policy.state import FINISHED
from tfapp.frozen import replace

LIMITS = make_limits(gang=60, evaluator=100, heartbeat=2, heartbeat_lost=10, settle=0.5)


@dataclasses.dataclass
class Histories:
    """Those in `path`, by their titles. `failure`: what holds where one says nothing of it."""

    path: Path
    failure: FailurePolicy = dataclasses.field(default_factory=make_failure_policy)

    def __post_init__(self) -> None:
        paragraphs = self.path.read_text(encoding="utf-8").rstrip("\n").split("\n\n")
        self.by_title = {text.partition("\n")[0].removeprefix("# "): text for text in paragraphs}
        assert len(self.by_title) == len(paragraphs)

    def told(self, title: str) -> str:
        """The paragraph as it is now."""
        head, instances, *history = (
            line for line in self.by_title[title].splitlines() if not line.startswith((" ", "=>"))
        )
        world, lines, seen = self.world(instances), [head, instances], 0
        for line in world.played("\n".join(history)):
            lines += [line, *(f"    {done}" for done in world.log[seen:])]
            seen = len(world.log)
        verdict = world.state.verdict
        assert world.state.phase == FINISHED
        assert verdict is not None
        return "\n".join([*lines, f"=> {verdict.exit_code} {verdict.summary}"])

    def world(self, instances: str) -> World:
        """A world of "worker=2; max_restarts: 1": fields of the failure policy, of the limits, of
        components, or `success`."""
        layout, _, text = instances.partition("; ")
        changes: dict[str, Any] = yaml.safe_load(f"{{{text}}}")
        counted = {
            "failure_threshold": changes.pop("threshold", 5),
            "failure_window": changes.pop("window", 3600.0),
        }
        success = tuple(changes.pop("success", ()))
        limits = {f.name for f in dataclasses.fields(Limits)} & changes.keys()  # type: ignore[arg-type]
        limited = replace(LIMITS, **{name: changes.pop(name) for name in limits})
        if "rules" in changes:
            changes["rules"] = tuple(map(FailureRule.from_dict, changes["rules"]))
        made = job(layout, success, limited, replace(self.failure, **changes))
        components = tuple(replace(c, **counted) for c in made.components)
        return World(replace(made, components=components))

    def check(self, title: str, update: bool) -> None:
        """The paragraph says what happens; with `update`, from now on."""
        told = self.told(title)
        if update:
            text = self.path.read_text(encoding="utf-8")
            self.path.write_text(text.replace(self.by_title[title], told), encoding="utf-8")
        else:
            assert told == self.by_title[title]
