"""The libraries that open S3, obstore, which tfapp uses, and s3fs, against each other: the same
reads and writes of one object, whole and in pieces of 4 MiB, on an S3 server that it starts. Prints
the seconds, and those of the client on processors. s3fs is none of tfapp's packages: `pip install
s3fs`."""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.medians import compare, parser
from benchmarks.object_stores_steps import BUCKET, LIBRARIES, NAME, STEPS
from tests.storage import s3_server

ROUNDS = 5
MEGABYTES = 500
LIMIT = 600.0  # seconds for a step


def measured(
    library: str, step: str, megabytes: int, environ: Mapping[str, str], processors: list[float]
) -> Callable[[], float]:
    """The seconds of a step; those on processors go to `processors`."""

    def run() -> float:
        words = ("-m", "benchmarks.object_stores_steps", library, step, str(megabytes))
        done = subprocess.run(
            [sys.executable, *words],
            env=environ,
            cwd=Path(__file__).parent.parent,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        if done.returncode != 0:
            raise SystemExit(f"{step}, {library} ended with {done.returncode}:\n{done.stderr}")
        found = json.loads(done.stdout)
        processors.append(found["processors"])
        return float(found["seconds"])

    return run


def main() -> None:
    """Prints the medians of each step."""
    made = parser(__doc__, ROUNDS)
    made.add_argument("--megabytes", metavar="N", type=int, default=MEGABYTES)
    made.add_argument("libraries", nargs="*", choices=[[], *LIBRARIES], help="default: both")
    args = made.parse_args()
    names = args.libraries or [*LIBRARIES]
    lacking = [name for name in names if importlib.util.find_spec(name) is None]
    if lacking:
        raise SystemExit(f"there is no {lacking[0]} here: pip install {lacking[0]}")
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work, "s3")
        with s3_server.running(folder, (BUCKET,)) as server:
            (folder / BUCKET / NAME).write_bytes(os.urandom(1_000_000) * args.megabytes)
            kept = {name: v for name, v in os.environ.items() if not name.startswith("AWS_")}
            for step in STEPS:
                spent: dict[str, list[float]] = {name: [] for name in names}
                ways = {
                    f"{step}, {name}": measured(
                        name, step, args.megabytes, {**kept, **server}, spent[name]
                    )
                    for name in names
                }
                compare(ways, args.rounds)
                medians = (f"{name} {statistics.median(v):.2f} s" for name, v in spent.items())
                print(f"{step}, on processors: {', '.join(medians)}", flush=True)


if __name__ == "__main__":
    main()
