"""Removes Docker containers whose runner and guard were killed together, or with the master."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

import tfapp

SWEEP = "tfapp.runner.docker.ownership"  # a process of its own: only runners load Docker's library
SWEEP_LIMIT = 30.0  # seconds for one engine

_ROOT = Path(tfapp.__file__).parent.parent


def sweep(addresses: Iterable[str], python: str, environ: Mapping[str, str]) -> list[str]:
    """Removes them from the Docker engines at `addresses`; "" is the engine that `environ` names.
    Returns errors: a sentence for each engine."""
    failures = []
    for address in addresses:
        env = {**environ, "DOCKER_HOST": address} if address else dict(environ)
        try:
            done = subprocess.run(
                [python, "-m", SWEEP],
                cwd=_ROOT,  # so that it runs this tfapp and no other
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=SWEEP_LIMIT,
            )
        except subprocess.TimeoutExpired:
            failures.append(f"the Docker engine did not answer within {SWEEP_LIMIT:g} s")
            continue
        if done.returncode:
            failures.append(done.stderr.strip())
    return failures
