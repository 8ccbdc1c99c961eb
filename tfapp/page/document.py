"""The document of a page: plain JSON data that holds everything that the page shows."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tfapp.contract.metrics import floats
from tfapp.contract.names import (
    ACCEPTED,
    FINAL_STATES,
    FORMING,
    RUNNING,
    STOPPING,
    SUSPENDED,
    exported_pages,
)
from tfapp.contract.status import (
    OWN_STEP,
    SLOW,
    STALLS,
    ApplicationStatus,
    FeedStatus,
    InstanceStatus,
    RanComponent,
)
from tfapp.contract.terminal import plain
from tfapp.contract.usage import Usage, amount
from tfapp.frozen import frozen
from tfapp.page.history import History, Lane, history

PAUSE = 1.0  # seconds between two requests of a page while the application runs
PAUSE_EACH = 0.01  # additional seconds for each instance
ADVICE_AFTER = 60.0  # seconds of a program from which its use says something
_MOST_LINES = 20  # on outputs
PAUSE_AFTER = 5.0  # seconds between two requests after its end: it may be started again
MAX_LINES = 200  # lines of a log that are shown
SEARCH = "search.json"  # path beside a page: what `found` returns
MAX_SEARCHED = 4 << 20  # bytes at the end of a log that are searched
MAX_FOUND = 200  # lines of a log that are shown where they are searched
_MAX_WORDS = 200  # characters of what is searched

ALL_LOGS = "all logs"  # a search in all logs at once (About.can)


@frozen
class About:
    """Information about an application that is not in its status. `waits`: what it waits for, in
    the engine's words. `direct`: whether a browser can reach the addresses that instances
    export. `ways`: (words, path) of links to other pages. `can`: what else than a page its server
    answers."""

    name: str
    engine: str = ""
    id: str = ""
    run: int = 0
    live: bool = True
    tags: Sequence[str] = ()
    waits: str = ""
    direct: bool = True
    ways: Sequence[tuple[str, str]] = ()
    can: Sequence[str] = ()


@frozen
class PageAddress:
    """A link. `what`: the kind of page; links of the kind "log" are shown with the logs.
    `instance`: the instance that it belongs to, "" for the application. `note`: how to get there
    if the browser cannot."""

    what: str
    instance: str
    address: str
    note: str = ""


@frozen
class PageLog:
    """The last lines of an instance's log. `missing`: why there are none."""

    instance: str
    text: str
    missing: str = ""


def of_application(
    about: About,
    status: ApplicationStatus,
    links: Iterable[PageAddress] = (),
    logs: Sequence[PageLog] = (),
    fixed: bool = False,
) -> dict[str, Any]:
    """The document of one application. `logs`: the log that the page shows; in a `fixed` document,
    all logs. A fixed document is a report to be kept: its page asks for no newer one."""
    past = history(status, about.live)
    verdict = status.verdict
    pause = PAUSE + PAUSE_EACH * len(status.instances) if about.live else PAUSE_AFTER
    names = [i.instance for i in status.instances]
    return {
        "kind": "application",
        **_facts(about, status),
        "id": about.id,
        "ways": [list(way) for way in about.ways],
        "can": list(about.can),
        "cause": dataclasses.asdict(verdict.cause) if verdict and verdict.cause else None,
        "generation": status.generation,
        "restarts": status.restarts,
        "losses": status.losses,
        "checkpoints": status.checkpoint_dir,
        "feed": feed_in_words(status),
        "outputs": outputs_in_words(status),
        "advice": advice_in_words(status),
        "ran": [list(fact) for fact in ran_in_words(status)],
        "instances": [
            _instance(i, lane, status.feed) for i, lane in zip(status.instances, past.lanes)
        ],
        "history": _history(past),
        "moments": [
            {"at": moment.time - status.started, "text": moment.text} for moment in status.timeline
        ],
        "links": [dataclasses.asdict(link) for link in (*_pages(about, status), *links)],
        "exports": [
            {"instance": i.instance, "group": group, "name": name, "value": value}
            for i in status.instances
            for group, own in sorted(i.exports.items())
            for name, value in sorted(own.items())
        ],
        "curves": [dataclasses.asdict(curve) for curve in status.curves],
        "samples": dataclasses.asdict(status.samples) if status.samples else None,
        "slow": waited_for_in_words(status).partition(" ")[0],
        "stalled": _stalled(status),
        "log_names": [log.instance for log in logs] if fixed else names,
        "logs": [dataclasses.asdict(log) for log in logs],
        "pause": None if fixed else pause,
    }


