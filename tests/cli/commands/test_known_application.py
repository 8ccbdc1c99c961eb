"""Commands on an application that an engine knows."""

import dataclasses
import json
import time

import pytest

from tests.cli.commands.call import call
from tests.cli.played_engine import SUCCESS, PlayedEngine, failure, instance, status
from tfapp.contract.exit import Exit
from tfapp.contract.status import FAILURE, Moment, Ran, RanComponent
from tfapp.contract.usage import Usage
from tfapp.engines.base import Link

WORKERS = (
    instance(
        "worker/0",
        "RUNNING",
        container="container_1",
        host="127.0.0.1",
        exports={"worker": {"host_port": "127.0.0.1:4001"}},
    ),
    instance(
        "worker/1",
        "RUNNING",
        container="container_2",
        host="127.0.0.1",
        exports={"worker": {"host_port": "127.0.0.1:4002"}},
    ),
)
RUNNING = status("RUNNING", *WORKERS)
SUCCEEDED = status("SUCCEEDED", instance("worker/0", "SUCCEEDED"), verdict=SUCCESS)
FAILED = status(
    "FAILED",
    instance("worker/0", "FAILED", exit=Exit(3, None, "exit", "exit code 3")),
    verdict=failure("worker/0", "Traceback\n"),
)

pytestmark = pytest.mark.usefixtures("utc")


@pytest.mark.parametrize(
    "words",
    [
        ("status", "ap"),
        ("exports", "ap"),
        ("logs", "ap"),
        ("stop", "ap"),
        ("start", "ap"),
        ("wait", "ap"),
        ("exists", "ap"),
        ("destroy", "ap"),
        ("destroy", "ap", "--force"),
        ("registry", "--name", "ap", "--listexp"),
    ],
    ids=" ".join,
)
def test_an_unknown_application_is_69(tmp_path, words):
    code, a_shell = call(tmp_path, PlayedEngine(tmp_path, [RUNNING]), *words)
    assert (code, a_shell.out.text) == (69, "")
    assert a_shell.err.text == "error: there is no application 'ap'\n"


def test_status_as_text(tmp_path):
    code, a_shell = call(tmp_path, PlayedEngine(tmp_path, [FAILED]), "status", "app")
    assert code == 0
    assert a_shell.out.text == (
        "name      app\n"
        "state     FAILED\n"
        "id        application_1_0001\n"
        "engine    local\n"
        "run       1\n"
        "started   2001-09-09 01:46:40\n"
        "duration  0s\n"
        "verdict   Failed: worker/0: exit code 3\n"
        "\n"
        "INSTANCE  STATE   HOST  CONTAINER  EXIT\n"
        "worker/0  FAILED  -     -          exit code 3\n"
    )


def test_status_says_where_it_is_to_be_seen(tmp_path):
    board = instance("tensorboard/0", "RUNNING", exports={"t": {"url": "http://127.0.0.1:6006"}})
    links = (
        Link("", "page", "http://manager/proxy/app/"),
        Link("tensorboard/0", "log", "http://node/log"),
    )
    engine = PlayedEngine(tmp_path, [status("RUNNING", board)], links=links, waits="The queue.")
    code, a_shell = call(tmp_path, engine, "status", "app")
    assert code == 0
    lines = a_shell.out.text.splitlines()
    assert lines[7:9] == ["page      http://manager/proxy/app/", "waits     The queue."]
    assert lines[-3:] == [
        "INSTANCE       WHAT  ADDRESS",
        "tensorboard/0  page  http://127.0.0.1:6006",
        "tensorboard/0  log   http://node/log",
    ]


def test_status_says_what_an_instance_prepares(tmp_path):
    pulling = "pulling image mine:1: 1 of 2 layers, 30 of 120 MiB"
    members = (
        instance("worker/0", "WAITING"),
        instance("worker/1", "REQUESTED", preparing=pulling),
    )
    engine = PlayedEngine(tmp_path, [status("FORMING", *members)])
    _, a_shell = call(tmp_path, engine, "status", "app")
    assert a_shell.out.text.splitlines()[-3:] == [
        "",
        "INSTANCE  PREPARING",
        f"worker/1  {pulling}",
    ]


