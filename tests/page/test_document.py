"""What a page shows, and what it does not."""

import dataclasses
import json
import re

import pytest

from tests.page.applications import BEGUN, HOSTILE, elastic, embedded, instance, large, restarted
from tfapp.contract.status import (
    ENDS,
    FAILURE,
    OWN_STEP,
    REPLACED,
    RESTARTED,
    STALLS,
    STARTS,
    ApplicationStatus,
    FeedStatus,
    InstanceStatus,
    Moment,
    Ran,
    RanComponent,
    Samples,
    Series,
)
from tfapp.contract.usage import Usage
from tfapp.page.document import (
    MAX_FOUND,
    MAX_SEARCHED,
    About,
    PageLog,
    advice_in_words,
    feed_in_words,
    found,
    in_words,
    last_lines,
    of_application,
    of_list,
    ran_in_words,
    row,
    waited_for_in_words,
)
from tfapp.page.history import FORMS, RUNS, Generation, Mark, Part, history
from tfapp.page.html import page, policy

ABOUT = About("app", "local", "application_1_0001", 1, True)


def test_a_restart_is_lanes_bands_and_a_mark():
    found = history(restarted(), live=True)
    assert found.until is None
    assert found.generations == (
        Generation(1, 0.0, 2.0, 20.0),
        Generation(2, 20.0, 25.0, None),
    )
    parts = {lane.instance: lane.parts for lane in found.lanes}
    second = (Part(20.0, 25.0, FORMS), Part(25.0, None, RUNS))
    assert parts["worker/0"] == (Part(0.0, 2.0, FORMS), Part(2.0, 20.0, RUNS), *second)
    assert parts["worker/2"] == second, "it joined in generation 2"
    assert [(mark.at, mark.instance) for mark in found.marks] == [(20.0, "worker/1")]


def test_what_an_application_runs():
    worker = RanComponent("worker", "fit.py --epochs 8", 2, 1024, 1, 0, "python3", "")
    ps = RanComponent("ps", "", 1, 512, 2, 1, "python3", "img:1")
    versions = {"Python": "3.12.4", "TensorFlow": "2.16.1"}
    instances = (instance("worker/0", versions=versions), instance("worker/1"), instance("ps/0"))
    status = dataclasses.replace(
        restarted(),
        instances=instances,
        ran=Ran((worker, ps), ("k=v", "env.A"), "1.2", "ada", "abc"),
    )
    what = "2 x 1024 MiB, 1 vcore; python3 (Python 3.12.4, TensorFlow 2.16.1)"
    told = [
        ("worker program", f"fit.py --epochs 8; {what}"),
        ("ps program", "1 x 512 MiB, 2 vcores, 1 GPU; python3 in img:1"),
        ("options", "k=v, env.A"),
        ("user", "ada"),
        ("commit", "abc"),
        ("tfapp", "1.2"),
    ]
    assert ran_in_words(status) == told
    assert of_application(ABOUT, status)["ran"] == [list(fact) for fact in told]
    assert of_application(ABOUT, restarted())["ran"] == []


def test_one_instance_starts_again_in_its_generation():
    status = dataclasses.replace(
        restarted(),
        generation=1,
        instances=(instance("worker/0"), instance("ps/0", "SUCCEEDED", seconds=8.0)),
        timeline=(
            Moment(BEGUN + 2, "", STARTS, "", 1),
            Moment(BEGUN + 10, "it failed", FAILURE, "worker/0", 1),
            Moment(BEGUN + 10, "again", RESTARTED, "worker/0", 1),
            Moment(BEGUN + 30, "it was lost", FAILURE, "worker/0", 1),
            Moment(BEGUN + 34, "another", REPLACED, "worker/0", 1),
        ),
    )
    worker, ps = history(status, live=True).lanes
    assert worker.parts == (
        Part(0.0, 2.0, FORMS),
        Part(2.0, 10.0, RUNS),
        Part(10.0, 30.0, RUNS),
        Part(34.0, None, RUNS),
    )
    assert worker.starts == 3
    assert ps.parts[-1] == Part(2.0, 10.0, RUNS), "it ran for 8 s"


