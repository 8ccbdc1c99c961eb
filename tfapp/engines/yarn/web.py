"""What YARN's daemons say over HTTP, where Skein's driver does not tell it."""

from __future__ import annotations

import dataclasses
import json
import urllib.request
from typing import Any

LIMIT = 10.0  # seconds for one answer

# NodeManager's frame around a log.
_LENGTH = b"\nLogLength:"
_BEGIN = b"\nLogContents:\n"


@dataclasses.dataclass(frozen=True)
class Piece:
    """The end of a log: `data` is its last bytes, `length` its whole length now."""

    data: bytes
    length: int


def get(url: str, accept: str = "application/json") -> bytes:
    """The answer's body. OSError (urllib's errors are) when there is none."""
    request = urllib.request.Request(url, headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=LIMIT) as answer:
        return answer.read()


def read_log(node: str, container: str, file: str, last: int) -> Piece:
    """The last `last` bytes of a log on NodeManager `node` (host:port). OSError when it cannot
    be had: not there yet, moved away after the application's end, node lost."""
    url = f"http://{node}/ws/v1/node/containers/{container}/logs/{file}?size=-{last}"
    return parse_log(get(url, "text/plain"), last)


def parse_log(answer: bytes, last: int) -> Piece:
    """Takes a NodeManager's frame off a log. OSError when there is no such frame."""
    head, begin, rest = answer.partition(_BEGIN)
    _, found, number = head.rpartition(_LENGTH)
    digits = number.split(b"\n")[0]
    if not begin or not found or not digits.isdigit():
        raise OSError("a NodeManager's answer is not a log")
    length = int(digits)
    return Piece(rest[: min(length, last)], length)


def application(tracking_url: str, application_id: str) -> dict[str, Any]:
    """The ResourceManager's facts of an application; its address is taken from the
    application's own. OSError when it does not answer so (Kerberos protects it, perhaps)."""
    manager, proxy, _ = tracking_url.partition("/proxy/")
    if not proxy:
        raise OSError(f"{tracking_url!r} does not lead to a ResourceManager")
    return read_json(f"{manager}/ws/v1/cluster/apps/{application_id}")["app"]


def read_json(url: str) -> Any:
    """The answer's content. OSError when there is none."""
    try:
        return json.loads(get(url))
    except ValueError as error:
        raise OSError(f"{url} is not JSON") from error
