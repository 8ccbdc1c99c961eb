"""The type of an unquoted YAML scalar, by the core schema of YAML 1.2.

`on`, `yes`, dates and `12:30:00` are text, as in YAML 1.2. Numbers with leading zeros (`010`, octal
in YAML 1.1) and non-finite numbers (`.inf`) are text too.
"""

from __future__ import annotations

import math
import re
from typing import Union

ScalarValue = Union[str, int, float, bool, None]

_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_BOOLEANS = {
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)\Z")
_OCTAL_OR_HEXADECIMAL = re.compile(r"0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_MAX_DIGITS = 300  # more is no number anyone means, and slow to convert


def resolve_plain(text: str) -> ScalarValue:
    """The value of the unquoted scalar `text`: null, a boolean, a number, or else `text` itself."""
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if text[0] in "+-.0123456789" and len(text) <= _MAX_DIGITS:
        return _number(text)
    return text


def _number(text: str) -> int | float | str:
    if _INTEGER.match(text):
        return int(text)
    if _OCTAL_OR_HEXADECIMAL.match(text):
        return int(text, 0)
    if _FLOAT.match(text):
        value = float(text)
        return value if math.isfinite(value) else text
    return text


def source_text(value: ScalarValue) -> str:
    """The unquoted text of `value`: the inverse of `resolve_plain`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)