def test_the_verdict_s_cause_is_marked():
    """Where its instance ended, also if the others took their time."""
    status = large()
    found = history(status, live=False)
    assert found.until == 2400.0
    said = status.verdict.summary  # type: ignore[union-attr]
    assert found.marks[-1] == Mark(2400.0, "worker/17", said)
    assert len(found.marks) == 4
    starts = found.generations[-1].starts
    instances = tuple(
        dataclasses.replace(i, seconds=9.0) if i.instance == "worker/17" else i
        for i in status.instances
    )
    found = history(dataclasses.replace(status, instances=instances), live=False)
    assert found.marks[-1] == Mark(starts + 9.0, "worker/17", said)


def test_old_moments_are_forgotten_and_the_picture_begins_later():
    status = dataclasses.replace(restarted(), timeline=restarted().timeline[2:])
    found = history(status, live=True)
    assert (found.since, [g.number for g in found.generations]) == (20.0, [2])


@pytest.mark.parametrize("state", ["ACCEPTED", "FAILED"])
def test_there_may_be_nothing_but_a_state(state):
    status = ApplicationStatus("app", state, None, 0.0, 0.0, ())
    document = of_application(ABOUT, status)
    assert document["history"]["lanes"] == []
    assert page(document)
    status = dataclasses.replace(status, instances=(instance("worker/0"),), generation=3)
    assert [g.number for g in history(status, True).generations] == [3]


@pytest.mark.parametrize(
    ("state", "waits", "words"),
    [
        ("ACCEPTED", "waiting for AM.", "Accepted: nothing runs yet. Waiting for AM."),
        ("FORMING", "", "Generation 2 is forming. 3 instances: 2 running, 1 waiting."),
        ("RUNNING", "", "Generation 2 runs. 3 instances: 2 running, 1 waiting."),
        ("STOPPING", "", "It is stopping. 3 instances: 2 running, 1 waiting."),
    ],
)
def test_a_state_is_told_in_words(state, waits, words):
    members = instance("w/0"), instance("w/1"), instance("w/2", "WAITING")
    status = dataclasses.replace(restarted(), state=state, instances=members)
    assert in_words(status, waits) == words


def test_who_is_late_is_told_and_both_numbers_of_the_others():
    assert in_words(elastic()) == "Generation 2 runs. 6 of 8 instances: 6 running."
    shown = {one["name"]: one["role"] for one in of_application(ABOUT, elastic())["instances"]}
    assert shown == {
        "worker/0": "worker",
        "worker/1": "worker, task 0",
        "worker/2": "worker, task 1",
        "worker/3": "worker, task 2",
        "worker/4": "worker, task 3",
        "worker/5": "worker",
        "worker/6": "worker, task 4",
        "worker/7": "worker, task 5",
    }
    lanes = {lane.instance: lane.parts for lane in history(elastic(), live=True).lanes}
    assert lanes["worker/1"] == (Part(0.0, 5.0, FORMS), Part(5.0, None, RUNS))
    assert lanes["worker/0"] == ()


@pytest.mark.parametrize(
    ("feed", "words"),
    [
        (FeedStatus(), "0 rows."),
        (
            FeedStatus(12_000, seconds=4.0, rows_per_second=2999.6),
            "12,000 rows in 4 s, now 3,000 rows a second.",
        ),
        (
            FeedStatus(1, seconds=4.0, rows_per_second=0.0, waits="worker/1 takes none"),
            "1 row in 4 s. Nothing moves: worker/1 takes none.",
        ),
        (
            FeedStatus(12_000, seconds=4.0, over=True, dropped=31, lost=1),
            "All is with the programs: 12,000 rows in 4 s, 3,000 a second. 31 rows at the end "
            "made no full batch for every program. Lost with programs that failed: 1 row.",
        ),
        (FeedStatus(20, over=True, stopped=True), "The programs wanted no more: 20 rows."),
        (
            FeedStatus(20, seconds=1.5, error="a null"),
            "It has failed after 20 rows in 1.5 s: a null.",
        ),
    ],
)
def test_a_feed_is_told_in_words(feed, words):
    status = dataclasses.replace(restarted(), feed=feed)
    assert feed_in_words(status) == words