def ran_in_words(status: ApplicationStatus) -> list[tuple[str, str]]:
    """What an application runs, as (name, text)."""
    if status.ran is None:
        return []
    versions = {one.component: one.versions for one in status.instances if one.versions}
    found = [
        (f"{one.component} program", _component_in_words(one, versions.get(one.component, {})))
        for one in status.ran.components
    ]
    ran = status.ran
    options = ("options", ", ".join(ran.options))
    others = (options, ("user", ran.user), ("commit", ran.commit), ("tfapp", ran.tfapp))
    return [*found, *(fact for fact in others if fact[1])]


def _component_in_words(one: RanComponent, versions: Mapping[str, str]) -> str:
    """ "train.py --epochs 8; 2 x 1024 MiB, 1 vcore; python3 in img:1 (Python 3.12.4)"."""
    gpus = f", {counted(one.gpus, 'GPU')}" if one.gpus else ""
    gets = f"{one.instances} x {one.memory} MiB, {counted(one.vcores, 'vcore')}{gpus}"
    where = f"{one.python} in {one.image}" if one.image else one.python
    if versions:
        where += f" ({', '.join(' '.join(pair) for pair in versions.items())})"
    return "; ".join(part for part in (one.program, gets, where) if part)


def counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def in_words(status: ApplicationStatus, waits: str = "") -> str:
    """The verdict of an application, or its state in a sentence or two."""
    if status.verdict is not None:
        return status.verdict.summary
    waiting = f" {waits[:1].upper()}{waits[1:].rstrip('.')}." if waits else ""
    if status.state == ACCEPTED:
        return f"Accepted: nothing runs yet.{waiting}"
    if status.state == SUSPENDED:
        return f"Suspended: nothing runs now.{waiting}"
    absent = {one.instance for one in status.absent}
    states = Counter(one.state for one in status.instances if one.instance not in absent)
    counts = ", ".join(f"{count} {state.lower()}" for state, count in states.items())
    total = len(status.instances)
    whose = f"{status.size} instance{'' if total == 1 else 's'}: {counts}." if total else ""
    number = "" if status.generation is None else f" {status.generation}"
    begin = {
        FORMING: f"Generation{number} is forming.",
        RUNNING: f"Generation{number} runs.",
        STOPPING: "It is stopping.",
    }.get(status.state, f"It is {status.state}.")
    slow = waited_for_in_words(status)
    return f"{begin} {whose}{waiting}{f' {slow}.' if slow else ''}"


def waited_for_in_words(status: ApplicationStatus) -> str:
    """Which instance of a synchronous training the others wait for, as far as they tell OWN_STEP:
    "worker/3 is waited for: 0.31 s of its own in each step, the others 0.02 s"; "" for none."""
    running = {i.instance: floats(i.metrics) for i in status.instances if i.state == RUNNING}
    told = {name: values[OWN_STEP] for name, values in running.items() if OWN_STEP in values}
    own = {name: value for name, value in told.items() if math.isfinite(value)}
    if len(own) < 2:
        return ""
    slow = max(own, key=lambda name: own[name])
    others = statistics.median(value for name, value in own.items() if name != slow)
    if not own[slow] >= SLOW * others:
        return ""
    figures = f"{own[slow]:.2g} s of its own in each step, the others {others:.2g} s"
    return f"{slow} is waited for: {figures}"


def _stalled(status: ApplicationStatus) -> str:
    """Where all were when the steps stopped of those that make none now; "" while it is not
    told."""
    since = [i.no_step_since for i in status.instances if i.no_step_since is not None]
    told = (m.text for m in reversed(status.timeline) if m.kind == STALLS and m.time > min(since))
    return next(told, "") if since else ""


