"""What a person sees: the pages in a real browser."""

from __future__ import annotations

import dataclasses
import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.command_line import PLAIN_PACKAGE, CommandLine
from tests.page.applications import HOSTILE, large, restarted, slow
from tests.page.browser import Browser, wait_for
from tests.page.served import fetched, served
from tfapp.contract.status import FeedStatus
from tfapp.page.document import About, PageLog, of_application, of_list, row
from tfapp.page.html import page

pytestmark = pytest.mark.slow

PHONE = (375, 800)
NOTHING = ["There is nothing of this name.", "", "Back to the first page"]

# Its second worker fails once, when it is told to. All go on until they are told to end.
PROGRAM = """
import os, pathlib, sys, time
from tfapp.program.reporting import report
told, number = pathlib.Path(sys.argv[1]), int(os.environ["TFAPP_INSTANCE"].rpartition("/")[2])
print("<script>document.title = 'taken'</script> begins", flush=True)
step, seen = 0, 0
while not (told / "end").exists():
    if number == 1 and (told / "fail").exists():
        (told / "fail").unlink()
        print("ValueError: <b>no luck</b>", flush=True)
        sys.exit(7)
    report({"loss": 1 / (step + 1)}, step=step)
    step += 1
    if (told / "say").exists() and not seen:
        seen = 1
        print("it was told to say this", flush=True)
    time.sleep(0.05)
"""


class Running:
    """An application of two workers and a page that shows it. `address`: of the list of pages."""

    def __init__(self, tfapp: CommandLine, told: Path, address: str):
        self.tfapp, self.told, self.address = tfapp, told, address
        self.page = f"{address}local/app/"

    def tell(self, word: str) -> None:
        (self.told / word).touch()


@pytest.fixture
def running(tmp_path, tfapp_home) -> Iterator[Running]:
    work, told = tmp_path / "work", tmp_path / "told"
    work.mkdir()
    told.mkdir()
    package = work / "package"
    shutil.copytree(PLAIN_PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "files" / "program.py").write_text(PROGRAM)
    metainfo = package / "metainfo.yaml"
    policy = "{maxRestarts: 3, startupSeconds: 0}"
    metainfo.write_text(metainfo.read_text().replace("{maxRestarts: 0}", policy))
    tfapp = CommandLine(work, tfapp_home)
    arguments = ("--option", "site.global.user.scripts.args", str(told))
    beats = ("--option", "heartbeat.monitor.interval", "1000")
    tfapp.ok("create", "app", "--appdef", package, *arguments, *beats, "--detach", "--wait", 120)
    with served(tfapp) as address:
        yield Running(tfapp, told, address)
    tfapp("stop", "app", "--force")
    assert tfapp.kill_living() == []