def test_a_feed_that_was_not_over_is_told_so_after_the_end():
    feed = FeedStatus(20, seconds=1.0, rows_per_second=20.0, waits="worker/1 takes none")
    status = dataclasses.replace(large(), feed=feed)
    assert feed_in_words(status) == (
        "The application has ended before it was over, after 20 rows in 1 s or more."
    )
    assert feed_in_words(large()) == ""


def test_rows_of_a_feed_are_those_of_instances():
    status = dataclasses.replace(restarted(), feed=FeedStatus(7, {"worker/0": 7}))
    document = of_application(ABOUT, status)
    assert document["feed"] == "7 rows."
    assert [one["rows"] for one in document["instances"]] == [7, None, None]


def test_what_stands_out_is_named():
    """Who is waited for, and where all were when steps stopped."""
    still = {"no_step_since": BEGUN + 5}
    members = [
        instance(f"worker/{n}", metrics={OWN_STEP: n}, **(still if n == 1 else {}))
        for n in range(3)
    ]
    stalls = Moment(BEGUN + 9, "worker/1 has made no step for 5 min", STALLS, "worker/1", 2)
    status = dataclasses.replace(
        restarted(),
        instances=tuple(members),
        timeline=(stalls, *restarted().timeline),
        samples=Samples((1.0,), (Series("worker/0", "cpu", "0.5"),)),
    )
    document = of_application(ABOUT, status)
    assert (document["slow"], document["stalled"]) == ("worker/2", stalls.text)
    assert document["samples"]["series"][0]["values"] == "0.5"
    earlier = dataclasses.replace(stalls, time=BEGUN + 5, text="steps are made again")
    early = dataclasses.replace(status, timeline=(earlier,))
    assert of_application(ABOUT, early)["stalled"] == "", "of this stall nothing is told yet"
    over = dataclasses.replace(status, instances=(instance("worker/1"),))
    assert of_application(ABOUT, over)["stalled"] == "", "it makes steps again"
    empty = of_application(ABOUT, restarted())
    assert (empty["slow"], empty["stalled"], empty["samples"]) == ("", "", None)


GIB = 1 << 30


@pytest.mark.parametrize(
    ("used", "advice"),
    [
        # seconds, processors on average of so many, memory at its peak of so much
        ([(100, 1.8, 2, 7, 8)], []),
        ([(100, 0.7, 4, 2, 8)], ["at most 2.0 GiB of 8.0 GiB of memory was used (yarn.memory)",
                                 "0.7 of 4 processors were busy on average (yarn.vcores)"]),
        ([(59, 0.7, 4, 2, 8)], []),
        # The one that needs the most says how much all need.
        ([(100, 0.7, 4, 2, 8), (100, 3.5, 4, 7, 8)], []),
        # What is asked for is little anyway, or not known.
        ([(100, 0.1, 1, 0.25, 1)], []),
        ([(100, None, 4, 0, 0)], []),
    ],
)  # fmt: skip
def test_what_was_asked_for_and_hardly_used_is_told_at_the_end(used, advice):
    instances = [
        instance(
            f"worker/{n}",
            "SUCCEEDED",
            usage=Usage(
                *(seconds, mean, mean, vcores),
                *(int(peak * GIB), int(peak * GIB), int(limit * GIB), 0, 0),
            ),
        )
        for n, (seconds, mean, vcores, peak, limit) in enumerate(used)
    ]
    ended = dataclasses.replace(large(), instances=(*instances, instance("ps/0")))
    told = [f"worker: {line}" for line in advice]
    assert advice_in_words(ended) == of_application(ABOUT, ended)["advice"] == told
    assert advice_in_words(dataclasses.replace(ended, state="RUNNING")) == []


