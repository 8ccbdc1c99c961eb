"""Run mode local: programs are processes of the container."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from tfapp.runner import process_tree
from tfapp.runner.container import Container
from tfapp.runner.program import RunningProgram
from tfapp.script import Context, Executed, Program, ProgramMissingError, ScriptError


class ProcessMode:
    """See `tfapp.runner.run_mode.RunMode`."""

    patience = 0.0

    def __init__(self, container: Container):
        self._secrets = container.private.redact
        self._program: RunningProgram | None = None

    def prepare(self) -> None:
        """Nothing is needed."""

    def start(self, program: Program, context: Context) -> RunningProgram:
        """See RunMode.start."""
        env = {**context.env, **program.env}
        folder = program.cwd or context.work_dir
        self._program = RunningProgram(program.argv, env, folder, self._secrets)
        return self._program

    def execute(self, context: Context, argv: Sequence[str], limit: float) -> Executed:
        """See RunMode.execute."""
        return execute(context, argv, limit)

    def kill_all(self) -> None:
        """See RunMode.kill_all."""
        program = self._program
        process_tree.kill_all(process_tree.KILL_LIMIT, spare=program.pid if program else 0)

    def close(self) -> None:
        """See RunMode.close."""
        self.kill_all()


def execute(context: Context, argv: Sequence[str], limit: float) -> Executed:
    """What `Context.execute` does without an image."""
    try:
        done = subprocess.run(
            argv,
            env=dict(context.env),
            cwd=context.work_dir,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit,
        )
    except OSError as error:
        raise ProgramMissingError(f"{argv[0]} cannot be run: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise ScriptError(f"{argv[0]} has not answered within {limit:g} s") from error
    code = done.returncode if done.returncode >= 0 else None
    return Executed(code, done.stdout, done.stderr)
