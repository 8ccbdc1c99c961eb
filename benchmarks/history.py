"""What `tfapp history` takes to list the runs of a history, in a folder and on an S3 server that it
starts, against an interpreter that does nothing; with the bar. `--here`: the folder alone.

    python -m benchmarks.history [RUNS] [--here] [--rounds N]
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from benchmarks.commands import command
from benchmarks.medians import compare, parser
from tests.storage import s3_server
from tfapp.contract.history import STATUS_FILE, PastRun

RUNS, ROUNDS, BAR = 5000, 7, 1.0  # seconds
USERS, STATES = ("ann", "bob", "eve"), ("SUCCEEDED", "FAILED", "KILLED")


def fill(folder: Path, count: int) -> None:
    """Writes that many runs, as a coordinator names them."""
    for number in range(count):
        begun = 1_700_000_000 + 977 * number
        user, state = USERS[number % 3], STATES[number % 7 % 3]
        id = f"application_{begun}000_0001"
        name, tags = f"training-{number % 40}", ("nightly", f"sweep-{number % 11}")
        run = PastRun(begun + number % 5000, begun, state, user, name, id, 38_000, tags)
        (folder / run.folder).mkdir(parents=True)
        (folder / run.folder / STATUS_FILE).write_bytes(b"{}")


def main() -> None:
    """Prints the medians, and whether the bar is met."""
    made = parser(__doc__, ROUNDS)
    made.add_argument("runs", metavar="RUNS", type=int, nargs="?", default=RUNS)
    made.add_argument("--here", action="store_true", help="the folder alone")
    args = made.parse_args()
    words = ("-m", "tfapp", "history", "--dir")
    with tempfile.TemporaryDirectory() as work, contextlib.ExitStack() as held:
        folder = Path(work, "bucket", "history")
        fill(folder, args.runs)
        measured = {
            "python -c pass": command("-c", "pass"),
            "a folder": command(*words, str(folder)),
            "a folder, of a user": command(*words, str(folder), "--user", "ann"),
        }
        if not args.here:  # its objects are files in a folder
            os.environ.update(held.enter_context(s3_server.running(Path(work), ())))
            measured["S3"] = command(*words, "s3://bucket/history")
        medians = compare(measured, args.rounds)
    for name, seconds in [*medians.items()][1:]:
        met = "met" if seconds <= BAR else "missed"
        print(f"{name}: {seconds:.2f} s for {args.runs} runs ({met}: at most {BAR:g} s)")


if __name__ == "__main__":
    main()