def test_gpus_that_had_little_to_do_are_told_at_the_end():
    usage = Usage(99, 1.0, 1.0, 1, GIB, GIB, GIB, 0, 0, 0.9, 0.28, 2, GIB, GIB, 80 * GIB)
    ended = dataclasses.replace(large(), instances=(instance("worker/0", usage=usage),))
    told = ["worker: GPUs were busy 14 % of the time at most: is the input slow?"]
    assert advice_in_words(ended) == told
    busy = dataclasses.replace(usage, gpu_mean=1.6)
    both = (instance("worker/0", usage=usage), instance("worker/1", usage=busy))
    assert advice_in_words(dataclasses.replace(ended, instances=both)) == []


def test_the_use_of_an_instance_is_words_and_parts():
    usage = Usage(9.0, 1.5, 1.2, 2, int(1.5 * GIB), 2 * GIB, 8 * GIB, 5, 6)
    status = dataclasses.replace(restarted(), instances=(instance("worker/0", usage=usage),))
    (shown,) = of_application(ABOUT, status)["instances"]
    assert shown["usage"] == {
        "cpu": "1.5 of 2",
        "cpu_share": 0.75,
        "memory": "1.5 GiB of 8.0 GiB, peak 2.0 GiB",
        "memory_share": 0.1875,
        "read": "5 bytes",
        "written": "6 bytes",
        "gpu": "",
        "gpu_share": 0.0,
    }


def test_what_programs_and_packages_say_is_never_markup():
    name = f"app{HOSTILE}"
    log = PageLog("worker/0", f"</script>{HOSTILE}\u2028")
    about = dataclasses.replace(ABOUT, name=name, tags=(HOSTILE,), waits=HOSTILE)
    document = of_application(about, restarted(), logs=(log,))
    text = page(document)
    assert HOSTILE not in text
    assert "<img" not in text
    assert len(re.findall(r"<script", text)) == 2
    assert len(re.findall(r"</script", text)) == 2
    assert embedded(text) == json.loads(json.dumps(document))
    rows = [row(dataclasses.replace(about), restarted())]
    assert HOSTILE not in page(of_list(rows, [HOSTILE]))


def test_a_page_needs_nothing_from_elsewhere():
    text = page(of_application(ABOUT, large()))
    document = embedded(text)
    markup = text.replace(text[text.index('id="data">') : text.rindex("<script>")], "")
    assert re.findall(r"""(?:src|href)=["']?[a-z]""", markup) == []
    assert "url(" not in markup
    assert "@import" not in markup
    assert set(re.findall(r"https?://[\w./]+", markup)) == {"http://www.w3.org/2000/svg"}
    assert "unsafe" not in policy()
    assert policy().startswith("default-src 'none'; ")
    assert policy() == policy(in_page=True) + "; frame-ancestors 'none'"
    assert len(document["instances"]) == 200
    assert len(text) < 220_000


def test_a_document_has_the_fields_of_a_page_and_no_others():
    """Not a container's environment, a path of credentials, or what a status may have one day."""
    status = dataclasses.replace(
        restarted(), instances=(instance("worker/0", docker="d" * 64, container="secret"),)
    )
    document = of_application(ABOUT, status)
    assert "secret" not in json.dumps(document)
    assert set(document["instances"][0]) == {
        "name",
        "component",
        "role",
        "state",
        "host",
        "restarts",
        "exit",
        "preparing",
        "rows",
        "step",
        "total",
        "left",
        "usage",
        "epoch",
        "since",
        "speed",
        "metrics",
    }


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        (b"one\ntwo\n", "one\ntwo"),
        (b"one\r\ntwo", "one\ntwo"),
        (b" 1/9\r 2/9\r 9/9\ndone\n", " 9/9\ndone"),
        (b"\x1b[31mred\x1b[0m \x1b[1;32mgreen\x1b[m\n", "red green"),
        (b"a\x00b\x07\tc\n", "a\ufffdb\ufffd\tc"),
        (b"\xff\xfe\n", "\ufffd\ufffd"),
        (b"", ""),
    ],
)
def test_a_log_is_shown_as_in_a_terminal(written, seen):
    assert last_lines(written) == seen


def test_the_last_lines_are_few():
    written = "".join(f"line {n}\n" for n in range(1000)).encode()
    assert last_lines(written, 3) == "line 997\nline 998\nline 999"


