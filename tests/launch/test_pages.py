"""The server of pages, as a program asks it."""

from __future__ import annotations

import dataclasses
import http.client
import json
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.cli.commands.call import call
from tests.cli.played_engine import SUCCESS, Output, PlayedEngine, failure, instance, status
from tests.cli.played_runners import PlayedRunners, PlayedTracers
from tests.coordinator.test_history import JOB, LOGS, STATUS
from tests.page.applications import embedded
from tests.waiting import wait
from tfapp.contract.encoding import encode
from tfapp.contract.history import PastRun
from tfapp.contract.stacks import InstanceStacks
from tfapp.coordinator.history import Limits, keep
from tfapp.engines.base import Link
from tfapp.errors import UnavailableError, UnreachableError
from tfapp.launch import pages
from tfapp.launch.history import History
from tfapp.launch.pages import MAX_KEPT_LOGS, HistoryPages, Pages, Seldom, kept
from tfapp.page.document import MAX_LINES
from tfapp.page.html import policy
from tfapp.page.server import HTML, MOST_STREAMS, PageServer
from tfapp.storage.place import place_at

RUNNING = status(
    "RUNNING",
    instance("worker/0", "RUNNING", exports={"worker": {"host_port": "n:1"}}),
    instance("chief/0", "RUNNING"),
)
ENDED = status("SUCCEEDED", instance("chief/0", "SUCCEEDED"), verdict=SUCCESS)


class Client:
    """Asks `server`, on one connection."""

    def __init__(self, server: PageServer):
        self.server = server
        self.token = urlsplit(server.address).path
        self._connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)

    def ask(self, path: str, method: str = "GET", token: str | None = None, **headers: str):
        """(status, headers, body)."""
        path = (self.token if token is None else token) + path
        self._connection.request(method, path, headers=headers)
        answer = self._connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()

    def document(self, query: str = "") -> dict:
        return json.loads(self.ask(f"local/app/data.json{query}")[2])["document"]

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def engine(tmp_path) -> Iterator[PlayedEngine]:
    made = PlayedEngine(tmp_path, [RUNNING], links=(Link("", "page", "http://rm/proxy"),))
    yield made
    made.stop("app", "end of the test")


@pytest.fixture
def client(engine) -> Iterator[Client]:
    with PageServer(Pages({"local": engine}).answer).serving() as server:
        made = Client(server)
        yield made
        made.close()


def test_pages_say_what_a_browser_may_do(client):
    for path, type in (("", "text/html"), ("local/app/", "text/html"), ("data.json", "json")):
        code, headers, body = client.ask(path)
        assert code == 200
        assert type in headers["Content-Type"]
        assert headers["Content-Security-Policy"] == policy()
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
        assert headers["Server"] == "tfapp"
        assert client.token.strip("/") not in body.decode()


@pytest.mark.parametrize("path", ["", "data.json", "local/app/", "local/app/data.json", "x"])
def test_nobody_looks_without_the_token(client, path):
    wrong = ["/", "/x/", client.token[:-2] + "/", client.token.upper(), "//", "/%00/", "/%c3%a4/"]
    for token in wrong:
        code, _, body = client.ask(path, token=token)
        assert code == 403
        assert b"app" not in body.replace(b"tfapp", b"")


@pytest.mark.parametrize("host", ["evil.example.org", "127.0.0.1", "127.0.0.1:1", ""])
def test_nobody_looks_by_another_name(client, host):
    assert client.ask("", Host=host)[0] == 403


def test_by_the_name_of_this_machine_to_itself(client):
    assert client.ask("", Host=f"localhost:{client.server.server_port}")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_changed(client, method):
    assert client.ask("local/app/", method)[0] == 501


def test_a_head_has_no_body(client):
    code, headers, body = client.ask("local/app/", "HEAD")
    assert (code, body) == (200, b"")
    assert int(headers["Content-Length"]) > 0
    assert client.ask("")[0] == 200, "the connection goes on"


@pytest.mark.parametrize(
    "path", ["other/app/", "local/other/", "other/app", "local/app/x", "local", "local/../app/"]
)
def test_there_is_nothing_else(client, path):
    assert client.ask(path)[0] == 404


def test_a_page_s_address_ends_in_a_slash(client):
    code, headers, _ = client.ask("local/app")
    assert (code, headers["Location"]) == (301, "app/")
    code, headers, _ = client.ask("", token=client.token.rstrip("/"))
    assert (code, headers["Location"]) == (301, client.token)


