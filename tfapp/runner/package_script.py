"""A package's script: loaded by its file's location, called with a time limit.

Its folder never gets on `sys.path`: `scripts/tensorflow.py` would stand in for TensorFlow there.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from tfapp import threads
from tfapp.contract.exit import Exit
from tfapp.frozen import frozen
from tfapp.script import Script, ScriptError

MODULE_NAME = "_tfapp_package_script"


def load_script(package_dir: Path, script: str) -> Script:
    """An instance of the one subclass of `Script` that the file `script` of a package defines.
    ScriptError when there is not exactly one; what the file itself raises passes through."""
    path = package_dir / script
    if not path.is_file():
        raise ScriptError(f"the package has no {script}")
    spec = importlib.util.spec_from_file_location(MODULE_NAME, path)
    if spec is None or spec.loader is None:
        raise ScriptError(f"{script} is no Python file: its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickle look a class's module up by its name.
    sys.modules[MODULE_NAME] = module
    spec.loader.exec_module(module)
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Script) and value.__module__ == MODULE_NAME
    ]
    if len(found) != 1:
        names = ", ".join(cls.__name__ for cls in found) or "none"
        raise ScriptError(
            f"{script} must define one class that subclasses tfapp.script.Script; found: {names}"
        )
    return found[0]()


# ---- Calls ----------------------------------------------------------------------------------
@frozen
class ScriptOutcome:
    """The result of a call: its value, or the reason why it has none."""

    value: Any = None
    failure: Exit | None = None
    traceback: str = ""  # the script's own: of what it raised, or of where it hangs


def call(
    name: str,
    function: Callable[[], Any],
    limit: float,
    script: Path,
    package_dir: Path,
    done: Callable[[ScriptOutcome], None],
    overdue: str = "script",
) -> None:
    """Starts `function` and returns. `done` is called once, in another thread, with what it
    returned, or with a failure for the reason `overdue` after `limit` seconds. `name` is how
    messages call it."""
    outcomes: list[ScriptOutcome] = []

    def run() -> None:
        outcomes.append(outcome_of(name, function, script, package_dir))

    def supervise() -> None:
        worker = threads.start_surely(f"tfapp-script-{name}", run)
        worker.join(limit)
        if outcomes:
            done(outcomes[0])
            return
        text = f"{script}: {name} did not return within {limit:g} s"
        stack = _own_stack(sys._current_frames().get(worker.ident or 0), package_dir)
        done(ScriptOutcome(failure=Exit(None, None, overdue, text), traceback=stack))

    threads.start_surely(f"tfapp-await-{name}", supervise)


def outcome_of(
    name: str, function: Callable[[], Any], script: Path, package_dir: Path
) -> ScriptOutcome:
    try:
        return ScriptOutcome(function())
    except ScriptError as error:
        return ScriptOutcome(failure=Exit(None, None, "start", str(error)))
    # Whatever a script raises is the user's to see, SystemExit too.
    except BaseException as error:
        text = f"{script}: {name} raised {type(error).__name__}"
        detail = str(error)
        return ScriptOutcome(
            failure=Exit(None, None, "script", f"{text}: {detail}" if detail else text),
            traceback=_own_traceback(error, package_dir),
        )


def _own_traceback(error: BaseException, package_dir: Path) -> str:
    """The traceback of a script's exception, beginning in the package's own code."""
    frame: TracebackType | None = error.__traceback__
    while frame is not None and not _is_inside(frame.tb_frame.f_code.co_filename, package_dir):
        frame = frame.tb_next
    return "".join(traceback.format_exception(type(error), error, frame))


def _own_stack(frame: FrameType | None, package_dir: Path) -> str:
    """The stack of a call into a script, as Python shows it, from the package's own code on; ""
    when the call is not in it."""
    if frame is None:
        return ""
    lines = traceback.extract_stack(frame)
    own = (i for i, line in enumerate(lines) if _is_inside(line.filename, package_dir))
    first = next(own, len(lines))
    return "".join(traceback.format_list(lines[first:]))


def _is_inside(filename: str, package_dir: Path) -> bool:
    return Path(filename).is_relative_to(package_dir)
