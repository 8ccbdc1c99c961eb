"""Secrets struck out of a stream, and the last lines as a terminal would show them."""

from __future__ import annotations

import os
import random
import re
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfapp.runner.output import LastLines, Redactor, pump, redact


@pytest.mark.parametrize(
    ("secrets", "text", "shown"),
    [
        ([], "abc", "abc"),
        (["hunter2"], "the word is hunter2, hunter2!", "the word is [secret], [secret]!"),
        (["abcd", "abcdef"], "abcdef abcd", "[secret] [secret]"),
        (["abcd", "cdefgh"], "abcdefgh", "[secret]efgh"),
        (["a.cd"], "abcd a.cd", "abcd [secret]"),
        (["yes", ""], "yes, change", "yes, change"),
        (["größe"], "größe", "[secret]"),
        (["one\ntwo"], "one\ntwo\none", "[secret]\none"),
    ],
)
def test_secrets_are_struck_out(secrets, text, shown):
    assert redact(text, secrets) == shown


def struck_out(text, secrets):
    """The expected output of the redactor: it strikes out the leftmost secret, of several the
    longest."""
    longest_first = sorted(
        (secret for secret in secrets if len(secret) >= 4), key=len, reverse=True
    )
    if not longest_first:
        return text
    return re.sub("|".join(map(re.escape, longest_first)), "[secret]", text)


# Few are looked for one by one, many by their words; short ones and long ones by different words.
SECRETS = st.one_of(
    st.lists(st.text("ab", min_size=3, max_size=20), max_size=3),
    st.lists(st.text("ab", min_size=3, max_size=20), min_size=9, max_size=20, unique=True),
)


@settings(max_examples=400)
@given(data=st.data(), secrets=SECRETS, cuts=st.lists(st.integers(0, 150), max_size=6))
def test_how_a_stream_is_cut_makes_no_difference(data, secrets, cuts):
    part = st.one_of(st.text("abc", max_size=12), st.sampled_from([*secrets, "a"]))
    text = "".join(data.draw(st.lists(part, max_size=12)))
    redactor = Redactor(secrets)
    shown = b""
    edges = [0, *sorted(cuts), len(text)]
    for start, end in zip(edges, edges[1:]):
        shown += redactor.feed(text[start:end].encode())
    shown += redactor.finish()
    assert shown.decode() == redact(text, secrets) == struck_out(text, secrets)


@pytest.mark.parametrize("size", [15, 64, 2048, 64 * 1024])
@pytest.mark.parametrize("others", [0, 20])
def test_long_secrets_are_struck_out_wherever_they_stand(size, others):
    generator = random.Random(size)
    secrets = [generator.randbytes(size).hex()[:size] for _ in range(1 + others)]
    for before in range(0, 17):
        redactor = Redactor(secrets)
        text = ("." * before + secrets[0] + "and so on").encode()
        shown = redactor.feed(text[: before + size // 2]) + redactor.feed(
            text[before + size // 2 :]
        )
        assert shown + redactor.finish() == b"." * before + b"[secret]and so on"


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
