"""Runs tools of this machine, which print an answer and end, and says why one of them fails."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tfapp.frozen import frozen


class ToolError(Exception):
    """A tool that cannot be started, does not end in time or fails. The message is a sentence, and
    `reason` is its end. `errno`: the system's error number where it cannot be started, else 0."""

    def __init__(self, tool: str, reason: str, errno: int = 0):
        named = reason.startswith(f"{os.path.basename(tool)}: ")  # as curl does
        verb = "cannot be run" if errno else "fails"
        super().__init__(reason if named else f"{tool} {verb}: {reason}")
        self.reason = reason
        self.errno = errno


@frozen
class Done:
    """A tool that has ended: its exit code, its output and its errors."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode(errors="replace")

    @property
    def reason(self) -> str:
        """The last line that it has printed as an error, or at all; else the exit code."""
        return last_line(self.err) or last_line(self.text) or f"exit code {self.code}"


def last_line(text: str) -> str:
    """The last line of `text` that is not empty; "" if there is none."""
    return "".join(text.strip().splitlines()[-1:]).strip()


def run(
    words: Sequence[str],
    environ: Mapping[str, str] | None,
    limit: float,
    cwd: Path | str | None = None,
    asked: str = "",
) -> Done:
    """Runs a tool. `environ`: default: that of this process. `limit`: seconds. `asked`: its
    standard input. ToolError if it cannot be started or takes longer."""
    try:
        done = subprocess.run(
            words, env=environ, cwd=cwd, input=asked.encode(), capture_output=True, timeout=limit
        )
    except OSError as error:
        searched = isinstance(error, FileNotFoundError) and os.sep not in words[0]
        reason = "it is not on PATH" if searched else error.strerror or str(error)
        raise ToolError(words[0], reason, error.errno or 1) from error
    except subprocess.TimeoutExpired:
        raise ToolError(words[0], f"no answer within {limit:g} s") from None
    return Done(done.returncode, done.stdout, done.stderr.decode(errors="replace"))


def output(
    words: Sequence[str],
    environ: Mapping[str, str] | None,
    limit: float,
    cwd: Path | str | None = None,
) -> str:
    """Like `run`, and returns the output. ToolError also for an exit code other than 0."""
    done = run(words, environ, limit, cwd)
    if done.code:
        raise ToolError(words[0], done.reason)
    return done.text
