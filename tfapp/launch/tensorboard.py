"""The TensorBoard of an application: its own while it runs, one of this machine after its end."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from tfapp.contract.names import exported_pages
from tfapp.contract.profiles import SUFFIX
from tfapp.contract.status import ApplicationStatus
from tfapp.engines.base import Application, Checkpoints, Engine
from tfapp.engines.checkpoint_folder import FolderCheckpoints
from tfapp.errors import BadStateError, NotFoundError, TimedOutError, UnavailableError
from tfapp.frozen import frozen
from tfapp.launch.caller import Caller
from tfapp.launch.fetch import described, is_inside
from tfapp.launch.follow import States, has_ended, wait_until
from tfapp.ready import ready
from tfapp.tools import last_line

ROLE = "tensorboard"
EVENTS = ".tfevents."  # part of the name of a file that TensorBoard reads, as is SUFFIX
END = 10.0  # seconds for a TensorBoard to end by itself

# Serves until its standard input ends, as it does when this process ends in any way. TensorBoard's
# modules are not looked for in the working folder. Its first line of output is the address.
_PROGRAM = """
import sys
del sys.path[0]
try:
    from tensorboard import program
except ModuleNotFoundError as error:
    sys.exit(f"{error}; `pip install tensorboard` brings it")
board = program.TensorBoard()
board.configure(argv=["tensorboard", "--host", "127.0.0.1", "--port", "0", *sys.argv[1:]])
print(board.launch(), flush=True)
sys.stdin.read()
"""


@frozen
class TensorBoardPage:
    """A TensorBoard that runs. `address`: the URL that its instance exports."""

    instance: str
    address: str


def page_of(status: ApplicationStatus) -> TensorBoardPage | None:
    """The TensorBoard of a running application, once it serves."""
    for instance in status.instances:
        if instance.role == ROLE and status.state == "RUNNING":
            for address in exported_pages(instance.exports):
                return TensorBoardPage(instance.instance, address)
    return None


def wait_for_page(states: States, name: str, timeout: float) -> TensorBoardPage:
    """The TensorBoard of the application that `states` follows, once it runs. BadStateError when it
    has none or has ended, TimedOutError after `timeout` seconds."""

    def decided(application: Application) -> bool:
        roles = {instance.role for instance in application.status.instances}
        return page_of(application.status) is not None or ROLE not in roles

    reached = wait_until(states, decided, timeout)
    if reached is None:
        raise TimedOutError(
            f"the TensorBoard of {name} does not run after {timeout:g} s; {name} goes on",
            f"`tfapp status {name}` says what it waits for.",
        )
    page = page_of(reached.status)
    if page is not None:
        return page
    if has_ended(reached):
        raise BadStateError(
            f"{name} has ended, and its TensorBoard with it",
            f"`tfapp tensorboard {name}` opens one of this machine over its checkpoint folder.",
        )
    raise BadStateError(
        f"{name} has no TensorBoard",
        "It comes with `tfapp run --tensorboard`, `--component tensorboard 1` or, in Python, "
        "tensorboard=True.",
    )


class TensorBoard:
    """A TensorBoard on this machine. `address`: its URL; `place`: the folder that it shows."""

    def __init__(self, address: str, place: str, process: subprocess.Popen[bytes], log: Path):
        self.address, self.place = address, place
        self._process, self._log = process, log

    def wait(self) -> None:
        """Waits for the end of the process. UnavailableError, because it ends only when something
        else ends it."""
        self._process.wait()
        raise _failed(self._process, self._log)


@contextlib.contextmanager
def board_over(engine: Engine, name: str, caller: Caller, timeout: float) -> Iterator[TensorBoard]:
    """Starts a TensorBoard over the checkpoint folder of the application `name`, on this machine's
    loopback address, and ends it at the end of the block. Where this machine does not see the
    folder, it shows copies of the event files. NotFoundError where there are none, UnavailableError
    where the folder cannot be read or TensorBoard does not start, TimedOutError after `timeout`
    seconds."""
    with contextlib.ExitStack() as held:
        scratch = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="tfapp-tensorboard-")))
        with engine.checkpoints(name) as checkpoints:
            place = checkpoints.place
            shown = _event_files(checkpoints, scratch / "files", caller)
        log = scratch / "log"
        process = held.enter_context(_started(caller.python, shown, log))
        yield TensorBoard(_address(process, log, timeout), place, process, log)


def _event_files(checkpoints: Checkpoints, scratch: Path, caller: Caller) -> Path:
    """The folder itself, or `scratch` with copies of its event files."""
    events = [
        file
        for file in checkpoints.files("")
        if _is_shown(file.path.rpartition("/")[2]) and is_inside(file.path)
    ]
    if not events:
        raise NotFoundError(
            f"{checkpoints.place} has no event files, which TensorBoard shows",
            "Programs write them there, for example with Keras' callback TensorBoard.",
        )
    if isinstance(checkpoints, FolderCheckpoints):
        return Path(checkpoints.place)
    scratch.mkdir()
    caller.note(f"fetches {described(events)} of {checkpoints.place}")
    for file in events:
        checkpoints.copy(file.path, scratch)
    return scratch


def _is_shown(name: str) -> bool:
    return EVENTS in name or name.endswith(SUFFIX)


@contextlib.contextmanager
def _started(python: str, folder: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The process of a TensorBoard, which is ended at the end of the block. It does not get the
    terminal's Ctrl-C: the command that started it ends it."""
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            [python, "-c", _PROGRAM, "--logdir", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield process
        finally:
            _pipe(process.stdin).close()
            try:
                process.wait(END)
            except subprocess.TimeoutExpired:
                process.kill()


def _address(process: subprocess.Popen[bytes], log: Path, timeout: float) -> str:
    """The address that TensorBoard prints once it serves."""
    deadline, output = time.monotonic() + timeout, _pipe(process.stdout)
    while ready([output], seconds=max(deadline - time.monotonic(), 0.0))[0]:
        line = output.readline().decode(errors="replace").strip()
        if line.startswith("http"):
            return line
        if not line and process.poll() is not None:
            raise _failed(process, log)
    raise TimedOutError(f"TensorBoard does not serve after {timeout:g} s")


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None  # it was asked for
    return stream


def _failed(process: subprocess.Popen[bytes], log: Path) -> UnavailableError:
    reason = last_line(log.read_text(errors="replace")) or "it gave no reason"
    return UnavailableError(f"TensorBoard has ended with {process.returncode}: {reason}")
