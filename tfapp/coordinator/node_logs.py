"""The end of a container's log, from its NodeManager's web pages."""

from __future__ import annotations

import contextlib

from tfapp.coordinator import losses
from tfapp.skein_calls.containers import Container

LIMIT = 3.0  # seconds; the coordinator waits for it
LENGTH = 4096  # bytes

# The NodeManager's frame around it.
_BEGIN = "\nLogContents:\n"
_END = "\nEnd of LogType:"

_NO_PORT = "0"  # of a node without pages


def read_log(container: Container) -> str:
    """What the log of a container that ended says last; "" where nobody tells it: a node that is
    gone, pages that ask for a login, the local engine."""
    if container.node.rpartition(":")[2] in ("", _NO_PORT):
        return ""
    if losses.explained(container.message).reason != "lost":
        return ""
    path = f"ws/v1/node/containers/{container.yarn_id}/logs/{container.service}.log"
    where = f"{container.node}/{path}?size=-{LENGTH}"
    import http.client  # with it, half of what a coordinator would load before its first word

    with contextlib.suppress(OSError):
        try:
            return _read(f"http://{where}")
        except (http.client.HTTPException, ConnectionError):  # of who speaks HTTPS
            return _read(f"https://{where}")
    return ""


def _read(url: str) -> str:
    import urllib.request

    request = urllib.request.Request(url, headers={"Accept": "text/plain"})
    with urllib.request.urlopen(request, timeout=LIMIT) as answer:
        text = answer.read(2 * LENGTH).decode(errors="replace")
    return text.partition(_BEGIN)[2].partition(_END)[0]
