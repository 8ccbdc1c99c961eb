"""The files that `yarn logs` writes."""

import pytest

from tests import programs
from tfapp.engines.base import LogFile
from tfapp.engines.yarn.aggregated_logs import log_files, split
from tfapp.engines.yarn.layout import YarnRunFolder

ENTRY = """\
Container: container_1_0001_01_000002 on 127.0.0.3_21103
LogAggregationType: AGGREGATED
====================================================================
LogType:{file}
LogLastModifiedTime:Fri Nov 20 13:01:05 +0000 2026
LogLength:{length}
LogContents:
{text}
End of LogType:{file}
***************************************************************************************

"""


def entry(file: str, text: str) -> str:
    return ENTRY.format(file=file, length=len(text.encode()), text=text)


def test_every_log_of_a_container_is_found():
    answer = entry("tfapp-instance", "worker/0") + entry("worker.log", "é\n\nb") + entry("e", "")
    assert list(split(answer.encode())) == [
        ("tfapp-instance", b"worker/0"),
        ("worker.log", "é\n\nb".encode()),
        ("e", b""),
    ]


def test_a_log_that_quotes_another_one_is_one_log():
    quoted = entry("worker.log", entry("evil.log", "x"))
    assert [name for name, _ in split(quoted.encode())] == ["worker.log"]


def test_a_name_that_leads_elsewhere_is_left_out():
    answer = entry("../../.bashrc", "x") + entry("..", "y")
    assert list(split(answer.encode())) == []


def test_copies_are_named_by_what_their_runner_said(tmp_path):
    run = YarnRunFolder(tmp_path)
    files = {
        "container_1_0001_01_000001/application.master.log": "",
        "container_1_0001_01_000001/application.driver.log": "",
        "container_1_0001_01_000002/tfapp-instance": "worker/1",
        "container_1_0001_01_000002/worker.log": "",
        "container_1_0001_01_000003/worker.log": "of a runner that did not start",
    }
    for name, text in files.items():
        path = run.logs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert list(log_files(run)) == [
        LogFile("worker/1", run.logs / "container_1_0001_01_000002/worker.log"),
        LogFile("coordinator", run.logs / "container_1_0001_01_000001/application.driver.log"),
        LogFile("master", run.logs / "container_1_0001_01_000001/application.master.log"),
    ]


# Runs in a process of its own, whose memory has a limit. `yarn` is a script that copies its answer.
FETCHES = """
import sys, resource
from pathlib import Path
from tfapp.engines.yarn import aggregated_logs
from tfapp.engines.yarn.layout import YarnRunFolder

class Web:
    def application(self, *_):
        return {"logAggregationStatus": "SUCCEEDED"}

run, yarn = YarnRunFolder(Path(sys.argv[1])), sys.argv[2]
resource.setrlimit(resource.RLIMIT_DATA, (150 << 20, 150 << 20))
print(aggregated_logs.fetch(run, "application_1_0001", "", {"PATH": yarn}, Web()))
"""


@pytest.mark.parametrize("copied", [None, b"a" * 5, b"other"])
def test_logs_larger_than_memory(tmp_path, copied):
    """One of 300 MB, of which nothing, a beginning or something else was copied before."""
    name = "container_1_0001_01_000002"
    run = YarnRunFolder(tmp_path / "run")
    copy = run.logs / name / "worker.log"
    if copied is not None:
        copy.parent.mkdir(parents=True)
        copy.write_bytes(copied)
    size = 300_000_000
    with (tmp_path / "answer").open("wb") as answer:
        head, _, tail = entry("worker.log", "TEXT").partition("TEXT")
        answer.write(head.replace("LogLength:4", f"LogLength:{size}").encode())
        for _ in range(300):
            answer.write(b"a" * 1_000_000)
        answer.write(tail.encode() + entry("e", "last").encode())
    bin = tmp_path / "bin"
    bin.mkdir()
    (bin / "yarn").write_text(f'#!/bin/sh\n/bin/cp {tmp_path}/answer "$5/{name}"\n')
    (bin / "yarn").chmod(0o755)
    programs.printed("-c", FETCHES, run.path, bin)
    assert copy.stat().st_size == size
    assert (copy.parent / "e").read_bytes() == b"last"