def test_status_says_whose_steps_have_stopped(tmp_path):
    since = time.mktime((2026, 11, 27, 18, 3, 11, 0, 0, -1))
    members = (
        instance("worker/0", "RUNNING", step=7),
        instance("worker/1", "RUNNING", step=7, no_step_since=since),
    )
    engine = PlayedEngine(tmp_path, [status("RUNNING", *members)])
    _, a_shell = call(tmp_path, engine, "status", "app")
    lines = a_shell.out.text.splitlines()
    place = lines.index("INSTANCE  NO STEP SINCE")
    assert lines[place + 1 : place + 3] == ["worker/1  2026-11-27 18:03:11", ""]
    _, a_shell = call(tmp_path, engine, "status", "app", "--format", "json")
    shown = json.loads(a_shell.out.text)["status"]["instances"]
    assert [one["no_step_since"] for one in shown] == [None, since]


def test_status_says_who_is_late_and_both_numbers_of_the_others(tmp_path):
    """No instance has another name than before: only its number in TF_CONFIG is another one."""
    members = (
        instance("worker/0", "REQUESTED", preparing="waiting for 1 GPU"),
        instance("worker/1", "RUNNING", task=0, step=7),
        instance("worker/2", "RUNNING", task=1),
    )
    late = dataclasses.replace(status("RUNNING", *members), joined={"worker/0": 2})
    _, a_shell = call(tmp_path, PlayedEngine(tmp_path, [late]), "status", "app")
    lines = a_shell.out.text.splitlines()
    cluster = next(line for line in lines if line.startswith("cluster"))
    assert cluster.endswith(" 2 of 3 instances; the others join when they come")
    first = lines.index(next(line for line in lines if line.startswith("INSTANCE")))
    assert [line.split() for line in lines[first + 1 : first + 4]] == [
        ["worker/0", "REQUESTED", "-", "-", "-"],
        ["worker/1", "(task", "0)", "RUNNING", "-", "-", "-"],
        ["worker/2", "(task", "1)", "RUNNING", "-", "-", "-"],
    ]
    _, a_shell = call(tmp_path, PlayedEngine(tmp_path, [late]), "status", "app", "--format", "json")
    shown = json.loads(a_shell.out.text)["status"]
    assert [one["task"] for one in shown["instances"]] == [None, 0, 1]
    assert shown["joined"] == {"worker/0": 2}


