"""Statuses of applications whose pages are looked at."""

import json

from tfapp.contract.exit import Exit
from tfapp.contract.status import (
    BEGINS,
    ENDS,
    FAILURE,
    STALLS,
    STARTS,
    ApplicationStatus,
    Cause,
    Curve,
    InstanceStatus,
    Moment,
    Samples,
    Series,
    Verdict,
)
from tfapp.contract.usage import Usage

BEGUN = 1.0e9
HOSTILE = "<script>document.title='taken'</script><img src=x onerror=alert(1)>&{{data}}"


def embedded(text: str) -> dict:
    """The document in a page, as a browser reads it: up to the first end of a script element."""
    begin = text.index('id="data">') + len('id="data">')
    return json.loads(text[begin : text.index("</script", begin)])


def instance(name: str, state: str = "RUNNING", **more) -> InstanceStatus:
    component = name.partition("/")[0]
    values = {"host": "node-1", "container": name.replace("/", "_"), **more}
    return InstanceStatus(name, component, component, state, **values)


def restarted() -> ApplicationStatus:
    """One that has failed once, runs in its second generation, and says hostile things."""
    sentence = "worker/1 on node-1 ended with exit code 7 in generation 1"
    return ApplicationStatus(
        "app",
        "RUNNING",
        2,
        BEGUN,
        BEGUN + 60,
        (
            instance("worker/0", exports={"worker": {"page": "http://node-1:6006/"}}, step=20),
            instance("worker/1", exports={"worker": {"host_port": HOSTILE}}, preparing=HOSTILE),
            instance("worker/2"),
        ),
        restarts=1,
        joined={"worker/2": 2},
        timeline=(
            Moment(BEGUN + 2, "generation 1 starts, 2 instances", STARTS, "", 1),
            Moment(BEGUN + 20, f"{sentence}: {HOSTILE}", FAILURE, "worker/1", 1),
            Moment(BEGUN + 20, "generation 2 begins", BEGINS, "", 2),
            Moment(BEGUN + 25, "generation 2 starts, 3 instances", STARTS, "", 2),
        ),
        curves=(
            Curve("worker/0", HOSTILE, ((5.0, 1, 0.5), (10.0, 2, "nan"), (30.0, 1, 0.25))),
            Curve("worker/0", "loss", tuple((float(n), n, 1.0 / n) for n in range(1, 40))),
        ),
    )


def elastic() -> ApplicationStatus:
    """One that runs without two of its eight workers."""
    late = {"worker/0": 3, "worker/5": 3}
    there = [f"worker/{n}" for n in range(8) if f"worker/{n}" not in late]
    tasks = {name: n for n, name in enumerate(there) if name != f"worker/{n}"}
    workers = [
        instance(name, "REQUESTED", host="", preparing="waiting for 1 GPU")
        if name in late
        else instance(name, task=tasks.get(name), step=100 + tasks.get(name, 0))
        for name in (f"worker/{n}" for n in range(8))
    ]
    return ApplicationStatus(
        *("elastic", "RUNNING", 2, BEGUN, BEGUN + 60),
        tuple(workers),
        joined=late,
        timeline=(
            Moment(BEGUN, "generation 2 begins", BEGINS, "", 2),
            Moment(BEGUN + 5, "generation 2 starts, 6 of 8 instances", STARTS, "", 2),
        ),
    )


def slow(count: int = 60) -> ApplicationStatus:
    """One of which a worker holds up the others, with samples over time."""
    instances = [instance("chief/0", step=1200, total=5000, steps_per_second=10.0)]
    for n in range(count - 1):
        cpu = 0.25 if n == 17 else 1.0 + n / 100
        usage = Usage(9.0, cpu, cpu, 2, n << 20, n << 20, 1 << 30, n << 20, 5)
        own = {"own_step_seconds": 0.5 if n == 17 else 0.01}
        still = BEGUN + 40 if n == 17 else None
        instances.append(instance(f"worker/{n}", usage=usage, metrics=own, no_step_since=still))
    series = (
        Series("chief/0", "cpu", "- 1.5 2"),
        *(Series("worker", "cpu", "0.25 0.25 0.25", "lowest"),),
        *(Series("worker", "cpu", "1 1.5 1.25", "middle"),),
        *(Series("worker", "cpu", "2 - 1.75", "highest"),),
        Series("chief/0", HOSTILE, "0.5 0.25 -", program=True),
        Series("chief/0", "cpu", "7 7 7", program=True),
    )
    return ApplicationStatus(
        "slow",
        "RUNNING",
        1,
        BEGUN,
        BEGUN + 60,
        tuple(instances),
        timeline=(
            Moment(BEGUN + 2, "generation 1 starts", STARTS, "", 1),
            Moment(BEGUN + 50, f"worker/17 is in load at data.py:12 {HOSTILE}", STALLS, "", 1),
        ),
        samples=Samples((5.0, 10.0, 15.0), series),
    )


def large(count: int = 200) -> ApplicationStatus:
    """One of many instances that has failed in the end."""
    exit = Exit(None, 9, "memory", "killed by SIGKILL (9): it was out of memory")
    used = Usage(99.0, 1.0, 1.0, 1, 1 << 30, 1 << 30, 8 << 30, 0, 0)
    instances = [instance("chief/0", "KILLED", usage=used)]
    instances += [instance(f"ps/{n}", "KILLED") for n in range(8)]
    for n in range(count - len(instances)):
        state = {17: "FAILED", 44: "LOST"}.get(n, "KILLED")
        more = {"exit": exit} if state == "FAILED" else {}
        instances.append(
            instance(
                f"worker/{n}",
                state,
                host=f"node-{n % 40}.cluster.example.org",
                exports={"worker": {"host_port": f"node-{n % 40}:4000{n}"}},
                step=1200 + n,
                metrics={"loss": 0.1 + n / 1000},
                steps_per_second=11.5,
                **more,
            )
        )
    timeline = [Moment(BEGUN + 30, "generation 1 starts, 200 instances", STARTS, "", 1)]
    for generation in range(2, 5):
        at = BEGUN + 600 * (generation - 1)
        which = f"worker/{generation * 37}"
        text = f"{which} on node-3 was lost in generation {generation - 1}: its node is gone"
        timeline += [
            Moment(at, text, FAILURE, which, generation - 1),
            Moment(at, f"generation {generation} begins", BEGINS, "", generation),
            Moment(at + 40, f"generation {generation} starts", STARTS, "", generation),
        ]
    summary = "Failed: worker/17 on node-17 ran out of memory in generation 4, after 9 min."
    timeline.append(Moment(BEGUN + 2400, summary, ENDS, "", 4))
    cause = Cause("worker/17", 4, "node-17", "worker_17", exit, f"last words\n{HOSTILE}\n")
    verdict = Verdict("FAILED", 65, summary, cause)
    curve = tuple((30.0 * n, 100 * n, 2.3 / n) for n in range(1, 60))
    return ApplicationStatus(
        "large",
        "FAILED",
        4,
        BEGUN,
        BEGUN + 2400,
        tuple(instances),
        verdict,
        restarts=0,
        losses=3,
        timeline=tuple(timeline),
        curves=(Curve("chief/0", "loss", curve),),
    )
