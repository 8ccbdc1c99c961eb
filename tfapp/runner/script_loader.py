"""Loads a package's script by file location, under a name of its own.

Its folder never gets on `sys.path`: `scripts/tensorflow.py` would stand in for TensorFlow there.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from types import FrameType, TracebackType

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


def own_traceback(error: BaseException, package_dir: Path) -> str:
    """The traceback of a script's exception, beginning in the package's own code."""
    frame: TracebackType | None = error.__traceback__
    while frame is not None and not _is_inside(frame.tb_frame.f_code.co_filename, package_dir):
        frame = frame.tb_next
    return "".join(traceback.format_exception(type(error), error, frame))


def own_stack(frame: FrameType | None, package_dir: Path) -> str:
    """Where a call into a script is now, as Python shows it, beginning in the package's own
    code; "" when the call does not stand there."""
    if frame is None:
        return ""
    lines = traceback.extract_stack(frame)
    own = (i for i, line in enumerate(lines) if _is_inside(line.filename, package_dir))
    first = next(own, len(lines))
    return "".join(traceback.format_list(lines[first:]))


def _is_inside(filename: str, package_dir: Path) -> bool:
    return Path(filename).is_relative_to(package_dir)
