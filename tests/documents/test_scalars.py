import pytest

from tfapp.documents.scalars import resolve_plain, source_text

RESOLVED = [
    ("", None), ("~", None), ("null", None), ("NULL", None),
    ("true", True), ("True", True), ("TRUE", True), ("false", False),
    ("0", 0), ("12", 12), ("-3", -3), ("+3", 3), ("0x1F", 31), ("0o17", 15),
    ("1.5", 1.5), ("1.", 1.0), (".5", 0.5), ("1e3", 1000.0), ("-2.5E-1", -0.25),
]  # fmt: skip

TEXTS = [
    "on", "off", "yes", "no", "y", "tRUE", "nUll", "2020-01-01", "2020-01-01T00:00Z", "12:30:00",
    "1:20:30", "010", "-07", "00", "007.5", "1_000", "0b11", "0x", "0xfg", "-0x1F", ".inf",
    "-.inf", ".nan", "NaN", "1e999", "1.2.3", "1 2", "-", "+", ".", "e1", "١٢", "9" * 301,
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), RESOLVED)
def test_core_schema_scalars_have_their_value(text, value):
    resolved = resolve_plain(text)
    assert (resolved, type(resolved)) == (value, type(value))


@pytest.mark.parametrize("text", TEXTS)
def test_everything_else_stays_as_it_was_written(text):
    assert resolve_plain(text) == text


@pytest.mark.parametrize("value", [None, True, False, 0, -3, 1.5, "worker", "010"])
def test_source_text_is_read_back_as_the_same_value(value):
    assert resolve_plain(source_text(value)) == value
