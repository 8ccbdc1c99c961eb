"""Run mode local: programs are processes of the container."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence

from tfapp import processes
from tfapp.runner.container import Container
from tfapp.runner.program import RunningProgram
from tfapp.script import Context, Executed, Program, ProgramMissingError, ScriptError


class ProcessMode:
    """See `tfapp.runner.run_mode.RunMode`."""

    patience = 0.0
    preparing = ""

    def __init__(self, container: Container):
        self._secrets = container.private.redact
        self._program: RunningProgram | None = None
        self._temporary: str | None = None

    def prepare(self) -> None:
        """Nothing is needed."""

    def start(self, program: Program, context: Context) -> RunningProgram:
        """See RunMode.start. The program has a TMPDIR of its own: a killed program leaves temporary
        files behind."""
        self._delete_temporary()
        env = {**context.env, **self._make_temporary(context), **program.env}
        folder = program.cwd or context.work_dir
        self._program = RunningProgram(program.argv, env, folder, self._secrets)
        return self._program

    def execute(self, context: Context, argv: Sequence[str], limit: float) -> Executed:
        """See RunMode.execute."""
        return execute(context, argv, limit)

    def kill_all(self) -> None:
        """See RunMode.kill_all."""
        program = self._program
        processes.kill_left_behind(processes.KILL_LIMIT, spare=program.pid if program else 0)
        self._delete_temporary()

    def close(self) -> None:
        """See RunMode.close."""
        self.kill_all()

    def _make_temporary(self, context: Context) -> dict[str, str]:
        try:
            self._temporary = tempfile.mkdtemp(prefix="tfapp-", dir=context.env.get("TMPDIR"))
        except OSError:
            return {}  # the program does not need one, perhaps
        return {"TMPDIR": self._temporary}

    def _delete_temporary(self) -> None:
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)


def execute(context: Context, argv: Sequence[str], limit: float) -> Executed:
    """Does `Context.execute` without an image."""
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