def test_lines_with_words_are_found():
    logs = [
        ("worker/0", b"one\nLoss is NaN\n 1/9 nan\r 9/9\n\x1b[31mnan\x1b[0m\n", 1000),
        ("worker/1", b"nothing\n", 8),
        ("worker/2", b"", 0),
    ]
    assert found(logs, "nan") == {
        "found": [{"instance": "worker/0", "lines": ["Loss is NaN", "nan"]}],
        "matching": 2,
        "searched": len(logs[0][1]) + 8,
        "size": 1008,
    }
    assert found(logs, "")["found"] == []
    assert found([], "nan") == {"found": [], "matching": 0, "searched": 0, "size": 0}


def test_the_newest_lines_of_a_bounded_part_are_found():
    data = b"".join(b"nan %d\n" % n for n in range(MAX_SEARCHED // 8))
    told = found([(f"worker/{n}", data, len(data)) for n in range(2)], "nan")
    ((lines,),) = ([one["lines"] for one in told["found"]],)
    assert (len(lines), lines[-1]) == (MAX_FOUND, f"nan {MAX_SEARCHED // 8 - 1}")
    assert told["searched"] == 2 * MAX_SEARCHED < told["size"] == 2 * len(data)
    few = [("worker/0", b"nan\n" * (MAX_FOUND - 3), 9), ("worker/1", b"nan\n" * 9, 9)]
    told = found(few, "nan")
    assert [len(one["lines"]) for one in told["found"]] == [MAX_FOUND - 3, 3]
    assert told["matching"] == MAX_FOUND + 6


def test_ends_without_a_cause_are_no_failures():
    status = restarted()
    moments = (*status.timeline, Moment(BEGUN + 50, "Succeeded.", ENDS, "", 2))
    assert len(history(dataclasses.replace(status, timeline=moments), False).marks) == 1


def test_a_suspension_ends_a_generation():
    """Nothing runs until the next one begins."""
    timeline = (
        Moment(5.0, "generation 1 starts", "starts", "", 1),
        Moment(9.0, "the application is suspended", "suspends", "", 1),
        Moment(30.0, "generation 2 begins", "begins", "", 2),
        Moment(31.0, "generation 2 starts", "starts", "", 2),
        Moment(40.0, "the application is suspended", "suspends", "", 2),
    )
    instances = (InstanceStatus("w/0", "w", "worker", "REQUESTED"),)
    status = ApplicationStatus("a", "SUSPENDED", 2, 0.0, 40.0, instances, timeline=timeline)
    found = history(status, live=True)
    assert [(g.begins, g.ends) for g in found.generations] == [(0.0, 9.0), (30.0, 40.0)]
    assert [(p.since, p.until, p.kind) for p in found.lanes[0].parts] == [
        (0.0, 5.0, "forms"),
        (5.0, 9.0, "runs"),
        (30.0, 31.0, "forms"),
        (31.0, 40.0, "runs"),
    ]
    assert in_words(status, "its Job is suspended") == (
        "Suspended: nothing runs now. Its Job is suspended."
    )


@pytest.mark.parametrize(
    ("own", "told"),
    [
        ((0.02, 0.31, 0.03), "worker/1 is waited for: 0.31 s of its own in each step, "),
        ((0.02, 0.029), ""),
        ((0.2,), ""),
        ((0.2, None), ""),
        ((0.2, "nan"), ""),
        ((0.0, 0.5), "worker/1 is waited for: 0.5 s of its own in each step, the others 0 s"),
    ],
    ids=str,
)
def test_who_is_waited_for(own, told):
    members = [
        instance(f"worker/{n}", metrics={} if value is None else {OWN_STEP: value})
        for n, value in enumerate(own)
    ]
    status = dataclasses.replace(restarted(), instances=tuple(members))
    found = waited_for_in_words(status)
    assert found.startswith(told) if told else found == ""
    assert (found in in_words(status)) or not told
    ended = [dataclasses.replace(one, state="SUCCEEDED") for one in members]
    assert waited_for_in_words(dataclasses.replace(status, instances=tuple(ended))) == ""
