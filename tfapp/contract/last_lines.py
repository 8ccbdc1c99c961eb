"""What the last lines of a program tell: the exception of Python that ended it."""

from __future__ import annotations

import re

_MAX_WORD = 300  # characters of a program's line inside a sentence
_EXCEPTION = re.compile(r"(\w+\.)*\w*(Error|Exception|Interrupt|Exit)\b")
_TRACEBACK = "Traceback (most recent call last):"
_LEADS_ON = (  # to the traceback of another exception: the module traceback
    "The above exception was the direct cause",
    "During handling of the above exception",
)
# What TensorFlow says of the machine at each start, as of 2.21 and before.
_START_UP = re.compile(
    r"WARNING: All log messages before absl::InitializeLog\(\)"
    r"|To enable the following instructions: [A-Z0-9_ ]+, in other operations, rebuild TensorFlow"
    r"|(?:[EIW]\d{4}|\d{4}-\d\d-\d\d)\s(?:\S+\s+){2,3}(?:"
    r"(?:\S*/)?(?:port|cudart_stub|cpu_feature_guard|computation_placer)\.cc:\d+\]"
    r"|(?:\S*/)?cuda_(?:dnn|fft|blas)\.cc:\d+\] Unable to register "
    r"|TF-TRT Warning: Could not find TensorRT)"
)


def tells_something(line: str) -> bool:
    """Whether a line is none of those that TensorFlow writes at each start."""
    return _START_UP.match(line) is None


def last_word(lines: str) -> str:
    """The line in a program's last lines that says why it failed: that of the last exception of
    Python, else the last line. "" for none."""
    found = [line.strip() for line in lines.splitlines() if line.strip()]
    errors = [line for line in found if _EXCEPTION.match(line)]
    why = (errors or found or [""])[-1].rstrip(".")
    return why if len(why) <= _MAX_WORD else f"{why[: _MAX_WORD - 3]}..."


def raised(lines: str) -> tuple[str, str] | None:
    """The class of the last exception of Python whose traceback is among a program's last lines, by
    its name; and the text from that traceback on, or from that of the first exception that led to
    it. None without a traceback."""
    rows = lines.splitlines()
    begins = [number for number, row in enumerate(rows) if row == _TRACEBACK]
    if not begins:
        return None
    first = begins.pop()
    ends = (row for row in rows[first + 1 :] if row and not row.startswith(" "))
    name = next(ends, "").partition(":")[0]
    while begins and any(row.startswith(_LEADS_ON) for row in rows[begins[-1] : first]):
        first = begins.pop()
    return name, "\n".join(rows[first:])
