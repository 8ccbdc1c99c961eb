"""What stays of an application when it is destroyed, and what its end tells."""

import http.server
import json
import threading

import pytest

from tests.waiting import wait

PROGRAM = "import os, sys; print('my', os.environ['HOOK'], flush=True); sys.exit(3)"


@pytest.mark.slow
def test_a_run_outlives_its_application(tfapp, tmp_path):
    got = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    tfapp.program(PROGRAM)
    history = tmp_path / "history"
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        hook = f"http://127.0.0.1:{server.server_port}/hook-of-mine"
        (tfapp.work / "secret.env").write_text(f"HOOK={hook}\n")
        words = ("run", "program.py", "-w", 1, "--secret-env-file", "secret.env")
        options = {"history.dir": history, "on.end": "credential:HOOK"}
        flags = [word for k, v in options.items() for word in ("-O", f"site.global.{k}", v)]
        ended = tfapp(*words, "--name", "app", *flags)
        server.shutdown()
    assert ended.code == 65, ended.err
    assert [(one["name"], one["state"]) for one in got] == [("app", "FAILED")]
    assert got[0]["cause"]["last_lines"] == "my [secret]"
    tfapp.ok("destroy", "app")
    assert hook not in "".join(p.read_text() for p in history.rglob("*") if p.is_file())
    (run,) = json.loads(tfapp.asks("history", "--dir", history, "--format", "json"))["runs"]
    assert (run["name"], run["state"], run["id"]) == ("app", "FAILED", got[0]["id"])
    tfapp.asks("history", "app", "--dir", history, "-o", "app.html")
    assert "my [secret]" in (tfapp.work / "app.html").read_text()

    # Neither a history that cannot be written nor a command changes the verdict.
    (tmp_path / "file").write_text("")
    flags = ("-O", "site.global.history.dir", tmp_path / "file" / "below")
    command = ("-O", "site.global.on.end", f"command touch {tmp_path / 'mark'}")
    assert tfapp(*words, "--name", "other", *flags, *command).code == 65
    wait((tmp_path / "mark").exists, "the command has run", 60)
    timeline = tfapp.status("other")["status"]["timeline"]
    assert [moment["kind"] for moment in timeline][-2:] == ["ends", "after-end"]
    assert ": the run is not in it: " in timeline[-1]["text"]
