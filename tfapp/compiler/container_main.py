"""Entry point in a container, shipped as `__main__.py` of the runtime archive:
`python tfapp-runtime runner` and `python tfapp-runtime coordinator`."""

from __future__ import annotations

import importlib
import os
import sys

PROGRAMS = {"runner": "tfapp.runner.main", "coordinator": "tfapp.coordinator.main"}


def start(argv: list[str]) -> int:
    """Runs the program that `argv` begins with. Returns its exit code; 2 for no such program."""
    if not argv or argv[0] not in PROGRAMS:
        sys.stderr.write(f"usage: {' | '.join(PROGRAMS)}\n")
        return 2
    inherited = dict(os.environ)
    # Before gRPC loads: with its fork handlers, one start of a process in twenty fails on
    # Python 3.9. The user's program does not inherit it.
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
    return int(importlib.import_module(PROGRAMS[argv[0]]).main(argv[1:], inherited))


if __name__ == "__main__":
    sys.exit(start(sys.argv[1:]))
