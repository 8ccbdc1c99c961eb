import json
import platform
import re
import sys

import pytest

from tests import programs
from tests.cli.commands.call import call
from tests.cli.played_engine import PlayedEngine
from tfapp.engines.diagnosis import OK, PROBLEM, WARNING, Finding
from tfapp.storage import base, check
from tfapp.storage.base import Failed

FINE = Finding("java", OK, "17, /usr/bin/java")
SO_SO = Finding("docker", WARNING, "no engine answers", "Start it.")
BAD = Finding("hdfs", PROBLEM, "it is in safe mode", "Wait.")


class Patient(PlayedEngine):
    """An engine with these findings."""

    def __init__(self, folder, *findings: Finding):
        super().__init__(folder, [])
        self.findings = findings

    def examine(self, python=None, options=None):
        yield from self.findings


def test_findings_are_lines_and_a_warning_is_no_failure(tmp_path):
    code, shell = call(tmp_path, Patient(tmp_path, FINE, SO_SO), "doctor")
    assert code == 0
    assert shell.out.text.splitlines() == [
        "ok       java: 17, /usr/bin/java",
        "warning  docker: no engine answers",
        "         Start it.",
    ]


def test_a_problem_is_one(tmp_path):
    code, shell = call(tmp_path, Patient(tmp_path, BAD), "doctor", "--format", "json")
    assert code == 53
    assert json.loads(shell.out.text) == {
        "version": 1,
        "findings": [
            {"subject": "hdfs", "level": "problem", "text": "it is in safe mode", "mend": "Wait."}
        ],
    }


def test_a_storage_that_does_not_answer(tmp_path):
    url = "hdfs://127.0.0.1:9/user/me"
    code, shell = call(tmp_path, Patient(tmp_path, FINE), "doctor", "--storage", url)
    assert code == 53
    java, credentials, write, hint = shell.out.text.splitlines()
    assert java == "ok       java: 17, /usr/bin/java"
    assert credentials.startswith("ok       storage credentials: ")
    assert write == (
        "problem  storage write: cannot connect to 127.0.0.1:9: [Errno 111] Connection refused"
    )
    assert hint.startswith("         Is the address right, and does the NameNode run?")


def test_the_steps_of_a_storage_are_findings(tmp_path, monkeypatch):
    steps = [("write", "a file", None), ("read", "", Failed(base.DENIED, "no", "Ask its owner."))]
    monkeypatch.setattr(check, "check", lambda url, environ: (step for step in steps))
    words = ("doctor", "--storage", "s3://bucket", "--format", "json")
    code, shell = call(tmp_path, Patient(tmp_path), *words)
    found = json.loads(shell.out.text)["findings"]
    assert code == 53
    assert [tuple(one.values()) for one in found] == [
        ("storage write", "ok", "a file", None),
        ("storage read", "problem", "no", "Ask its owner."),
    ]


def test_a_storage_is_a_url_of_a_known_scheme(tmp_path, capsys):
    with pytest.raises(SystemExit) as caught:
        call(tmp_path, Patient(tmp_path), "doctor", "--storage", "gs://bucket")
    assert caught.value.code == 2
    assert "'gs://bucket' is no URL of one of hdfs, viewfs, s3" in capsys.readouterr().err


def doctor(engine: str, *flags: str, **environ: str) -> tuple[int, dict[str, dict]]:
    words = ("-m", "tfapp", "doctor", "--engine", engine, "--format", "json", *flags)
    done = programs.python(*words, environ=environ)
    assert done.stderr == ""
    return done.returncode, {
        found["subject"]: found for found in json.loads(done.stdout)["findings"]
    }


def test_this_machine(tmp_path):
    code, found = doctor("local", TFAPP_HOME=str(tmp_path), DOCKER_HOST=f"unix://{tmp_path}/none")
    assert code == 0
    assert list(found) == ["python", "home", "tensorflow", "gpus", "docker"]
    assert found["docker"]["level"] == "warning"
    assert re.fullmatch(
        rf"{re.escape(str(tmp_path))}, [\d.]+ [GM]iB free, \d+ MiB in its cache",
        found["home"]["text"],
    )


def test_an_interpreter_of_this_machine(tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho 'no libpython' >&2; exit 1\n")
    broken.chmod(0o755)
    subjects = {
        sys.executable: ("ok", f"Python {platform.python_version()}, {sys.executable}"),
        str(broken): ("problem", f"{broken} does not run: no libpython"),
        "/nowhere/python": ("problem", "/nowhere/python does not start: No such file or directory"),
    }
    for python, (level, text) in subjects.items():
        code, found = doctor("local", "--python", python, TFAPP_HOME=str(tmp_path))
        assert (found["interpreter"]["level"], found["interpreter"]["text"]) == (level, text)
        assert code == (0 if level == "ok" else 53)


def test_a_home_that_is_a_file(tmp_path):
    (tmp_path / "file").touch()
    code, found = doctor("local", TFAPP_HOME=str(tmp_path / "file" / "home"))
    assert (code, found["home"]["level"]) == (53, "problem")
    assert found["home"]["text"] == f"{tmp_path}/file is not a folder that can be written"


@pytest.mark.parametrize(
    ("environ", "subject", "text"),
    [
        ({"JAVA_HOME": "/nowhere"}, "java", "there is no Java in JAVA_HOME (/nowhere)"),
        ({"PATH": "/nowhere"}, "yarn", "Hadoop's command yarn is not on PATH"),
    ],
)
def test_no_way_to_a_cluster(tmp_path, environ, subject, text):
    code, found = doctor("yarn", TFAPP_HOME=str(tmp_path), **environ)
    assert code == 53
    assert (found[subject]["level"], found[subject]["text"]) == ("problem", text)
    assert set(found) == {"python", "home", "java", "yarn"}
