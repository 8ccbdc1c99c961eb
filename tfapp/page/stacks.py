"""The stacks and the traces of programs as a page shows them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from typing import Any

from tfapp.contract.stacks import InstanceStacks, Stacks, grouped
from tfapp.contract.status import ApplicationStatus

PATH = "stacks.json"  # beside a page: those taken last, and with POST those of now
PROFILE = "profile.json"  # with POST: lets all programs trace themselves
LAST, NOW, TRACES = "last stacks", "stacks now", "traces"  # whether its server has them (About.can)


def last_taken(values: Iterable[bytes], status: ApplicationStatus) -> Stacks:
    """Of what runners have told below STACKS_PREFIX the stacks of programs that still run."""
    containers = {one.instance: one.container for one in status.instances}
    found = []
    for value in values:
        with contextlib.suppress(ValueError):
            told = InstanceStacks.from_dict(json.loads(value))
            current = told.generation == status.generation
            if current and containers.get(told.instance) == told.container:
                found.append(told)
    return Stacks(grouped((one.instance, one.place) for one in found), tuple(found))


def shown(stacks: Stacks) -> dict[str, Any]:
    """Those at the same place together, with all frames of the first of them, and when the oldest
    and the newest were taken."""
    times = sorted(one.taken for one in stacks.instances if one.taken)
    total, by_name = len(stacks.instances), {one.instance: one for one in stacks.instances}
    return {
        "groups": [
            {
                "words": group.in_words(total),
                "instances": list(group.instances),
                "lines": list(by_name[group.instances[0]].lines()),
            }
            for group in stacks.groups
        ],
        "taken": times[:1] + times[-1:],
        "missing": list(stacks.missing),
    }
