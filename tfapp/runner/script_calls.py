"""Calls into a package's script, each in a thread of its own and with a time limit."""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tfapp.contract.exit import Exit
from tfapp.runner.script_loader import own_stack, own_traceback
from tfapp.script import ScriptError


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a call: its value, or why it has none."""

    value: Any = None
    failure: Exit | None = None
    traceback: str = ""  # the script's own: of what it raised, or of where it hangs


def call(
    name: str,
    function: Callable[[], Any],
    limit: float,
    script: Path,
    package_dir: Path,
    done: Callable[[Outcome], None],
    overdue: str = "script",
) -> None:
    """Starts `function` and returns. `done` is called once, in another thread, with what it
    returned, or with a failure for the reason `overdue` after `limit` seconds. `name` is how
    messages call it."""
    outcomes: list[Outcome] = []

    def run() -> None:
        outcomes.append(outcome_of(name, function, script, package_dir))

    def supervise() -> None:
        worker = threading.Thread(target=run, name=f"tfapp-script-{name}", daemon=True)
        worker.start()
        worker.join(limit)
        if outcomes:
            done(outcomes[0])
            return
        text = f"{script}: {name} did not return within {limit:g} s"
        stack = own_stack(sys._current_frames().get(worker.ident or 0), package_dir)
        done(Outcome(failure=Exit(None, None, overdue, text), traceback=stack))

    threading.Thread(target=supervise, name=f"tfapp-await-{name}", daemon=True).start()


def outcome_of(name: str, function: Callable[[], Any], script: Path, package_dir: Path) -> Outcome:
    """Calls `function` here and now."""
    try:
        return Outcome(function())
    except ScriptError as error:
        return Outcome(failure=Exit(None, None, "start", str(error)))
    # Whatever a script raises is the user's to see, SystemExit too.
    except BaseException as error:
        text = f"{script}: {name} raised {type(error).__name__}"
        detail = str(error)
        return Outcome(
            failure=Exit(None, None, "script", f"{text}: {detail}" if detail else text),
            traceback=own_traceback(error, package_dir),
        )
