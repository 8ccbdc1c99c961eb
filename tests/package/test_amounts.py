"""Amounts with a unit: what they come to, and the schemas' patterns for the same grammar."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tfapp.package.amounts import mebibytes, seconds, size
from tfapp.schema.load import effective_schema


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        (1024, 1024),
        ("1024", 1024),
        ("2 GiB", 2048),
        ("2GiB", 2048),
        ("2g", 2048),
        ("1.5 GiB", 1536),
        ("2 GB", 1908),
        ("2 gb", 1908),
        ("512 MiB", 512),
        ("1 KiB", 1),
        ("1025 K", 2),
        ("4 TiB", 4 * 1024**2),
        ("1 B", 1),
    ],
)
def test_mebibytes(amount, expected):
    assert mebibytes(amount) == expected


def test_a_number_without_a_unit_counts_in_what_its_key_says():
    assert (size(64), size("64", "MiB"), seconds("64")) == (64, 64 << 20, 64.0)


@pytest.mark.parametrize(
    ("amount", "expected"),
    [(1.5, 1.5), ("1e3", 1000), ("90s", 90), ("10 min", 600), ("1.5 h", 5400), ("2D", 172800)],
)
def test_seconds(amount, expected):
    assert seconds(amount) == expected


@pytest.mark.parametrize(
    "amount", ["", "much", "9" * 16 + "B", "-1 GiB", "2 PiB", "1. GiB", "2GiB\n", "2 s", "G"]
)
def test_no_size(amount):
    with pytest.raises(ValueError, match="no amount"):
        size(amount)


@pytest.mark.parametrize(
    "amount", ["", "soon", "inf", "nan", "2 GiB", "1 m", "2 days", "9" * 400 + " s"]
)
def test_no_duration(amount):
    with pytest.raises(ValueError, match="no (amount|duration)"):
        seconds(amount)


def pattern(kind: str, definition: str) -> str:
    return effective_schema(kind)["$defs"][definition]["pattern"]


WORDS = st.from_regex(r"[0-9]{0,2}(\.[0-9])? ?[A-Za-z]{0,3}", fullmatch=True)


@given(WORDS)
@example("2 kib")
@example("0.5T")
def test_the_schema_of_memory_has_the_same_grammar(text):
    fits = re.search(pattern("resources", "memory"), text) is not None
    if text.strip(" .0123456789"):  # a number alone is no text there
        assert fits == is_amount(mebibytes, text) or text == "max"


@given(WORDS)
@example("1.5 mIn")
@example("9" * 400 + " s")
def test_the_schema_of_durations_has_the_same_grammar(text):
    if text.strip(" .0123456789") and "e" not in text.lower():
        known = is_amount(seconds, text)
        assert (re.search(pattern("appConfig", "duration"), text) is not None) == known
        positive = re.search(pattern("appConfig", "positiveDuration"), text) is not None
        assert positive == (known and seconds(text) > 0)


def is_amount(function, text: str) -> bool:
    try:
        function(text)
    except ValueError:
        return False
    return True