def test_what_was_seen_is_no_news(client, engine):
    engine.write_log("chief/0", "".join(f"line {n}\n" for n in range(2 * MAX_LINES)))
    _, _, body = client.ask("local/app/data.json")
    told = json.loads(body)
    (log,) = told["document"]["logs"]
    assert log["instance"] == "chief/0"
    lines = log["text"].splitlines()
    assert (len(lines), lines[-1]) == (MAX_LINES, f"line {2 * MAX_LINES - 1}")
    assert client.ask(f"local/app/data.json?seen={told['seen']}")[::2] == (200, b"null")
    engine.write_log("chief/0", "and one more\n")
    newer = client.document(f"?log=chief/0&seen={told['seen']}")
    assert newer["logs"][0]["text"].endswith("\nand one more")


def test_a_log_is_that_of_an_instance(client, engine, tmp_path):
    (tmp_path / "secret").write_text("no log")
    for name in ("../secret", "secret", "worker/9", "%2e%2e/secret"):
        assert client.document(f"?log={name}")["logs"][0]["text"] == ""
    engine.write_log("worker/0", "hello\n")


def search(client, query: str) -> tuple[list, int]:
    code, _, body = client.ask(f"local/app/search.json?{query}")
    assert code == 200
    told = json.loads(body)
    return [(one["instance"], one["lines"]) for one in told["found"]], told["searched"]


def test_logs_are_searched(client, engine, tmp_path, monkeypatch):
    engine.write_log("chief/0", "step 1\nit is NaN\n")
    engine.write_log("worker/0", "nan\nstep 2\n")
    assert search(client, "log=chief/0&find=nan") == ([("chief/0", ["it is NaN"])], 17)
    both = [("worker/0", ["nan"]), ("chief/0", ["it is NaN"])]
    assert search(client, "find=nan") == (both, 28)
    assert search(client, "log=chief/0&find=") == ([], 17)
    (tmp_path / "secret").write_text("nan")
    assert search(client, "log=../secret&find=nan") == ([], 0)
    # The newest bytes of each log, and of all together.
    monkeypatch.setattr(pages.document, "MAX_SEARCHED", 11)
    assert search(client, "log=chief/0&find=t") == ([("chief/0", ["it is NaN"])], 11)
    monkeypatch.setattr(pages, "MAX_SEARCHED", 14)
    assert search(client, "find=n") == ([("worker/0", ["nan"]), ("chief/0", ["aN"])], 14)


class Runners(PlayedRunners):
    """With what they have told before."""

    def values(self, prefix: str) -> tuple[bytes, ...]:
        told = InstanceStacks("id", "worker/0", "", RUNNING.generation or 0, why="no Python")
        return (encode(told),)


def test_stacks_are_taken_when_they_are_asked_for(client, engine, monkeypatch):
    runners = Runners({"worker/0": 12, "chief/0": 41})
    monkeypatch.setattr(engine, "connect", lambda name: runners, raising=False)
    words = "worker/0 is in a place that is not known: no Python"
    code, _, body = client.ask("local/app/stacks.json")
    assert (code, json.loads(body)["groups"][0]["words"]) == (200, words)
    assert runners.requests == [], "nobody was asked"
    code, _, body = client.ask("local/app/stacks.json", "POST")
    groups = [group["words"] for group in json.loads(body)["groups"]]
    assert (code, len(runners.requests), len(groups)) == (200, 1, 2)
    assert "worker/0 is in load at data.py:12" in groups
    assert client.ask("local/app/stacks.json", "POST", token="/x/")[0] == 403


def test_traces_are_taken_when_they_are_asked_for(client, engine, monkeypatch):
    runners = PlayedTracers({"worker/0": "", "chief/0": "it uses no TensorFlow"})
    monkeypatch.setattr(engine, "connect", lambda name: runners, raising=False)
    monkeypatch.setattr(pages.control.time, "strftime", lambda form: "RUN")
    assert client.ask("local/app/profile.json")[0] == 404
    assert runners.requests == [], "nobody was asked"
    code, _, body = client.ask("local/app/profile.json", "POST")
    assert (code, [one.seconds for one in runners.requests]) == (200, [5.0])
    assert sorted(json.loads(body)["lines"]) == [
        "`tfapp tensorboard app` shows them on the page Profile, as RUN",
        "chief/0 has no trace: it uses no TensorFlow",
        "worker/0  /c/plugins/profile/RUN/worker_0.xplane.pb",
    ]


def test_a_request_for_stacks_has_no_body(client, engine, monkeypatch):
    monkeypatch.setattr(
        engine, "connect", lambda name: Runners({"worker/0": 1, "chief/0": 1}), raising=False
    )
    headers = {"Content-Length": "7"}
    assert client.ask("local/app/stacks.json", "POST", **headers)[1]["Connection"] == "close"


