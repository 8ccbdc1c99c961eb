"""Entry point in a container, shipped as `__main__.py` of the runtime archive. It runs the module
`main` of a package of tfapp: `python tfapp-runtime runner` that of tfapp.runner. The word `check`
only says that this interpreter could run one."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys

from tfapp.contract.names import CANNOT_START, CANNOT_START_CODE
from tfapp.contract.needs import NEEDED, unfit

CHECK = "check"


def start(argv: list[str]) -> int:
    """Runs the program that `argv` begins with. Returns its exit code; 2 for no such program,
    CANNOT_START_CODE when this interpreter cannot run tfapp."""
    program = f"tfapp.{argv[0]}.main" if argv else ""
    if argv[:1] != [CHECK] and not _is_there(program):
        sys.stderr.write(f"usage: {CHECK} | PACKAGE, where tfapp.PACKAGE.main is shipped\n")
        return 2
    problem = unfit(NEEDED)
    if problem:
        sys.stderr.write(f"{CANNOT_START}{sys.executable} {problem}\n")
        return CANNOT_START_CODE
    if argv[0] == CHECK:
        print(f"Python {sys.version.split()[0]}, {sys.executable}")
        return 0
    inherited = dict(os.environ)
    # Before gRPC loads: with its fork handlers, one start of a process in twenty fails on
    # Python 3.9. The user's program does not inherit it.
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
    return int(importlib.import_module(program).main(argv[1:], inherited))


def _is_there(module: str) -> bool:
    with contextlib.suppress(ImportError, ValueError):
        return importlib.util.find_spec(module) is not None
    return False


if __name__ == "__main__":
    sys.exit(start(sys.argv[1:]))
