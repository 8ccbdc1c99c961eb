"""A runner's work before its first generation: load the package's script, let it look around."""

from __future__ import annotations

import queue
from pathlib import Path
from typing import Any

from tfapp.runner import context as contexts
from tfapp.runner import package_script
from tfapp.runner.container import Container
from tfapp.runner.events import Prepared
from tfapp.runner.package_script import ScriptOutcome, load_script
from tfapp.runner.run_mode import RunMode
from tfapp.script import Context, Script, ScriptError


class Preparation:
    """Runs beside the first words with the master, which take as long. Puts one
    `Prepared` into `events`; then `script` is there, or `traceback` when the script has one."""

    def __init__(self, container: Container, mode: RunMode):
        self.events: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.script: Script | None = None
        self.traceback = ""
        self._container = container
        self._mode = mode

    def start(self) -> None:
        """Returns at once."""
        component = self._container.component
        package_script.call(
            "prepare()",
            self._prepare,
            self._mode.patience + component.script_timeout,
            Path(component.script),
            self._container.package_dir,
            self._done,
            overdue="timeout",
        )

    def _prepare(self) -> ScriptOutcome:
        container = self._container
        loaded = package_script.outcome_of(
            "its import",
            lambda: load_script(container.package_dir, container.component.script),
            Path(container.component.script),
            container.package_dir,
        )
        if loaded.value is not None:
            self._mode.prepare()
            loaded.value.prepare(self._context())
        return loaded

    def _context(self) -> Context:
        container = self._container
        try:
            settings = contexts.take_settings(container, lambda preferred: 0)
        except ValueError as error:
            raise ScriptError(str(error)) from error
        return contexts.build_context(
            container, settings, container.generation, {}, self._mode.execute
        )

    def _done(self, supervised: ScriptOutcome) -> None:
        outcome = supervised.value if supervised.failure is None else supervised
        self.script = outcome.value
        self.traceback = outcome.traceback
        self.events.put(Prepared(outcome.failure))
