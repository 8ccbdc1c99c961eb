"""Runs the program that a Python call has shipped for a component, and records its return value."""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import linecache
import os
import pickle
import runpy
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from tfapp.errors import TfappError
from tfapp.program import returned
from tfapp.program.context import Context, accepts_context
from tfapp.program.experiment import (
    Experiment,
    KerasExperiment,
    makes_strategy,
    returns,
    trains_on_jax,
)

CALL_FILE = "call.json"
_OWN = str(Path(__file__).parent)


class UnloadableError(Exception):
    """The program cannot be loaded here, or call.json is wrong. The message is one sentence."""


def main(folder: str, environ: Mapping[str, str]) -> int:
    """Runs the program of the component in `environ`, as described by `folder`/call.json. Returns
    the exit code; 1 if the program raised an exception, whose traceback is printed to standard
    error."""
    try:
        return _run(Path(folder), environ)
    except (UnloadableError, TfappError) as error:
        return _refuse(error)
    except Exception as error:
        _show(error)
        _tell_missed(error, environ)
        return 1


def _run(folder: Path, environ: Mapping[str, str]) -> int:
    call = json.loads((folder / CALL_FILE).read_bytes())
    component = environ.get("TFAPP_COMPONENT", "")
    program = call["components"].get(component)
    if program is None:
        raise UnloadableError(f"the call has no program for component {component!r}")
    if program["kind"] == "module":
        _run_module(program["module"])
        return 0
    # What an earlier generation returned is no result of this one.
    Path(environ["TFAPP_LOG_DIR"], returned.FILE).unlink(missing_ok=True)
    function = _load(folder, program, call["python"])
    context = Context.from_environ(environ)
    value = _returned(function, context)
    returned.write(value, bool(call.get("pickles")), environ)
    return 0


def _run_module(name: str) -> None:
    sys.argv[0] = name
    try:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    except ImportError as error:
        if _users_part(error.__traceback__) is None:
            raise UnloadableError(f"there is no module {name} to run: {error}") from None
        raise


def _returned(function: Callable[..., Any], context: Context) -> Any:
    """The value to return to the caller for a call of `function`."""
    call = functools.partial(function, context) if accepts_context(function) else function
    if trains_on_jax(function):
        from tfapp.program import keras_jax

        return keras_jax.run(call, context)
    if returns(function, KerasExperiment):
        from tfapp.program import keras

        return keras.run(call, context, makes_strategy(function))
    try:
        made = call()
    except (AttributeError, ImportError) as error:
        _explain(error)
        raise
    if isinstance(made, Experiment):
        from tfapp.program import estimator

        return estimator.run(made, context)
    if isinstance(made, KerasExperiment):
        from tfapp.program import keras

        return keras.train(made, context)
    return made


def _explain(error: Exception) -> None:
    """Adds to a traceback that Estimators are missing, if that is the cause."""
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None or hasattr(tensorflow, "estimator"):
        return
    from tfapp.program import estimator

    said = estimator.missed(error, tensorflow.__version__)
    if said is not None:
        _show(error)
        raise said from None


# ---- Loading ---------------------------------------------------------------------------------
def _load(folder: Path, program: Mapping[str, Any], python: list[int]) -> Callable[..., Any]:
    """The function to call. UnloadableError if it cannot be loaded."""
    if program["kind"] == "function":
        found = _named(program["module"], program["function"])
        args, kwargs = program.get("args", ()), program.get("kwargs", {})
        return functools.partial(found, *args, **kwargs) if args or kwargs else found
    if list(sys.version_info[:2]) != list(python):
        mine, theirs = (".".join(map(str, version[:2])) for version in (sys.version_info, python))
        raise UnloadableError(
            f"the program was pickled by Python {theirs} and this is Python {mine}, which reads "
            f'other bytecode; submit it from Python {mine}, give python="{theirs}", or name a '
            "function of a module"
        )
    _keep_sources(program.get("sources", {}))
    try:
        return pickle.loads((folder / program["file"]).read_bytes())
    except ModuleNotFoundError as error:
        if _users_part(error.__traceback__) is not None:
            raise
        raise UnloadableError(
            f"the program needs module {error.name}, which is not installed here; add it with "
            "packages= or files="
        ) from None
    except Exception as error:
        if _users_part(error.__traceback__) is not None:
            raise
        raise UnloadableError(
            f"{program['name']} cannot be read back from its pickle: {type(error).__name__}: "
            f"{error}"
        ) from None


def _keep_sources(sources: Mapping[str, Mapping[str, str]]) -> None:
    """Puts lines of files, by number, where tracebacks look for them: the files are the caller's,
    or cells of a notebook."""
    for file, known in sources.items():
        lines = [known.get(str(number), "\n") for number in range(1, max(map(int, known)) + 1)]
        linecache.cache[file] = sum(map(len, lines)), None, lines, file


def _named(module: str, function: str) -> Callable[..., Any]:
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if _users_part(error.__traceback__) is not None:
            raise
        raise UnloadableError(
            f"there is no module {error.name}; add it with files= or packages="
        ) from None
    for part in function.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise UnloadableError(f"module {module} has no function {function}")
    return found


# ---- What went wrong -------------------------------------------------------------------------
def _refuse(error: Exception) -> int:
    hint = getattr(error, "hint", "")
    print(f"tfapp: {error}{f' ({hint})' if hint else ''}", file=sys.stderr, flush=True)
    return 1


def _show(error: BaseException) -> None:
    """Prints the traceback from the first line of the user's code on."""
    sys.stdout.flush()
    part = _users_part(error.__traceback__) or error.__traceback__
    traceback.print_exception(type(error), error, part, file=sys.stderr)
    sys.stderr.flush()


def _tell_missed(error: Exception, environ: Mapping[str, str]) -> None:
    """Tells the runner which file or module the program has not found, as far as its exception
    knows that: `tfapp.contract.exit.Exit.missed`."""
    missed: Any = None
    if isinstance(error, FileNotFoundError):
        missed = error.filename
    elif isinstance(error, ModuleNotFoundError):
        missed = error.name and error.name.replace(".", "/")
    with contextlib.suppress(KeyError, OSError, TypeError):
        Path(environ["TFAPP_MISSED_FILE"]).write_bytes(os.fsencode(missed))


def _users_part(found: TracebackType | None) -> TracebackType | None:
    """The part of a traceback from the first file on that belongs to neither tfapp nor the import
    system; None if there is none."""
    while found is not None and _is_machinery(found.tb_frame.f_code.co_filename):
        found = found.tb_next
    return found


def _is_machinery(file: str) -> bool:
    return (
        file.startswith((_OWN, "<frozen "))
        or file in (importlib.__file__, runpy.__file__)
        or Path(file).parent.name == "cloudpickle"
    )
