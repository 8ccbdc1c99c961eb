"""Secrets struck out of a stream, and the last lines as a terminal would show them."""

from __future__ import annotations

import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfapp.runner.output import LastLines, Redactor, pump, redact


@pytest.mark.parametrize(
    ("secrets", "text", "shown"),
    [
        ([], "abc", "abc"),
        (["hunter2"], "the word is hunter2, hunter2!", "the word is [secret], [secret]!"),
        (["abc", "abcdef"], "abcdef abc", "[secret] [secret]"),
        (["a.c"], "abc a.c", "abc [secret]"),
        (["no", ""], "no change", "no change"),
        (["größe"], "größe", "[secret]"),
        (["one\ntwo"], "one\ntwo\none", "[secret]\none"),
    ],
)
def test_secrets_are_struck_out(secrets, text, shown):
    assert redact(text, secrets) == shown


@given(
    secrets=st.lists(st.text("ab", min_size=3, max_size=6), max_size=3),
    text=st.text("abc", max_size=40),
    cuts=st.lists(st.integers(0, 40), max_size=6),
)
def test_how_a_stream_is_cut_makes_no_difference(secrets, text, cuts):
    redactor = Redactor(secrets)
    shown = b""
    edges = [0, *sorted(cuts), len(text)]
    for start, end in zip(edges, edges[1:]):
        shown += redactor.feed(text[start:end].encode())
    shown += redactor.finish()
    assert shown.decode() == redact(text, secrets)
    assert not any(secret in shown.decode() for secret in secrets)


def test_only_what_may_become_a_secret_is_held_back():
    redactor = Redactor(["hunter2"])
    assert redactor.feed(b"50% [=====>   ]\r") == b"50% [=====>   ]\r"
    assert redactor.feed(b"my hunt") == b"my "
    assert redactor.feed(b"ing") == b"hunting"
    assert redactor.feed(b" hunter") == b" "
    assert redactor.finish() == b"hunter"


@pytest.mark.parametrize(
    ("limit", "fed", "text"),
    [
        (100, ["one\ntwo\n"], "one\ntwo"),
        (100, ["one\n", "tw", "o"], "one\ntwo"),
        (7, ["one\ntwo\nthree\n"], "three"),
        (4, ["a line that is too long"], "long"),
        (100, ["10%\r50%\r100%\ndone\r\n"], "100%\ndone"),
        (100, ["1/3\b\b\b2/3\n"], "1/32/3"),
        (100, ["", "\n\n"], ""),
        (3, ["ééé"], "é"),
    ],
)
def test_last_lines(limit, fed, text):
    last = LastLines(limit)
    for part in fed:
        last.feed(part.encode())
    assert last.text() == text


def test_much_output_is_remembered_by_its_end_alone():
    last = LastLines(100)
    for number in range(10_000):
        last.feed(f"line {number}\n".encode())
    lines = last.text().splitlines()
    assert lines == [f"line {number}" for number in range(10_000 - len(lines), 10_000)]
    assert 80 < len(last.text()) <= 100


def test_a_stream_is_copied_to_its_end(tmp_path):
    source, output = os.pipe()
    last = LastLines(100)
    with open(tmp_path / "log", "wb") as sink:
        thread = threading.Thread(
            target=pump, args=(source, sink.fileno(), Redactor(["hunter2"]), last)
        )
        thread.start()
        os.write(output, b"one hunt")
        os.write(output, b"er2\ntwo")
        os.close(output)
        thread.join(30)
    os.close(source)
    assert (tmp_path / "log").read_bytes() == b"one [secret]\ntwo\n"
    assert last.text() == "one [secret]\ntwo"


def test_a_full_disk_loses_the_log_and_nothing_else():
    source, output = os.pipe()
    os.write(output, b"what is said\n")
    os.close(output)
    last = LastLines(100)
    with open("/dev/full", "wb", buffering=0) as sink:
        pump(source, sink.fileno(), Redactor([]), last)
    os.close(source)
    assert last.text() == "what is said"