def feed_in_words(status: ApplicationStatus) -> str:
    """The progress of a feed from Spark in one or more sentences; "" if there is no feed."""
    feed = status.feed
    if feed is None:
        return ""
    rows = _rows(feed.rows)
    if feed.seconds:
        rows += " in " + f"{feed.seconds:,.1f}".removesuffix(".0") + " s"
    average = feed.rows / feed.seconds if feed.seconds else 0.0
    if feed.error:
        told = [f"It has failed after {rows}: {feed.error.rstrip('.')}."]
    elif feed.over:
        why = "The programs wanted no more" if feed.stopped else "All is with the programs"
        told = [f"{why}: {rows}{_speed(average)}."]
    elif status.verdict is not None:
        told = [f"The application has ended before it was over, after {rows} or more."]
    elif feed.rows_per_second and not feed.waits:
        told = [f"{rows}, now {feed.rows_per_second:,.0f} rows a second."]
    else:
        told = [f"{rows}{_speed(average)}."]
    if feed.waits and status.verdict is None:
        told.append(f"Nothing moves: {feed.waits}.")
    if feed.dropped:
        told.append(f"{_rows(feed.dropped)} at the end made no full batch for every program.")
    if feed.lost:
        told.append(f"Lost with programs that failed: {_rows(feed.lost)}.")
    return " ".join(told)


def outputs_in_words(status: ApplicationStatus) -> list[str]:
    """What programs have left in their working folders, a line for each instance, at most
    _MOST_LINES, and how it is fetched."""
    told = [(i.instance, i.outputs) for i in status.instances if i.outputs and i.outputs.text()]
    lines = [f"{instance} {outputs.text(place=False)}" for instance, outputs in told[:_MOST_LINES]]
    if len(told) > _MOST_LINES:
        lines.append(f"and {len(told) - _MOST_LINES} more instances, see `tfapp status`")
    if any(outputs.count for _, outputs in told):
        lines.append(f"`tfapp fetch {status.name} DIR --outputs` copies what is kept")
    return lines


def advice_in_words(status: ApplicationStatus) -> list[str]:
    """Where it is plain, once it is over, that a component has asked for much more memory than its
    programs have used, or processors: a line for each, as "worker: at most 1.2 GiB of 8.0 GiB of
    memory was used"."""
    if status.state not in FINAL_STATES:
        return []
    used: dict[str, list[Usage]] = {}
    for instance in status.instances:
        if instance.usage is not None and instance.usage.seconds >= ADVICE_AFTER:
            used.setdefault(instance.component, []).append(instance.usage)
    lines = []
    for component, all_of in used.items():
        peak, limit = max(u.memory_peak for u in all_of), min(u.memory_limit for u in all_of)
        if peak < limit / 2 and limit - peak >= 1 << 30:
            told = f"at most {amount(peak)} of {amount(limit)} of memory was used"
            lines.append(f"{component}: {told} (yarn.memory)")
        mean, vcores = max(u.cpu_mean or 0.0 for u in all_of), min(u.vcores for u in all_of)
        if 0 < mean < vcores / 2 and vcores - mean >= 1:
            told = f"{mean:.1f} of {vcores} processors were busy on average"
            lines.append(f"{component}: {told} (yarn.vcores)")
        gpus = min(u.gpus for u in all_of)
        busy = [u.gpu_mean for u in all_of if u.gpu_mean is not None]
        if gpus and busy and max(busy) < gpus / 2:
            told = f"GPUs were busy {100 * max(busy) / gpus:.0f} % of the time at most"
            lines.append(f"{component}: {told}: is the input slow?")
    return lines


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


def _speed(rows: float) -> str:
    return f", {rows:,.0f} a second" if rows >= 1 else ""


def of_list(rows: Sequence[Mapping[str, Any]], notes: Sequence[str]) -> dict[str, Any]:
    """The document of a list of applications. `rows`: made by `row`. `notes`: sentences on engines
    that could not be asked."""
    return {
        "kind": "list",
        "name": "Applications",
        "rows": list(rows),
        "notes": list(notes),
        "pause": PAUSE_AFTER,
    }


def row(about: About, status: ApplicationStatus) -> dict[str, Any]:
    """The row of one application in a list."""
    return {**_facts(about, status), "href": f"{about.engine}/{about.name}/"}


def _facts(about: About, status: ApplicationStatus) -> dict[str, Any]:
    return {
        "name": about.name,
        "engine": about.engine,
        "run": about.run,
        "live": about.live,
        "tags": list(about.tags),
        "state": status.state,
        "words": in_words(status, about.waits),
        "started": status.started,
        "updated": status.updated,
    }


