"""Ends what is left of the containers of a run whose master and its parent were lost."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

import tfapp
from tfapp import tools
from tfapp.engines.machine.folders import RunFolder
from tfapp.engines.machine.state import RunConfig
from tfapp.master.children import KILL_DEADLINE
from tfapp.master.launcher import container_id
from tfapp.processes import Process, is_guard, kill_all, with_environment, working_under

SWEEP = "tfapp.runner.docker.ownership"  # a process of its own: only runners load Docker's library
SWEEP_LIMIT = 30.0  # seconds for one engine

_ROOT = Path(tfapp.__file__).parent.parent


def find_launcher() -> tuple[str, ...]:
    """The command that ends containers together with the process that starts them, even if it is
    killed. () if util-linux does not have it (before 2.33): the processes are then ended by the
    next command that examines the run."""
    tool = shutil.which("setpriv")
    launcher = (tool or "", "--pdeathsig", "KILL", "--")
    if tool and subprocess.run([*launcher, "true"], stderr=subprocess.DEVNULL).returncode == 0:
        return launcher
    return ()


def processes_of(run: RunFolder, config: RunConfig) -> list[Process]:
    """The living processes of a run's containers, except for guards. They are found by their
    environment or their initial working directory."""
    prefix = container_id(config.application, 0)[: -len("01_000000")].encode()  # of all masters
    folder = os.fsencode(run.containers)
    told = with_environment(
        lambda env: (
            env.get(b"CONTAINER_ID", b"").startswith(prefix) and env.get(b"LOCAL_DIRS") == folder
        )
    )
    found = {*told, *working_under(str(run.containers.resolve()))}
    return [process for process in found if not is_guard(process)]


def end_leftovers(run: RunFolder, config: RunConfig, python: str) -> list[str]:
    """Ends the processes of containers of a run whose master was lost. Returns errors: a sentence
    for each Docker engine that was not asked."""
    kill_all(lambda: processes_of(run, config), KILL_DEADLINE)
    return sweep_docker(config.docker, python, config.environment)


def sweep_docker(addresses: Iterable[str], python: str, environ: Mapping[str, str]) -> list[str]:
    """Removes Docker containers whose runner and guard were killed together, or with the master,
    from the engines at `addresses`; "" is the engine that `environ` names. Returns errors: a
    sentence for each engine."""
    failures = []
    for address in addresses:
        env = {**environ, "DOCKER_HOST": address} if address else dict(environ)
        try:
            # In this folder, so that it runs this tfapp and no other.
            done = tools.run([python, "-m", SWEEP], env, SWEEP_LIMIT, _ROOT)
        except tools.ToolError as error:
            failures.append(f"the Docker engine was not asked for containers: {error.reason}")
            continue
        if done.code:
            failures.append(done.err.strip())
    return failures