def test_a_run_with_a_restart(window: Browser, running: Running, tmp_path):
    window.open(running.address)
    wait_for(lambda: "RUNNING" in window.text(".apps"), "the list")
    assert window.texts(".apps .name") == ["app"]
    window.run("document.querySelector('.apps .name').click()")
    wait_for(lambda: window.text("h1") == "app", "the page of the application")

    # While it runs.
    assert "\u25b6 RUNNING" in window.text(".title")
    words = "Generation 1 runs. 2 instances: 2 running."
    wait_for(lambda: window.text(".words") == words, "both programs")
    rows = {"worker/0", "worker/1"}
    assert {row.split()[0] for row in window.texts("tr[data-instance] td.name")} == rows
    assert window.texts("[data-generation]") != []
    assert window.texts("[data-failure]") == []
    wait_for(lambda: "begins" in window.text("#log"), "the log")
    wait_for(lambda: window.texts("figure[data-metric=loss]"), "the plot of the loss")

    # The page is told of news, and does not ask any more.
    wait_for(lambda: window.run("return source !== null && heard"), "the stream")
    entries = "performance.getEntriesByType('resource')"
    asks = f"return {entries}.filter(e => /data.json/.test(e.name)).length"
    asked = window.run(asks)

    def lines() -> set[str]:
        return {text.split()[0] for text in window.texts("#legend button")}

    wait_for(lambda: lines() == rows, "what both use, in one picture")

    # It fails once, and the open page tells of it.
    running.tell("fail")
    wait_for(lambda: "Generation 2 runs." in window.text(".words"), "generation 2")
    assert len(window.texts("[data-generation]")) == 2
    assert sorted(window.texts("[data-lane] title")) == ["worker/0", "worker/1"]
    for lane in sorted(rows):  # each ran in each generation
        parts = f"[data-lane='{lane}'] rect.runs"
        wait_for(lambda parts=parts: len(window.texts(parts)) == 2, "the programs' second start")
    sentence = r"worker/1 on 127\.0\.0\.1 ended with exit code 7 in generation 1"
    (mark,) = window.texts("[data-failure='worker/1'] title")
    assert re.match(sentence, mark)
    assert re.search(rf"\u27161\s*\+\d+(\.\d)? ?m?\d*s?\s*{sentence}", window.text("#failures"))
    assert window.texts("tr[data-instance] td[data-label=restarts]") == ["1", "1"]

    # Its log follows, of whichever instance.
    window.run(
        "const c = document.getElementById('log-choice'); c.value = 'worker/1';"
        "c.dispatchEvent(new Event('change'))"
    )
    wait_for(lambda: "ValueError: <b>no luck</b>" in window.text("#log"), "the log of worker/1")
    running.tell("say")
    wait_for(lambda: "it was told to say this" in window.text("#log"), "the newest line")
    end = "const e = document.getElementById('log');"
    assert window.run(f"{end} return e.scrollHeight - e.scrollTop - e.clientHeight < 2")
    assert window.run("return document.title") == "\u25b6 app \u00b7 tfapp"

    assert window.run(asks) == asked

    # Its lines are searched, with the words as they are, and all logs at once.
    find(window, "NO luck")
    wait_for(lambda: window.texts("#log mark") == ["no luck"], "the line")
    assert window.text("#log") == "ValueError: <b>no luck</b>\n"
    assert window.text("#log-note").startswith("1 line found in ")
    window.run("document.getElementById('find-everywhere').click()")
    find(window, "begins")
    wait_for(lambda: window.texts("#log b") == ["worker/0\n", "worker/1\n"], "both logs")
    assert set(window.texts("#log mark")) == {"begins"}
    find(window, "")
    wait_for(lambda: "it was told to say this" in window.text("#log"), "the last lines again")

    # Its programs tell where they are, and go on.
    window.run("document.getElementById('take-stacks').click()")
    wait_for(lambda: "at program.py:" in window.text("#stacks summary"), "the stacks")
    window.run("document.querySelector('#stacks summary').click()")
    assert "worker/0, process" in window.text("#stacks pre")
    window.run("document.getElementById('last-stacks').click()")
    wait_for(lambda: "at program.py:" in window.text("#stacks summary"), "them again")
    assert "tfapp stacks app --engine local" in window.text("#stacks")
    assert re.search(r"^Taken 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d$", window.text("#stacks"), re.M)
    window.run("document.getElementById('take-profile').click()")
    wait_for(lambda: "worker/1 has no trace: " in window.text("#stacks pre"), "no TensorFlow")

    # What it shows can be kept, and is the same.
    kept = tmp_path / "kept.html"
    kept.write_text(running.tfapp.ok("report", "app"))
    # The end.
    running.tell("end")
    wait_for(lambda: "\u2714 SUCCEEDED" in window.text(".title"), "the verdict")
    assert window.text(".words").startswith("Succeeded: all 2 instances of worker ended with")
    assert window.text(".words").endswith("It was restarted once before.")

    # On a phone, light and dark, nobody scrolls sideways.
    for dark in (False, True):
        window.size(*PHONE, dark=dark)
        width, room = window.widths()
        assert width <= room == PHONE[0]
    assert window.complaints() == []

    # It runs again. Its first run can still be looked at.
    running.tfapp.ok("start", "app")
    newest, first = ["All applications", "Run 1"], ["All applications", "Newest run"]
    wait_for(lambda: window.texts("nav a") == newest, "run 2")
    assert window.texts("[data-failure]") == []
    window.run("document.querySelectorAll('nav a')[1].click()")
    wait_for(lambda: window.texts("nav a") == first, "run 1")
    assert re.search(sentence, window.text("#failures"))
    assert window.texts("#log-choice option") == ["worker/0", "worker/1"]
    window.run("document.querySelectorAll('nav a')[1].click()")
    wait_for(lambda: window.texts("nav a") == newest, "run 2 once more")
    window.run("document.querySelector('nav a').click()")
    wait_for(lambda: "SUCCEEDED" in window.text(".apps"), "the list")
    assert window.complaints() == []

    window.open(kept.as_uri())
    assert window.texts("nav") == []
    assert "\u25b6 RUNNING" in window.text(".title"), "as it was then"
    assert re.search(sentence, window.text("#failures"))
    assert window.texts("figure[data-metric=loss]") != []
    assert "no luck" not in window.text("#log"), "the log of worker/0 is shown first"
    window.run("document.getElementById('find-everywhere').click()")
    find(window, "no luck")
    assert window.texts("#log mark") == ["no luck"], "it is searched without a server"
    assert window.texts("#log-choice option") == ["worker/0", "worker/1"]
    assert window.complaints() == []

    # What is not there is told to a person, who finds the way back.
    window.open(f"{running.page}nothing")
    assert window.text().split("\n") == ["Not found", "", *NOTHING]
    window.run("document.querySelector('a').click()")
    wait_for(lambda: "SUCCEEDED" in window.text(".apps"), "the list once more")

    check_registry(running)
    check_doors(running)