def of_error(title: str, why: str, up: str = "", again: bool = False) -> dict[str, Any]:
    """The document of an error. `why`: a sentence. `up`: the path of the first page, relative to
    this one. `again`: whether the page tries again by itself."""
    return {
        "kind": "error",
        "name": title,
        "words": why,
        "up": up,
        "pause": PAUSE_AFTER if again else None,
    }


def encoded(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def last_lines(data: bytes, most: int = MAX_LINES) -> str:
    """The last lines of a log as a terminal would show them, without colours."""
    return "\n".join(map(plain, _lines(data)[-most:]))


def _lines(data: bytes) -> list[str]:
    """Of a line with carriage returns, as progress bars write, only the text after the last one is
    kept."""
    lines = data.decode(errors="replace").replace("\r\n", "\n").split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.rstrip("\r").rpartition("\r")[2] for line in lines]


def found(logs: Iterable[tuple[str, bytes, int]], words: str) -> dict[str, Any]:
    """The newest lines with `words` in them, in small or capital letters, MAX_FOUND of all logs
    together. `logs`: (instance, the end of its log, the size of all of it), of which MAX_SEARCHED
    bytes are searched."""
    wanted = words[:_MAX_WORDS].lower()
    told: list[dict[str, Any]] = []
    searched, total, matching, room = 0, 0, 0, MAX_FOUND
    for instance, data, size in logs:
        data = data[-MAX_SEARCHED:]
        searched, total = searched + len(data), total + size
        lines = [line for line in _lines(data) if wanted in line.lower()] if wanted else []
        matching += len(lines)
        shown = lines[-room:] if room else []
        room -= len(shown)
        if shown:
            told.append({"instance": instance, "lines": [plain(line) for line in shown]})
    return {"found": told, "matching": matching, "searched": searched, "size": total}


def _instance(instance: InstanceStatus, lane: Lane, feed: FeedStatus | None) -> dict[str, Any]:
    return {
        "name": instance.instance,
        "component": instance.component,
        "role": instance.role + ("" if instance.task is None else f", task {instance.task}"),
        "state": instance.state,
        "host": instance.host,
        "restarts": max(lane.starts - 1, 0),
        "exit": instance.exit.text if instance.exit else "",
        "preparing": instance.preparing,
        "rows": feed.instances.get(instance.instance) if feed else None,
        "step": instance.step,
        "total": instance.total,
        "left": instance.left,
        "usage": _usage(instance.usage),
        "epoch": instance.epoch,
        "since": instance.no_step_since,
        "speed": instance.steps_per_second,
        "metrics": dict(instance.metrics),
    }


def _usage(usage: Usage | None) -> dict[str, Any] | None:
    """Each as words, and those that its container has asked for as a part of that, too."""
    if usage is None:
        return None
    return {
        "cpu": usage.processor,
        "cpu_share": (usage.cpu or 0.0) / usage.vcores if usage.vcores else 0.0,
        "memory": usage.memory_in_words,
        "memory_share": usage.memory / usage.memory_limit if usage.memory_limit else 0.0,
        "read": amount(usage.read),
        "written": amount(usage.written),
        "gpu": usage.gpu_in_words,
        "gpu_share": (usage.gpu or 0.0) / usage.gpus if usage.gpus else 0.0,
    }


def _history(past: History) -> dict[str, Any]:
    return {
        "since": past.since,
        "until": past.until,
        "generations": [vars(generation) for generation in past.generations],
        "lanes": [
            {"instance": lane.instance, "parts": [vars(part) for part in lane.parts]}
            for lane in past.lanes
        ],
        "marks": [vars(mark) for mark in past.marks],
    }


def _pages(about: About, status: ApplicationStatus) -> list[PageAddress]:
    """Links to the web pages that instances export, while the application is alive."""
    if not about.live:
        return []
    ways = {
        "TensorBoard": f"`tfapp tensorboard {about.name} --engine {about.engine}` leads there",
        "page": "`kubectl port-forward` leads there",
    }
    found = []
    for i in status.instances:
        what = "TensorBoard" if i.role == "tensorboard" else "page"
        note = "" if about.direct else f"An address inside the cluster. {ways[what]} from outside."
        found += [PageAddress(what, i.instance, page, note) for page in exported_pages(i.exports)]
    return found
