"""Tests an app package: what `tfapp validate` does not look at, and a run in which containers are
lost."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tfapp import tools
from tfapp.contract.names import RUNNING
from tfapp.documents import read_document
from tfapp.engines.base import Application, Engine
from tfapp.engines.control import kill_container
from tfapp.errors import BadStateError, InvalidPackageError
from tfapp.launch.caller import Caller
from tfapp.launch.follow import States, changes
from tfapp.launch.submission import Request, compile_request, load_request
from tfapp.package.find import SCHEMA_FILE
from tfapp.problems import Problem

if TYPE_CHECKING:
    from tfapp.package.model import AppPackage

SCRIPT_LIMIT = 60.0  # seconds in which a script must be loaded

_ROOT = Path(__file__).resolve().parents[2]  # where Python finds this tfapp
# Loads a script as its runner does.
_LOAD = """
import pathlib, sys
from tfapp.runner.package_script import load_script
load_script(pathlib.Path(sys.argv[1]), sys.argv[2])
"""


def findings(request: Request, caller: Caller, engine: Engine) -> Iterator[Problem]:
    """All that is wrong with a package, or may be. If it is not valid, that alone is told.
    UnavailableError if `engine` cannot be asked what it would run."""
    loaded = load_request(request)
    yield from loaded.problems
    if loaded.package is not None:
        yield from _undescribed(loaded.package)
        yield from _scripts(loaded.package, caller)
        yield from _sizes(loaded.package, request, caller, engine)


def _undescribed(package: AppPackage) -> Iterator[Problem]:
    """The keys that the package declares and does not describe."""
    if SCHEMA_FILE not in package.source.files():
        return
    label = f"{package.source.label}/{SCHEMA_FILE}"
    document, _ = read_document(label, package.source.read(SCHEMA_FILE), "json")
    assert document is not None, "it was read before"
    for key, schema in document.data.get("properties", {}).items():
        if not str(schema.get("description", "")).strip():
            at = document.key_at(("properties", key))
            hint = "say what it is and which unit it has; `tfapp schema` and editors show that"
            yield Problem(at, "no-description", f"the key {key!r} has no description", hint=hint)


def _scripts(package: AppPackage, caller: Caller) -> Iterator[Problem]:
    """The scripts that do not define their class, or cannot be loaded."""
    folder = caller.cwd / package.source.label
    if not folder.is_dir():  # an archive; a container unpacks it
        return
    components = {
        component.script: component for component in package.components if component.script
    }
    for script, component in components.items():
        command = [sys.executable, "-c", _LOAD, str(folder), script]
        try:
            done = tools.run(command, caller.environ, SCRIPT_LIMIT, _ROOT)
            said = done.reason if done.code else ""
        except tools.ToolError as error:
            said = error.reason
        if said:
            message = f"{script} cannot be loaded: {said}"
            yield Problem(component.place("commandScript"), "script-load", message)


def _sizes(
    package: AppPackage, request: Request, caller: Caller, engine: Engine
) -> Iterator[Problem]:
    """What is wrong where each component has as few instances as it may have, or one more."""
    for more in (0, 1):
        counts = {one.name: max(one.min_instances, 1) + more for one in package.components}
        most = {one.name: one.max_instances or counts[one.name] for one in package.components}
        rows = tuple((name, str(min(count, most[name]))) for name, count in counts.items())
        overrides = dataclasses.replace(request.overrides, components=rows)
        sized = dataclasses.replace(request, overrides=overrides)
        try:
            compile_request(sized, caller, engine, dry_run=True)
        except InvalidPackageError as error:
            yield from error.problems


def run_with_losses(
    engine: Engine, application: Application, lost: Sequence[str], limit: float
) -> Application | None:
    """Follows a run to its end, and kills the containers of the instances `lost`, one after
    another, each time that all programs run. None if it has not ended after `limit` seconds.
    NotFoundError for an instance that there is not, BadStateError if it ends before all are
    killed."""
    name, killed = application.name, 0
    before = ""  # the container that was killed last
    for found in changes(States(engine, name, application.run), limit):
        if found is None:
            return None
        application = found
        running = {one.instance: one.container for one in found.status.instances}
        recovered = killed == 0 or running.get(lost[killed - 1]) != before
        if killed < len(lost) and recovered and found.status.state == RUNNING:
            before = kill_container(engine, name, lost[killed])
            killed += 1
    if killed < len(lost):
        raise BadStateError(
            f"{name} ended before {lost[killed]} could lose its container",
            "Let its programs run for longer, by --option or --resopt.",
        )
    return application
