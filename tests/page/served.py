"""`tfapp ui` as a process, and what it answers."""

import contextlib
import json
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

from tests.end_to_end.command_line import CommandLine


@contextlib.contextmanager
def served(tfapp: CommandLine, *words: object) -> Iterator[str]:
    """The address that `tfapp ui` prints. It ends by Ctrl-C, well."""
    process = tfapp.start("ui", *words)
    try:
        yield process.stdout.readline().strip()  # type: ignore[union-attr]
    finally:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err


def fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read().decode()


def document(address: str, log: str = "") -> dict[str, Any]:
    """The document of the page at `address`, with the log of this instance."""
    until = time.monotonic() + 120.0
    while True:
        try:
            return json.loads(fetched(f"{address}data.json?log={log}"))["document"]
        except urllib.error.HTTPError as error:  # 503: the engine has not answered yet
            if error.code != 503 or time.monotonic() > until:
                raise
        time.sleep(0.2)