class Stream:
    """An open page that listens, of the log of `instance`."""

    def __init__(self, client: Client, instance: str):
        self._connection = http.client.HTTPConnection("127.0.0.1", client.server.server_port)
        self._connection.request("GET", f"{client.token}local/app/events?log={instance}")
        self.answer = self._connection.getresponse()

    def news(self) -> dict:
        line = self.answer.readline()
        assert (line[:6], self.answer.readline()) == (b"data: ", b"\n")
        return json.loads(line[6:])["document"]

    def close(self) -> None:
        self.answer.close()
        self._connection.close()


def test_an_open_page_is_told_what_is_new(client, engine):
    stream = Stream(client, "chief/0")
    assert stream.answer.headers["Content-Type"] == "text/event-stream"
    assert stream.answer.headers["Content-Security-Policy"] == policy()
    assert stream.news() == client.document("?log=chief/0")
    engine.write_log("worker/0", "of no interest\n")
    engine.write_log("chief/0", "a line\n")
    assert stream.news() == {"logs": [{"instance": "chief/0", "text": "a line", "missing": ""}]}
    stream.close()
    assert client.ask("local/other/events")[0] == 404
    assert client.ask("local/app/events", token="/x/")[0] == 403


def test_a_stream_says_now_and_then_that_it_lives(client, monkeypatch):
    monkeypatch.setattr("tfapp.page.server.SIGN_OF_LIFE", 0.0)
    stream = Stream(client, "chief/0")
    stream.news()
    assert stream.answer.readline() + stream.answer.readline() == b":\n\n"
    stream.close()


def test_streams_are_few_and_one_that_goes_makes_room(client):
    streams = [Stream(client, "chief/0") for _ in range(MOST_STREAMS)]
    for stream in streams:
        stream.news()
    assert client.ask("local/app/events")[0] == 503
    assert client.document()["name"] == "app", "a page that asks is answered"
    streams.pop().close()

    def another() -> Stream | None:
        found = Stream(client, "chief/0")
        return found if found.answer.status == 200 else found.close()

    streams.append(wait(another, "there is no room", 60.0))
    for stream in streams:
        stream.close()


def test_links_of_the_engine_are_shown(client):
    assert client.document()["links"] == [
        {"what": "page", "instance": "", "address": "http://rm/proxy", "note": ""}
    ]


def test_the_registry_of_slider(client):
    code, _, body = client.ask("local/app/ws/v1/slider/publisher/exports/worker")
    assert code == 200
    assert json.loads(body)["entries"]["host_port"][0]["value"] == "n:1"
    uris = json.loads(client.ask("local/app/ws/v1/slider/publisher")[2])["uris"]
    assert uris["exports"].startswith(client.server.address)
    assert client.ask("local/app/ws/v1/slider/publisher/exports/none")[0] == 404


class Broken(PlayedEngine):
    """Its applications cannot be asked for."""

    def list(self):
        raise UnavailableError("no cluster answers")

    def follow(self, name, run=None, left=None):
        raise UnreachableError("its master does not answer")
        yield

    def logs(self, name, run=None):
        raise UnavailableError("its logs are elsewhere")


def test_an_engine_that_does_not_answer_is_told(tmp_path, engine):
    broken = Broken(tmp_path, [RUNNING])
    with PageServer(Pages({"yarn": broken, "local": engine}).answer).serving() as server:
        client = Client(server)
        listed = json.loads(client.ask("data.json")[2])["document"]
        assert listed["notes"] == ["yarn: no cluster answers"]
        assert [row["href"] for row in listed["rows"]] == ["local/app/"]
        code, _, body = client.ask("yarn/app/")
        assert (code, json.loads(body)) == (503, {"error": "its master does not answer"})
        code, headers, body = client.ask("yarn/app/", Accept="text/html")
        shown = embedded(body.decode())
        assert (code, headers["Content-Type"]) == (503, HTML)
        assert (shown["words"], shown["up"]) == ("Its master does not answer.", "../../")
        assert shown["pause"], "it looks again"
        client.close()


@pytest.mark.parametrize(
    ("path", "token", "told"),
    [
        ("local/other/", None, (404, "Not found", "There is nothing of this name.", "../../")),
        ("local", None, (404, "Not found", "There is nothing of this name.", "./")),
        ("local/app/", "/guess/", (403, "Not allowed", "", "")),
    ],
)
def test_a_person_gets_an_error_as_a_page(client, path, token, told):
    code, headers, body = client.ask(path, token=token, Accept="text/html,*/*;q=0.8")
    shown = embedded(body.decode())
    assert headers["Content-Security-Policy"] == policy()
    assert (code, shown["name"], shown["up"], shown["pause"]) == (told[0], told[1], told[3], None)
    assert shown["words"] == told[2] or shown["words"].startswith("The token in the address is not")
    assert client.token.strip("/") not in body.decode()


