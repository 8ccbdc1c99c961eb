"""Secrets struck out of a stream, and the last lines as a terminal would show them."""

import json
import os
import random
import re
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfapp.contract.encoding import encode
from tfapp.contract.terminal import plain
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


CODES = [
    b"\x1b[0m",
    b"\x1b[1;32m",
    b"\x1b[2K",
    b"\x1b]0;title\x07",
    b"\x1b]8;;x\x1b\\",
    b"\x1b7",
    b"\b",
]


@pytest.mark.slow
@given(st.data())
@settings(max_examples=300)
def test_codes_of_a_terminal_hide_no_secret(data):
    """Whatever codes are between its characters, and however the stream is cut into pieces."""
    secrets = ["s3cr3t", "s3c0nd!"]
    letters = st.sampled_from([*secrets, "s3cr", "s3", "t", "x ", "\n"])
    text = "".join(data.draw(st.lists(letters, max_size=6)))
    written = b""
    for letter in text.encode():
        codes = data.draw(st.lists(st.sampled_from(CODES), max_size=1))
        written += b"".join(codes) + bytes([letter])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(written)), max_size=4)))
    redactor = Redactor(secrets)
    pieces = [written[a:b] for a, b in zip([0, *cuts], [*cuts, len(written)])]
    shown = b"".join(map(redactor.feed, pieces)) + redactor.finish()
    assert plain(shown.decode()) == struck_out(text, secrets)
    if not any(secret in text for secret in secrets):
        assert shown == written


@pytest.mark.parametrize("held", [b"\x1b", b"\x1b[1;3", b"\x1b]0;ti", b"s3c\x1b["])
def test_what_may_become_a_code_is_shown_at_the_end(held):
    redactor = Redactor(["s3cr3t"])
    assert redactor.feed(b"a" + held) == b"a"
    assert redactor.finish() == held


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("acc\x1b[31m", "acc"),
        ("\x1b]52;c;ZXZpbA==\x07loss", "loss"),
        ("\x1b[2J\x1b[Hloss\x07", "loss\N{REPLACEMENT CHARACTER}"),
        ("a\tb\nc\rd", "a\tb\nc\N{REPLACEMENT CHARACTER}d"),
        ("größe", "größe"),
    ],
)
def test_texts_in_reports_move_nothing_in_a_terminal(text, shown):
    """Such as names of metrics, and last lines."""
    assert redact(text, []) == shown


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
    for before in range(17):
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


def test_what_tensorflow_says_at_each_start_is_no_last_line():
    last = LastLines(80)
    said = b"WARNING: All log messages before absl::InitializeLog() is called are written"
    last.feed(b"first\n" + said + b" to STDERR\nlast\n")
    assert last.text() == "first\nlast"


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
        thread.join(120)
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


NO_UTF8 = {
    "caf\udce9": "caf\ufffd",  # a byte that is no UTF-8
    "\udcc3\udca9": "\u00e9",  # bytes that are
    "\ud800 key caf\udce9": "? key caf?",  # of JSON, and no byte at all
    "k\udce9y-of-me": "[secret]",
    "plain": "plain",
}


@pytest.mark.parametrize("text", NO_UTF8)
def test_any_text_of_a_program_can_be_told(text):
    told = redact(text, ["k\udce9y-of-me"])
    assert told == NO_UTF8[text]
    assert json.loads(encode({told: told, "as it was": text}))[told] == told


def test_a_secret_that_is_no_utf8_is_struck_out_of_a_stream():
    redactor = Redactor(["k\udce9y-of-me"])
    assert redactor.feed(b"a k\xe9y-of-me b") + redactor.finish() == b"a [secret] b"


@pytest.mark.parametrize(
    "text",
    [
        'sup3rs3cret/to+ken"x y',
        '{"token": "sup3rs3cret/to+ken\\"x y"}',
        "https://h/?t=sup3rs3cret%2Fto%2Bken%22x%20y",
        "https://h/?t=sup3rs3cret%2Fto%2Bken%22x+y",
        "https://h/sup3rs3cret/to%2Bken%22x%20y",
    ],
)
def test_a_secret_is_struck_out_as_it_stands_in_json_and_urls(text):
    redactor = Redactor(['sup3rs3cret/to+ken"x y'])
    shown = b"".join(redactor.feed(text[n : n + 1].encode()) for n in range(len(text)))
    assert b"sup3rs3cret" not in shown + redactor.finish()
