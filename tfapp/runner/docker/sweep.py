"""Removes the containers of runners that were killed together with their guards.

    python -m tfapp.runner.docker.sweep

at the engine that the environment names. Each runner in run mode docker begins with it, too.
"""

from __future__ import annotations

import os
import sys

from tfapp.runner.docker.engine import Engine, EngineError
from tfapp.runner.docker.identity import LABEL, LABEL_RUNNER, is_dead


def sweep(engine: Engine) -> None:
    """Of all applications; those of a runner that lives, or that cannot be known to be dead, are
    let alone. EngineError when the engine refuses."""
    for container, labels in engine.labelled(LABEL).items():
        if is_dead(labels.get(LABEL_RUNNER, "")):
            engine.remove(container)


def main() -> int:
    """Returns an exit code."""
    try:
        sweep(Engine(os.environ))
    except EngineError as error:
        sys.stderr.write(f"tfapp: a container may remain: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
