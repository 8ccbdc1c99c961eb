"""What the light commands cost, against an interpreter that does nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

from benchmarks.medians import compare, parser
from tfapp.shipped import app_packages_dir

ROUNDS = 15


def command(*words: str) -> Callable[[], float]:
    """Seconds that the interpreter takes with these arguments."""

    def measure() -> float:
        begin = time.perf_counter()
        subprocess.run(
            [sys.executable, *words],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return time.perf_counter() - begin

    return measure


if __name__ == "__main__":
    rounds = parser(__doc__, ROUNDS).parse_args().rounds
    package = str(app_packages_dir() / "tensorflow")
    compare(
        {
            "python -c pass": command("-c", "pass"),
            "tfapp --help": command("-m", "tfapp", "--help"),
            "tfapp validate app-packages/tensorflow": command("-m", "tfapp", "validate", package),
        },
        rounds,
    )