def test_status_shows_metrics(tmp_path):
    many = {"accuracy": 0.91234567, "b": 1.0, "c": 2.0, "loss": "nan"}
    members = (
        instance("worker/0", "RUNNING", metrics=many, step=1200, steps_per_second=35.1234),
        instance("worker/1", "RUNNING", step=1201),
        instance("worker/2", "RUNNING", metrics={"loss": 0.5}),
        instance("ps/0", "RUNNING"),
    )
    engine = PlayedEngine(tmp_path, [status("RUNNING", *members)])
    _, a_shell = call(tmp_path, engine, "status", "app")
    assert a_shell.out.text.splitlines()[-5:] == [
        "",
        "INSTANCE  STEP  STEPS/S  METRICS",
        "worker/0  1200  35.1     loss nan, accuracy 0.9123, b 1, c 2",
        "worker/1  1201  -        -",
        "worker/2  -     -        loss 0.5",
    ]
    ending = instance("worker/0", "RUNNING", step=1200, total=5000, steps_per_second=35.2)
    _, a_shell = call(
        tmp_path, PlayedEngine(tmp_path, [status("RUNNING", ending)]), "status", "app"
    )
    assert a_shell.out.text.splitlines()[-2:] == [
        "INSTANCE  STEP                 STEPS/S  LEFT   METRICS",
        "worker/0  1200 of 5000 (24 %)  35.2     1m48s  -",
    ]
    usage = Usage(9.0, None, None, 2, 3 << 29, 2 << 30, 8 << 30, 5 << 20, 12)
    using = instance("worker/0", "RUNNING", usage=usage)
    _, a_shell = call(tmp_path, PlayedEngine(tmp_path, [status("RUNNING", using)]), "status", "app")
    assert a_shell.out.text.splitlines()[-2:] == [
        "INSTANCE  CPU  MEMORY                            READ     WRITTEN",
        "worker/0  -    1.5 GiB of 8.0 GiB, peak 2.0 GiB  5.0 MiB  12 bytes",
    ]
    gpus = dataclasses.replace(
        usage,
        gpu=1.5,
        gpus=2,
        gpu_memory=3 << 30,
        gpu_memory_peak=4 << 30,
        gpu_memory_limit=160 << 30,
    )
    using = instance("worker/0", "RUNNING", usage=gpus)
    _, a_shell = call(tmp_path, PlayedEngine(tmp_path, [status("RUNNING", using)]), "status", "app")
    assert a_shell.out.text.splitlines()[-1].endswith(
        "12 bytes  1.5 of 2; 3.0 GiB of 160.0 GiB, peak 4.0 GiB"
    )
    _, a_shell = call(tmp_path, engine, "status", "app", "--format", "json")
    shown = json.loads(a_shell.out.text)["status"]["instances"][0]
    assert (shown["metrics"], shown["step"], shown["steps_per_second"]) == (many, 1200, 35.1234)


def test_status_says_what_runs(tmp_path):
    worker = RanComponent("worker", "fit.py --epochs 8", 2, 1024, 1, 0, "python3", "")
    ran = Ran((worker,), ("site.global.stop.grace=60",), "1.2")
    engine = PlayedEngine(tmp_path, [dataclasses.replace(RUNNING, ran=ran)])
    _, a_shell = call(tmp_path, engine, "status", "app")
    told = " ".join(a_shell.out.text.split())
    assert "worker program fit.py --epochs 8; 2 x 1024 MiB, 1 vcore; python3 options" in told
    _, a_shell = call(tmp_path, engine, "status", "app", "--format", "json")
    shown = json.loads(a_shell.out.text)["status"]["ran"]
    assert shown["components"][0]["program"] == "fit.py --epochs 8"
    assert (shown["components"][0]["image"], shown["tfapp"]) == (None, "1.2")


def test_status_as_json(tmp_path):
    code, a_shell = call(
        tmp_path, PlayedEngine(tmp_path, [RUNNING]), "status", "app", "--format", "json"
    )
    shown = json.loads(a_shell.out.text)
    assert code == 0
    assert (shown["name"], shown["live"], shown["status"]["state"]) == ("app", True, "RUNNING")
    assert shown["status"]["instances"][1]["exports"] == {"worker": {"host_port": "127.0.0.1:4002"}}


def test_list_as_text(tmp_path, monkeypatch):
    monkeypatch.setattr("time.time", lambda: 1e9 + 185)
    engine = PlayedEngine(tmp_path, [RUNNING], tags=("a", "b"))
    code, a_shell = call(tmp_path, engine, "list")
    assert code == 0
    assert a_shell.out.text == (
        "NAME  STATE    RUN  STARTED              DURATION  TAGS  ID\n"
        "app   RUNNING  1    2001-09-09 01:46:40  3m05s     a,b   application_1_0001\n"
    )
    code, a_shell = call(tmp_path, engine, "list", "-q", "--state", "running")
    assert (code, a_shell.out.text) == (0, "app\n")


