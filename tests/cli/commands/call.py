"""Calling a command as the command line does, short of the process."""

from __future__ import annotations

from pathlib import Path

from tests.cli.played_engine import PlayedEngine, PlayedShell, shell
from tfapp.cli.main import Outcome, dispatch, error_boundary


def call(tmp_path: Path, engine: PlayedEngine | None, *words: str, **more):
    """The exit code of `tfapp WORDS` and the shell with what it wrote."""
    a_shell: PlayedShell = shell(tmp_path, engine, **more)
    outcome = Outcome()
    with error_boundary(a_shell, list(words), outcome):
        outcome.code = dispatch(list(words), a_shell)
    return outcome.code, a_shell
