"""The command of site.global.on.end, on the machine of who has submitted and follows."""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
import tempfile
from pathlib import Path

from tfapp import threads
from tfapp.contract.encoding import Coded
from tfapp.contract.job import Job
from tfapp.contract.on_end import COMMAND, OnEnd, told
from tfapp.disk import make_private, write_json
from tfapp.engines.base import Application, Engine
from tfapp.engines.refusals import read_if_whole
from tfapp.errors import TfappError
from tfapp.frozen import frozen
from tfapp.launch.caller import Caller

PLACE = "on-end"  # below TFAPP_HOME: a folder for each engine, a file for each application


@frozen
class Remembered(Coded):
    """The command of an application that was submitted here. `id`: that of its first run."""

    id: str = ""
    command: str = ""


def remember(caller: Caller, application: Application, job: Job) -> None:
    """Records the command of an application that was just submitted, for those who follow it here:
    no other application's is ever run. An error of the disk is told."""
    on_end = OnEnd.of(job.components[0].settings.text("on.end"))
    if on_end is None or on_end.form != COMMAND:
        forget(caller, application.engine, application.name)
        return
    place = _place(caller, application.engine, application.name)
    try:
        make_private(place.parent)
        write_json(place, Remembered(application.id, on_end.target))
    except (OSError, TfappError) as error:
        caller.note(f"warning: the command of site.global.on.end will not run: {error}")


def run_command(caller: Caller, engine: Engine, ended: Application) -> None:
    """Starts the command of an application that was submitted here and has ended, with the verdict
    as JSON on its standard input, and does not wait for it. What fails is told."""
    if ended.status.verdict is None:
        return
    with contextlib.suppress(TfappError):
        found = read_if_whole(_place(caller, engine.name, ended.name), Remembered.from_dict)
        first = ended if ended.run == 1 else engine.find(ended.name, 1)
        if found is None or found.id != first.id:
            return
        try:
            with tempfile.TemporaryFile() as verdict:
                verdict.write(json.dumps(told(ended.status, ended.id)).encode())
                verdict.seek(0)
                running = subprocess.Popen(
                    shlex.split(found.command),
                    stdin=verdict,
                    stdout=subprocess.DEVNULL,
                    cwd=caller.cwd,
                    env=dict(caller.environ),
                    start_new_session=True,
                )
            threads.start("tfapp-on-end", running.wait)
        except (OSError, ValueError) as error:
            caller.note(f"the command of site.global.on.end does not run: {error}")


def forget(caller: Caller, engine: str, name: str) -> None:
    """Deletes the record of an application that is gone."""
    with contextlib.suppress(OSError):
        _place(caller, engine, name).unlink()


def _place(caller: Caller, engine: str, name: str) -> Path:
    return caller.home / PLACE / engine / f"{name}.json"
