"""The last word of an application that YARN keeps: its final diagnostics."""

from __future__ import annotations

import dataclasses
import json

from tfapp.contract.encoding import encode
from tfapp.contract.status import ApplicationStatus

MAX_DIAGNOSTICS_JSON = 16 * 1024  # bytes of the last line of the final diagnostics


def format_diagnostics(status: ApplicationStatus) -> str:
    """The final diagnostics of an application: its verdict in sentences, then one last line of
    compact JSON (`ApplicationStatus`), at most MAX_DIAGNOSTICS_JSON bytes: the timeline's older
    half, and instances' details, are dropped before the verdict is."""
    verdict = status.verdict
    assert verdict is not None, "only a finished application has diagnostics"
    line = encode(status)
    while len(line) > MAX_DIAGNOSTICS_JSON and status.timeline:
        newer = status.timeline[(len(status.timeline) + 1) // 2 :]
        status = dataclasses.replace(status, timeline=newer)
        line = encode(status)
    if len(line) > MAX_DIAGNOSTICS_JSON:
        slim = tuple(dataclasses.replace(i, exports={}) for i in status.instances)
        line = encode(dataclasses.replace(status, instances=slim))
    if len(line) > MAX_DIAGNOSTICS_JSON:
        line = encode(dataclasses.replace(status, instances=()))
    return f"{verdict.summary}\n{line.decode()}"


def parse_diagnostics(text: str) -> ApplicationStatus | None:
    """What `format_diagnostics` wrote, or None when `text` does not end in it."""
    last = text.rstrip("\n").rpartition("\n")[2]
    if not last.startswith("{"):
        return None
    try:
        return ApplicationStatus.from_dict(json.loads(last))
    except (ValueError, KeyError, TypeError):
        return None
