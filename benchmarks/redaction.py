"""How fast a program's output passes through the redactor, in MB/s, by the secrets to look for."""

from __future__ import annotations

import argparse
import base64
import random
import time
from collections.abc import Mapping, Sequence

from tfapp.runner.output import Redactor

CHUNK = 64 * 1024  # bytes that the runner reads at a time
LINE = "Epoch 1/10: 100/1875 [=>.......] - ETA: 3s - loss: 0.5312 - sparse_accuracy: 0.8123\n"
SIZES = (16, 64, 2048, 64 * 1024)  # characters of a secret
BAR = 100.0  # MB/s


def secrets() -> Mapping[str, Sequence[str]]:
    """What is measured, by its name in the table."""
    generator = random.Random(1)

    def value(size: int) -> str:
        return base64.b64encode(generator.randbytes(size)).decode()[:size]

    lines = [value(64) for _ in range(1000)]
    return {
        "no secret": (),
        "1 secret of 7 characters": ("hunter2",),
        **{f"1 secret of {size} characters": (value(size),) for size in SIZES},
        "1 secret of 65536 equal characters": ("s" * 64 * 1024,),
        "1 file of 1000 lines, each a secret too": ("\n".join(lines), *lines),
        "50 secrets of 12 characters": [value(12) for _ in range(50)],
    }


def speed(secrets: Sequence[str], chunk: bytes, megabytes: int) -> float:
    """MB/s of a stream of equal chunks."""
    redactor = Redactor(secrets)
    rounds = megabytes * 1_000_000 // len(chunk)
    begin = time.perf_counter()
    for _ in range(rounds):
        redactor.feed(chunk)
    redactor.finish()
    return rounds * len(chunk) / (time.perf_counter() - begin) / 1_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=100, help="that pass, for each secret")
    megabytes = parser.parse_args().megabytes
    chunk = (LINE * (CHUNK // len(LINE) + 1)).encode()[:CHUNK]
    for name, values in secrets().items():
        found = max(speed(values, chunk, megabytes) for _ in range(3))
        verdict = "" if found >= BAR else f"  below the bar of {BAR:g} MB/s"
        print(f"{found:9.1f} MB/s  {name}{verdict}")


if __name__ == "__main__":
    main()