def check_registry(running: Running) -> None:
    """Slider's clients find what they know."""
    base = f"{running.page}ws/v1/slider/publisher"
    assert f'"exports": "{base}/exports"' in fetched(base)
    assert '"containerId"' in fetched(f"{base}/exports")
    assert '"description": "worker"' in fetched(f"{base}/exports/worker")
    assert code(f"{base}/exports/nothing") == 404


def check_doors(running: Running) -> None:
    """Nobody looks without the token, or by another name."""
    token = running.address.rstrip("/").rpartition("/")[2]
    assert code(running.address) == 200
    assert code(running.address.replace(token, token[:-1])) == 403
    assert code(running.address.replace(token, "")) == 403
    assert code(running.address, Host="evil.example.org") == 403
    assert code(f"{running.address}local/other/") == 404


def code(url: str, **headers: str) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as a:
            return a.status
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1280, 900), PHONE, (320, 600)])
def test_two_hundred_instances_and_hostile_words_fit(window, tmp_path, width, height, dark):
    logs = [PageLog("worker/0", f"{HOSTILE}\n{'x' * 3000}")]
    feed = FeedStatus(1_234_567, {"worker/0": 1_234_567}, waits=HOSTILE)
    fed = dataclasses.replace(restarted(), feed=feed)
    for name, status in (("large", large()), ("restarted", fed), ("slow", slow())):
        about = About(f"{name}{HOSTILE}", "yarn", "application_1_0001", 1, status.verdict is None)
        path = tmp_path / f"{name}.html"
        path.write_text(page(of_application(about, status, logs=logs, fixed=True)))
        window.size(width, height, dark)
        window.open(path.as_uri())
        window.run("for (const one of document.querySelectorAll('details')) one.open = true")
        wait_for(lambda: closed(window) == 0, "what was folded")
        assert window.widths() == (width, width)
        assert window.text("h1") == f"{name}{HOSTILE}"
        assert len(window.texts("[data-lane]")) == len(status.instances)
        assert window.run("return document.images.length") == 0
        assert window.run("return document.title")[1:].startswith(f" {name}<script>")
        if status.feed:
            assert window.text("#feed p") == f"1,234,567 rows. Nothing moves: {HOSTILE}."
            assert window.texts("td[data-label=rows]") == ["1,234,567", "", ""]
        if status.verdict:
            advice = "chief: at most 1.0 GiB of 8.0 GiB of memory was used (yarn.memory)"
            assert advice in window.text("header")
        if status.samples:  # the first is worker/17, which holds up the others
            assert window.texts("td[data-label=bytes]")[0] == "17.0 MiB read5 bytes written"
        assert window.complaints() == []


def closed(window: Browser) -> int:
    """How many parts have nothing in them yet."""
    return window.run("return document.querySelectorAll('details > summary:only-child').length")


def test_states_are_told_without_colour(window, tmp_path):
    path = tmp_path / "large.html"
    path.write_text(page(of_application(About("large", live=False), large(), fixed=True)))
    window.open(path.as_uri())
    assert "\u2716 FAILED" in window.text(".title")
    assert "189 \u25a0 KILLED, 1 \u2716 FAILED, 1 \u2716 LOST" in window.text("#of-worker summary")
    assert window.texts("#of-worker tr") == [], "a table is not made before it is looked at"
    window.run("document.querySelector('#of-worker summary').click()")
    wait_for(lambda: len(window.texts("#of-worker tr[data-instance]")) == 191, "the table")
    assert "The cause: worker/17 on node-17 in generation 4" in window.text(".alert")
    assert "last words" in window.text(".alert pre")
    assert [text[-1] for text in window.texts("svg .mark-text")] == ["1", "2", "3", "4"]


def test_a_long_list_is_searched(window, tmp_path):
    """Of names, states, tags and sentences, each word for itself."""
    rows = []
    for number in range(400):
        state = "FAILED" if number % 100 == 7 else "SUCCEEDED"
        about = About(f"run-{number}", live=False, tags=(f"sweep-{number % 10}",))
        rows.append(row(about, dataclasses.replace(restarted(), state=state)))
    path = tmp_path / "list.html"
    path.write_text(page({**of_list(rows, []), "pause": None}))
    window.size(*PHONE)
    window.open(path.as_uri())
    assert len(window.texts(".apps li")) == 300
    assert "and 100 older ones" in window.text("#part-list")
    find = "const box = document.querySelector('input'); box.value = arguments[0]; "
    window.run(find + "box.dispatchEvent(new Event('input'))", "FAILED sweep-7")
    assert window.texts(".apps .name") == [f"run-{number}" for number in (7, 107, 207, 307)]
    assert window.run("return document.querySelector('input').value") == "FAILED sweep-7"
    assert window.widths() == (PHONE[0], PHONE[0])
    assert window.complaints() == []