def test_what_takes_long_is_done_seldom():
    now, made = [0.0], []

    def make() -> int:
        now[0] += 0.5
        made.append(now[0])
        return len(made)

    seldom = Seldom(make, 2.0, lambda: now[0])
    assert [seldom.value(), seldom.value()] == [1, 1]
    now[0] += 24.0
    assert seldom.value() == 1
    now[0] += 2.0
    assert seldom.value() == 2


def test_a_kept_page_has_the_logs_of_those_that_failed(tmp_path):
    names = [f"worker/{n}" for n in range(2 * MAX_KEPT_LOGS)]
    bad = names[-1]
    members = [instance(name, "FAILED" if name == bad else "KILLED") for name in names]
    engine = PlayedEngine(tmp_path, [status("FAILED", *members, verdict=failure(bad))])
    for name in names:
        engine.write_log(name, f"of {name}\n")
    document = kept(engine, "app")
    assert document["pause"] is None
    assert [log["instance"] for log in document["logs"]][:2] == ["worker/0", bad]
    assert len(document["logs"]) == MAX_KEPT_LOGS
    assert document["logs"][1]["text"] == f"of {bad}"
    assert kept(Broken(tmp_path, [ENDED]), "app")["logs"] == []


def test_the_command_writes_the_page(tmp_path):
    engine = PlayedEngine(tmp_path, [ENDED])
    code, shell = call(tmp_path, engine, "report", "app")
    assert code == 0
    assert shell.out.text.startswith("<!doctype html>")
    assert "Succeeded: all workers exited 0" in shell.out.text
    assert call(tmp_path, engine, "report", "other")[0] == 69
    code, shell = call(tmp_path, engine, "report", "app", "-o", "app.html", cwd=tmp_path)
    assert (code, shell.out.text) == (0, "")
    assert (tmp_path / "app.html").read_text().startswith("<!doctype html>")
    code, shell = call(tmp_path, engine, "report", "app", "-o", "no/app.html", cwd=tmp_path)
    assert (code, "no/app.html" in shell.err.text) == (53, True)


def test_a_terminal_gets_no_page(tmp_path):
    engine = PlayedEngine(tmp_path, [ENDED])
    terminal = Output(terminal=True)
    code, shell = call(tmp_path, engine, "report", "app", out=terminal)
    assert (code, terminal.text) == (2, "")
    assert "-o app.html" in shell.err.text


def test_a_port_that_is_taken(tmp_path, engine):
    with PageServer(Pages({}).answer).serving() as server:
        port = str(server.server_port)
        code, shell = call(tmp_path, engine, "ui", "--port", port)
    assert code == 53
    assert f"port {port} of this machine cannot be used" in shell.err.text
    assert call(tmp_path, engine, "ui", "other")[0] == 69


def test_an_application_that_was_started_again_is_found(tmp_path):
    now = [0.0]
    engine = PlayedEngine(tmp_path, [ENDED])
    with PageServer(Pages({"local": engine}, lambda: now[0]).answer).serving() as server:
        client = Client(server)
        assert client.document()["state"] == "SUCCEEDED"
        engine.history = [dataclasses.replace(ENDED, state="FAILED", verdict=failure("chief/0"))]
        now[0] += 3600.0
        assert client.document()["state"] == "FAILED"
        client.close()


def test_the_pages_of_a_history(tmp_path, monkeypatch):
    """The newest runs, each as its report is, by a page of this version."""
    place = place_at(str(tmp_path / "kept"))
    keep(place, JOB, STATUS, LOGS, "id_1", Limits())
    monkeypatch.setattr(pages, "MOST_PAST", 500)
    for number in range(505):
        (tmp_path / "kept" / PastRun(number, 0, "KILLED", "bob", "b", f"b{number}").folder).mkdir()
    history = History.at("kept", {}, tmp_path)
    with PageServer(HistoryPages(history).answer).serving() as server:
        client = Client(server)
        shown = json.loads(client.ask("data.json")[2])["document"]
        assert (len(shown["rows"]), shown["name"]) == (500, "Runs that have ended")
        assert shown["notes"] == ["The newest 500 of 506 runs; `tfapp history` lists all."]
        row = shown["rows"][0]
        assert (row["name"], row["state"], row["words"]) == ("app", "FAILED", "Run id_1 of ann.")
        code, _, body = client.ask(row["href"], Accept="text/html")
        page = embedded(body.decode())
        assert (code, page["words"], page["ways"]) == (
            *(200, "Failed: worker/0: exit code 3"),
            [["All runs", "../"]],
        )
        logs = {log["instance"]: (log["text"], log["missing"]) for log in page["logs"]}
        assert logs == {
            **{name: (text, "") for name, text in LOGS.items()},
            "worker/1": ("", "none is kept"),
        }
        others = (shown["rows"][1]["href"], "nothing/", "../etc/", "app/", row["href"] + "report")
        assert [client.ask(path)[0] for path in others] == [404] * len(others)
        client.close()