@pytest.mark.parametrize(
    ("flags", "said"),
    [((), "no applications yet\n"), (("--live",), "there is no such application\n")],
    ids=str,
)
def test_an_empty_list_says_so(tmp_path, monkeypatch, flags, said):
    engine = PlayedEngine(tmp_path, [RUNNING])
    monkeypatch.setattr(engine, "list", tuple)
    code, a_shell = call(tmp_path, engine, "list", *flags)
    assert (code, a_shell.err.text) == (0, said)


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ((), ["app"]),
        (("--live",), ["app"]),
        (("--state", "RUNNING"), ["app"]),
        (("--state", "FAILED"), []),
        (("--tag", "b"), ["app"]),
        (("--tag", "c"), []),
        (("--tag", "tfapp"), []),
    ],
    ids=str,
)
def test_list_lets_through_what_is_asked_for(tmp_path, flags, names):
    engine = PlayedEngine(tmp_path, [RUNNING], tags=("a", "b"))
    code, a_shell = call(tmp_path, engine, "list", "--format", "json", *flags)
    assert code == 0
    assert [row["name"] for row in json.loads(a_shell.out.text)["applications"]] == names


@pytest.mark.parametrize(
    ("state", "flags", "code"),
    [
        (RUNNING, (), 0),
        (RUNNING, ("--live",), 0),
        (SUCCEEDED, (), 0),
        (SUCCEEDED, ("--live",), 255),
    ],
)
def test_exists(tmp_path, state, flags, code):
    assert call(tmp_path, PlayedEngine(tmp_path, [state]), "exists", "app", *flags)[0] == code


def test_exports(tmp_path):
    _, a_shell = call(tmp_path, PlayedEngine(tmp_path, [RUNNING]), "exports", "app")
    assert a_shell.out.text == (
        "GROUP   NAME       INSTANCE  VALUE\n"
        "worker  host_port  worker/0  127.0.0.1:4001\n"
        "worker  host_port  worker/1  127.0.0.1:4002\n"
    )


def test_registry_has_sliders_shape(tmp_path):
    engine = PlayedEngine(tmp_path, [RUNNING])
    code, a_shell = call(tmp_path, engine, "registry", "--name", "app", "--getexp", "worker")
    assert code == 0
    assert json.loads(a_shell.out.text) == {
        "host_port": [
            {
                "value": f"127.0.0.1:400{index + 1}",
                "containerId": f"container_{index + 1}",
                "tag": str(index),
                "level": "component",
                "updatedTime": "Sun Sep 09 01:46:40 UTC 2001",
            }
            for index in (0, 1)
        ]
    }


def test_registry_lists_groups(tmp_path):
    engine = PlayedEngine(tmp_path, [RUNNING])
    _, a_shell = call(tmp_path, engine, "registry", "--name", "app", "--listexp")
    assert a_shell.out.text == "worker\n"


def test_an_unknown_export_group_is_44(tmp_path):
    engine = PlayedEngine(tmp_path, [RUNNING])
    code, a_shell = call(tmp_path, engine, "registry", "--name", "app", "--getexp", "workers")
    assert (code, a_shell.err.text) == (
        44,
        "error: app has no export group 'workers'\n  Did you mean worker?\n",
    )


@pytest.mark.parametrize(("end", "code"), [(SUCCEEDED, 0), (FAILED, 65)])
def test_wait_gives_the_verdicts_code(tmp_path, end, code):
    engine = PlayedEngine(tmp_path, [RUNNING, end])
    assert call(tmp_path, engine, "wait", "app")[0] == code


BACK = Moment(1.0e9 + 9, "the application's master was lost and is back", FAILURE)


@pytest.mark.parametrize(
    ("words", "verdict"),
    [(("wait", "app"), [f"app: {SUCCESS.summary}"]), (("logs", "app", "worker/0", "-f"), [])],
    ids=("wait", "logs -f"),
)
def test_who_follows_is_told_what_is_survived_meanwhile(tmp_path, words, verdict):
    """And not what was before."""
    before = Moment(1.0e9 + 1, "worker/1 was lost in generation 1", FAILURE, "worker/1")
    history = [
        dataclasses.replace(RUNNING, timeline=(before,)),
        dataclasses.replace(RUNNING, timeline=(before, BACK)),
        dataclasses.replace(RUNNING, timeline=(before, BACK), generation=2),
        dataclasses.replace(SUCCEEDED, timeline=(before, BACK)),
    ]
    engine = PlayedEngine(tmp_path, history)
    engine.find = lambda name, run=None: engine.find_first()
    engine.write_log("worker/0", "one\n")
    code, a_shell = call(tmp_path, engine, *words)
    assert (code, a_shell.err.text.splitlines()) == (0, [f"app: {BACK.text}", *verdict])


