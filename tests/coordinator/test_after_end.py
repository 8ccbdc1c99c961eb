"""What follows a verdict, with a real server that is told."""

import contextlib
import dataclasses
import http.server
import json
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.coordinator.test_history import JOB, LOGS, STATUS
from tfapp.contract.encoding import encode
from tfapp.contract.exit import Exit
from tfapp.contract.job import Private
from tfapp.contract.names import PRIVATE_FILE
from tfapp.contract.status import Cause, Verdict
from tfapp.coordinator import after_end
from tfapp.frozen import replace

CAUSE = Cause("worker/0", 2, "node-1", "c1", Exit(3, None, "exit", "exit code 3"), "a\n<b> & c")
ENDED = replace(STATUS, verdict=Verdict("FAILED", 65, "Failed: why.", CAUSE))


@dataclasses.dataclass
class Receiver:
    answers: list[int]  # the codes; the last one stays
    url: str = ""
    got: list = dataclasses.field(default_factory=list)


@contextlib.contextmanager
def receiver(*answers: int) -> Iterator[Receiver]:
    made = Receiver([*answers])

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            made.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(made.answers.pop(0) if made.answers[1:] else made.answers[0])
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def do_GET(self):
            made.got.append("GET")
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        made.url = f"http://127.0.0.1:{server.server_port}/SECRET-PATH"
        try:
            yield made
        finally:
            server.shutdown()


@pytest.fixture
def follow(tmp_path, monkeypatch):
    """Says what has failed after the end of an application with these settings."""
    monkeypatch.setattr(after_end, "PAUSE", 0.05)

    def follow(env=None, **settings: str) -> list[str]:
        env = {one.name: env or {} for one in JOB.components}
        (tmp_path / PRIVATE_FILE).write_bytes(encode(Private(env=env)))
        site = {f"site.global.{key.replace('_', '.')}": value for key, value in settings.items()}
        components = [replace(one, site=site) for one in JOB.components]
        job = replace(JOB, components=tuple(components))
        environ = {"SKEIN_APPLICATION_ID": "id_1"}
        return after_end.follow_up(job, ENDED, LOGS, environ, tmp_path)()

    return follow


def test_nothing_follows_unless_it_is_asked_for(follow, tmp_path):
    assert follow() == []
    assert follow(on_end="command touch here") == []  # the follower's
    assert [path.name for path in tmp_path.iterdir()] == [PRIVATE_FILE]


def test_the_verdict_arrives(follow):
    with receiver(200) as there:
        assert follow(on_end=there.url) == []
    assert there.got == [
        {
            "version": 1,
            "name": "app",
            "id": "id_1",
            "user": None,
            "state": "FAILED",
            "exit_code": 65,
            "summary": "Failed: why.",
            "generation": 2,
            "restarts": 0,
            "started": ENDED.started,
            "ended": ENDED.updated,
            "losses": 0,
            "cause": {
                "instance": "worker/0",
                "host": "node-1",
                "exit": "exit code 3",
                "last_lines": "a\n<b> & c",
            },
        }
    ]


def test_chats_get_their_own_form(follow):
    with receiver(200) as there:
        assert follow({"HOOK": f"{there.url}\n"}, on_end="slack credential:HOOK") == []
        assert follow(on_end=f"teams {there.url}") == []
    slack, teams = there.got
    assert slack == {"text": "app: FAILED\nFailed: why.\n&lt;b&gt; &amp; c"}
    (card,) = teams["attachments"]
    assert card["contentType"] == "application/vnd.microsoft.card.adaptive"
    texts = [block["inlines"][0]["text"] for block in card["content"]["body"]]
    assert texts == ["app: FAILED", "Failed: why.", "<b> & c"]


@pytest.mark.parametrize(
    ("answers", "attempts"), [((503, 429, 204), 3), ((404,), 1), ((302,), 1)], ids=str
)
def test_what_may_help_is_tried_again(follow, answers, attempts):
    with receiver(*answers) as there:
        failed = follow(on_end=there.url)
    assert len(there.got) == attempts
    assert "GET" not in there.got
    wanted = f"the receiver of site.global.on.end was not told: it answers {answers[0]} "
    assert all(line.startswith(wanted) for line in failed)
    assert len(failed) == (answers[-1] != 204)


def test_nobody_is_waited_for_longer_than_the_limit(follow, monkeypatch):
    monkeypatch.setattr(after_end, "TELL_LIMIT", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begun = time.monotonic()
        failed = follow(on_end=f"http://127.0.0.1:{silent.getsockname()[1]}/x")
        assert time.monotonic() - begun < 3
    words = "the receiver of site.global.on.end was not told: no answer within 0.5 s"
    assert failed == [words]


def test_a_failure_has_no_secret(follow, tmp_path, monkeypatch):
    monkeypatch.setattr(after_end, "TELL_LIMIT", 0.5)
    urls = ("http://127.0.0.1:9/SECRET", "http://no host/SECRET", "ftp://SECRET", "SECRET")
    for url in urls:
        (line,) = follow({"HOOK": url}, on_end="credential:HOOK")
        assert line.startswith("the receiver of site.global.on.end was not told: ")
        assert "SECRET" not in line


def test_the_history_and_the_message_do_not_wait_for_each_other(follow, tmp_path):
    with receiver(200) as there:
        failed = follow(history_dir="oss://bucket/a", on_end=there.url)
        assert len(there.got) == 1
    (line,) = failed
    assert line.startswith("the history at oss://bucket/a: oss://bucket/a cannot be opened: ")
    (tmp_path / "file").write_text("")
    (line,) = follow(history_dir=str(tmp_path / "file"))
    assert f"{tmp_path}/file: the run is not in it: " in line and "Not a directory" in line
    assert follow(history_dir=str(tmp_path / "kept"), history_max_mb="1") == []
    assert len([*(tmp_path / "kept").iterdir()]) == 1