def test_samples_of_several_instances_are_seen_together(window, tmp_path):
    path = tmp_path / "slow.html"
    path.write_text(page(of_application(About("slow"), slow(), fixed=True)))
    window.open(path.as_uri())
    chief, *workers = (
        "chief/0 2",
        "worker, lowest 0.25",
        "worker, middle 1.25",
        "worker, highest 1.75",
    )
    assert window.texts("#legend button") == [chief, *workers]
    assert len(window.texts("#samples svg .line[data-line]")) == 4
    assert len(window.texts("#samples svg polygon")) == 1

    # What is pointed at is told with its time.
    point = "const e = document.querySelector('#samples svg'), r = e.getBoundingClientRect();"
    point += "e.dispatchEvent(new PointerEvent(arguments[0], {clientX: r.left + r.width / 2}))"
    window.run(point, "pointermove")
    assert window.text("#pointed") == "at +10.0 s"
    assert [text.split()[-1] for text in window.texts("#legend button")] == [
        *("1.5", "0.25", "1.5", "\u2013")
    ]
    window.run(point, "pointerleave")
    assert window.texts("#legend button") == [chief, *workers]

    # A line can be left out, and another quantity be chosen.
    window.run("document.querySelector('#legend button').click()")
    assert len(window.texts("#samples svg .line[data-line]")) == 3
    assert window.run("return document.querySelector('#legend button').ariaPressed") == "false"
    # News leave a field as it is that somebody may be about to use.
    window.run(
        "window.fields = document.querySelectorAll('#quantity, #order, #find-instance');"
        "const all = doc.samples.series, last = {...all.at(-1), values: '7 7 9'};"
        "const series = [...all.slice(0, -1), last];"
        "doc = {...doc, samples: {...doc.samples, series}, slow: ''}; show()"
    )
    assert window.run("return [...fields].map((one) => one.isConnected)") == [True] * 3
    names = ["processors in use", HOSTILE, "cpu"]
    assert window.texts("#quantity option") == names
    choose(window, "quantity", "cpu")
    assert window.texts("#legend button") == ["chief/0 9"]
    assert window.complaints() == []


def choose(window: Browser, id: str, value: str) -> None:
    script = "const e = document.getElementById(arguments[0]); e.value = arguments[1];"
    window.run(
        script + "e.dispatchEvent(new Event(e.localName === 'select' ? 'change' : 'input'))",
        id,
        value,
    )


def find(window: Browser, words: str) -> None:
    """In the log, as with Enter."""
    choose(window, "find-log", words)
    window.run("document.getElementById('find-log').dispatchEvent(new Event('search'))")


def test_the_slow_one_stands_out_among_many(window, tmp_path):
    path = tmp_path / "slow.html"
    path.write_text(page(of_application(About("slow"), slow(), fixed=True)))
    window.open(path.as_uri())
    assert "worker/17 is waited for" in window.text(".words")
    assert "No step: worker/17 since" in window.text("#stalled")
    assert "worker/17 is in load at data.py:12" in window.text("#stalled p")
    assert window.texts("tr[data-instance] td.name")[0] == "worker/17", "before all others"
    assert "the others wait for it" in window.text("tr.note")
    choose(window, "order", "least processor first")
    names = window.texts("tr[data-instance] td.name")
    assert (len(names), names[:3]) == (50, ["worker/17", "worker/0", "worker/1"])
    choose(window, "find-instance", "worker/5 RUNNING")
    found = ["worker/5", *(f"worker/{n}" for n in range(50, 59))]
    assert window.texts("tr[data-instance] td.name") == found
    assert window.complaints() == []


def test_progress_and_the_time_that_is_left_are_on_top(window, tmp_path):
    path = tmp_path / "slow.html"
    for live in (True, False):
        path.write_text(page(of_application(About("slow", live=live), slow(), fixed=True)))
        window.open(path.as_uri())
        told = "1200 of 5000 (24 %), 10 steps/s, 6m20s left" if live else ""
        assert window.text("#progress") == told


def test_a_log_that_cannot_be_read_is_not_one_without_the_words(window, tmp_path):
    path = tmp_path / "app.html"
    logs = [PageLog("worker/0", "", "its node does not tell"), PageLog("worker/1", "a line")]
    path.write_text(page(of_application(About("app"), restarted(), logs=logs, fixed=True)))
    window.open(path.as_uri())
    find(window, "loss")
    assert window.text("#log-note") == "there is no log yet, or it cannot be read here"
    choose(window, "log-choice", "worker/1")
    assert window.text("#log-note") == "0 lines found in 6 bytes"
    find(window, "")
    assert (window.text("#log-note"), window.text("#log")) == ("the last lines", "a line")