def test_status_says_what_was_survived_also_where_nothing_was_charged(tmp_path):
    back = dataclasses.replace(RUNNING, timeline=(BACK,))
    _, a_shell = call(tmp_path, PlayedEngine(tmp_path, [back]), "status", "app")
    assert f"last failure  {BACK.text}\n" in a_shell.out.text
    assert "restarts" not in a_shell.out.text


def test_wait_gives_up(tmp_path):
    engine = PlayedEngine(tmp_path, [RUNNING])
    code, a_shell = call(tmp_path, engine, "wait", "app", "--timeout", "0")
    engine.stop("app", "end of the test")
    assert code == 67
    assert a_shell.err.text == (
        "error: app has not ended after 0 s; it goes on\n  `tfapp status app` says what it does.\n"
    )


@pytest.mark.parametrize("count", ["abc", "1.5", "+", ""])
def test_flex_takes_numbers_alone(tmp_path, count):
    engine = PlayedEngine(tmp_path, [RUNNING])
    code, a_shell = call(tmp_path, engine, "flex", "app", "--component", "worker", count)
    assert (code, a_shell.err.text) == (
        2,
        f"error: {count!r} is not a number of instances\n  Give 3, +1 or -1.\n",
    )


def test_stop(tmp_path):
    engine = PlayedEngine(tmp_path, [RUNNING])
    code, a_shell = call(tmp_path, engine, "stop", "app", "--message", "enough", "--force")
    assert (code, engine.stops) == (0, [("enough", True)])
    assert a_shell.err.text == "app: KILLED\n"


def test_destroy_leaves_a_running_application_alone(tmp_path):
    engine = PlayedEngine(tmp_path, [RUNNING])
    assert call(tmp_path, engine, "destroy", "app")[0] == 73
    assert engine.calls == []


def test_destroy(tmp_path):
    engine = PlayedEngine(tmp_path, [SUCCEEDED])
    assert call(tmp_path, engine, "destroy", "app")[0] == 0
    assert engine.calls == ["destroy"]


def test_start_follows_the_new_run(tmp_path):
    engine = PlayedEngine(tmp_path, [RUNNING, SUCCEEDED])
    code, a_shell = call(tmp_path, engine, "start", "app")
    assert (code, engine.calls) == (0, ["start"])
    assert a_shell.err.text.endswith("app: Succeeded: all workers exited 0\n")


@pytest.mark.parametrize(
    ("history", "flags", "code", "last"),
    [
        ([RUNNING, SUCCEEDED], ("--detach",), 0, "app: submitted; `tfapp logs -f app` follows it"),
        ([RUNNING, SUCCEEDED], ("--detach", "--wait", "60"), 0, "app: RUNNING"),
        (
            [FAILED],
            ("--detach", "--wait", "60"),
            65,
            "app: Failed: worker/0: exit code 3",
        ),
    ],
)
def test_detach(tmp_path, history, flags, code, last):
    found, a_shell = call(tmp_path, PlayedEngine(tmp_path, history), "start", "app", *flags)
    assert (found, a_shell.err.text.splitlines()[-1]) == (code, last)


def test_detach_waits_no_longer_than_it_is_told(tmp_path):
    engine = PlayedEngine(tmp_path, [status("FORMING")])
    code, a_shell = call(tmp_path, engine, "start", "app", "--detach", "--wait", "0")
    engine.stop("app", "end of the test")
    assert code == 67
    assert a_shell.err.text.partition("\n")[2] == (  # behind the line on checkpoints
        "error: app is not running after 0 s; it goes on\n"
        "  `tfapp status app` says what it waits for, `tfapp stop app` ends it.\n"
    )
