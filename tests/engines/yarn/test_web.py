"""What NodeManagers send."""

from __future__ import annotations

import pytest

from tfapp.engines.yarn.web import Piece, application, parse_log

FRAME = (
    b"Container: container_1_0001_01_000002 on 127.0.0.3:21103\n"
    b"LogAggregationType: LOCAL\n"
    b"====================================================================\n"
    b"LogType:worker.log\n"
    b"LogLastModifiedTime:Fri Nov 20 13:00:57 +0000 2026\n"
    b"LogLength:%d\n"
    b"LogContents:\n"
    b"%s\n"
    b"End of LogType:worker.log.This log file belongs to a running container.\n"
)


@pytest.mark.parametrize(
    ("length", "shown", "last", "data"),
    [
        (35, b"line 5\n", 7, b"line 5\n"),
        (7, b"line 1\n", 100, b"line 1\n"),
        (0, b"", 100, b""),
        # A program may write whatever it wants, frames too.
        (30, b"LogLength:3\nLogContents:\nabcde\n", 31, b"LogLength:3\nLogContents:\nabcde"),
    ],
)
def test_a_log_is_taken_out_of_its_frame(length, shown, last, data):
    assert parse_log(FRAME % (length, shown), last) == Piece(data, length)


@pytest.mark.parametrize(
    "answer", [b"", b"<html>no</html>", b"\nLogContents:\nabc", b"\nLogLength:x\nLogContents:\nabc"]
)
def test_another_answer_is_refused(answer):
    with pytest.raises(OSError, match="is not a log"):
        parse_log(answer, 10)


def test_an_application_without_a_tracking_address_has_no_facts():
    with pytest.raises(OSError, match="does not lead to a ResourceManager"):
        application("N/A", "application_1_0001")
