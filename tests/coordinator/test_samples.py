from __future__ import annotations

import pytest

from tfapp.contract.metrics import UNKNOWN
from tfapp.contract.status import Samples
from tfapp.contract.usage import Usage
from tfapp.coordinator.policy.state import Instance, Stage
from tfapp.coordinator.samples import EACH, EVERY, MOST_SERIES, Sampler
from tfapp.course import MAX_POINTS


def instance(
    name: str, busy: float | None = None, stage: Stage = Stage.RUNNING, **metrics
) -> Instance:
    component, _, index = name.partition("/")
    usage = None if busy is None else Usage(9.0, busy, busy, 2, 3 << 20, 3 << 20, 8 << 20, 0, 0)
    return Instance(name, component, int(index), component, stage, usage=usage, metrics=metrics)


def known(samples: Samples | None) -> dict[tuple[str, str, str], str]:
    assert samples is not None
    assert {len(one.values.split()) for one in samples.series} == {len(samples.times)}
    return {(one.who, one.what, one.of): one.values for one in samples.series}


def test_each_instance_is_sampled_now_and_then():
    sampler = Sampler()
    sampler.observe([instance("worker/0"), instance("ps/0")], 0.0)
    assert sampler.known is None, "nothing is known of them"
    sampler.observe([instance("worker/0", 0.5), instance("ps/0", loss="nan")], 1.0)
    sampler.observe([instance("worker/0", 1.0)], 1.0 + EVERY / 2)
    ended = instance("ps/0", 2.0, Stage.ENDED)
    sampler.observe([instance("worker/0", 1.5, cpu=7.0), ended], 1.0 + EVERY)
    assert sampler.known is not None
    assert sampler.known.times == (1.0, 1.0 + EVERY)
    assert [(one.what, one.program, one.values) for one in sampler.known.series] == [
        ("cpu", False, "0.5 1.5"),
        ("memory", False, "3 3"),
        ("cpu", True, f"{UNKNOWN} 7"),
    ]


def test_of_many_the_lowest_the_middle_and_the_highest_are_told():
    sampler = Sampler()
    workers = [instance(f"worker/{n}", float(n), loss=n / 8) for n in range(EACH + 1)]
    sampler.observe([instance("chief/0", 1.0), *workers], 1.0)
    found = known(sampler.known)
    assert found["chief/0", "cpu", ""] == "1"
    assert {
        of: values for (who, what, of), values in found.items() if who == "worker" and what == "cpu"
    } == {
        "lowest": "0",
        "middle": "4",
        "highest": "8",
    }
    assert found["worker", "loss", "highest"] == "1"


def test_however_long_it_runs_it_takes_no_more_room():
    sampler = Sampler()
    count = 900
    for n in range(count):
        each = [instance(f"c{m}/0", 1.0, **{f"m{k}": 0.5 for k in range(16)}) for m in range(20)]
        sampler.observe(each, n * EVERY)
    found = known(sampler.known)
    assert len(found) == MOST_SERIES
    assert sampler.known is not None
    times = sampler.known.times
    assert MAX_POINTS / 2 <= len(times) <= MAX_POINTS
    assert (times[0], times[-1] > (count - 100) * EVERY) == (0.0, True)
    gaps = [b - a for a, b in zip(times, times[1:])]
    assert gaps == [gaps[0]] * len(gaps), "as far apart everywhere"
    # The next coordinator goes on.
    resumed = Sampler(sampler.known)
    resumed.observe([instance("c0/0", 0.25)], times[-1] + gaps[0] - 1)
    assert resumed.known == sampler.known, "it is not time for one yet"
    resumed.observe([instance("c0/0", 0.25)], times[-1] + gaps[0])
    assert known(resumed.known)["c0/0", "cpu", ""] == found["c0/0", "cpu", ""] + " 0.25"


@pytest.mark.parametrize("count", [1, 2, 9, 64])
def test_samples_are_thinned_down_to_the_newest(count):
    sampler = Sampler()
    for n in range(count):
        sampler.observe([instance("worker/0", float(n))], n * EVERY)
    assert sampler.known is not None
    before = sampler.known
    thin = before.thinner()
    assert thin.times == before.times[::-1][::2][::-1]
    assert known(thin)["worker/0", "cpu", ""].split() == [
        *known(before)["worker/0", "cpu", ""].split()[::-1][::2][::-1]
    ]
