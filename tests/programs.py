"""Runs a program to its end, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any


def run(
    *words: object,
    environ: Mapping[str, str] | None = None,
    without: str | tuple[str, ...] = (),
    limit: float = 300.0,
    **more: Any,
) -> subprocess.CompletedProcess[str]:
    """How a command ended, and what it printed. It has `environ` besides the variables of this
    process, but for those whose names begin with `without`."""
    inherited = {name: text for name, text in os.environ.items() if not name.startswith(without)}
    return subprocess.run(
        [str(word) for word in words],
        env={**inherited, **(environ or {})},
        capture_output=True,
        text=True,
        timeout=limit,
        **more,
    )


def python(*words: object, **how: Any) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, *words, **how)


def printed(*words: object, **how: Any) -> str:
    """The standard output of a Python program, which must succeed."""
    done = python(*words, **how)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
