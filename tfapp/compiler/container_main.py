"""Entry point in a container, shipped as `__main__.py` of the runtime archive:
`python tfapp-runtime runner`, `python tfapp-runtime coordinator`, or `check`, which only says that
this interpreter could be either. An archive for pods has the program `master` too."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys

from tfapp.contract.names import CANNOT_START, CANNOT_START_CODE

PROGRAMS = {
    "runner": "tfapp.runner.main",
    "coordinator": "tfapp.coordinator.main",
    "master": "tfapp.engines.kubernetes.pod.main",
}
CHECK = "check"

OLDEST = (3, 9)
# Module -> the distribution that has it.
NEEDED = {"grpc": "grpcio", "google.protobuf": "protobuf"}


def start(argv: list[str]) -> int:
    """Runs the program that `argv` begins with. Returns its exit code; 2 for no such program,
    CANNOT_START_CODE when this interpreter cannot run tfapp."""
    if not argv or argv[0] not in (*PROGRAMS, CHECK):
        sys.stderr.write(f"usage: {' | '.join((*PROGRAMS, CHECK))}\n")
        return 2
    objection = unfit()
    if objection:
        sys.stderr.write(f"{CANNOT_START}{objection}\n")
        return CANNOT_START_CODE
    if argv[0] == CHECK:
        print(f"Python {sys.version.split()[0]}, {sys.executable}")
        return 0
    inherited = dict(os.environ)
    # Before gRPC loads: with its fork handlers, one start of a process in twenty fails on
    # Python 3.9. The user's program does not inherit it.
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
    return int(importlib.import_module(PROGRAMS[argv[0]]).main(argv[1:], inherited))


def unfit() -> str:
    """The reason why this interpreter cannot run tfapp, "" when it can."""
    if sys.version_info < OLDEST:
        return f"{sys.executable} is Python {sys.version.split()[0]}, tfapp needs 3.9 or newer"
    missing = [name for module, name in NEEDED.items() if not _is_there(module)]
    return f"{sys.executable} lacks {', '.join(missing)}, which tfapp needs" if missing else ""


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it
        return False


if __name__ == "__main__":
    sys.exit(start(sys.argv[1:]))
