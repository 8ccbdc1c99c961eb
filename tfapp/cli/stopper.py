"""What Ctrl-C does to an application that is being followed."""

from __future__ import annotations

import signal
import threading
from types import FrameType

from tfapp.cli.shell import Shell
from tfapp.engines.base import Engine


class Stopper:
    """Takes Ctrl-C over while it is entered. The first one stops the application, the second
    one without grace, the third one is a KeyboardInterrupt: the application is on its own.

    The signal is only counted when it comes; `act` acts on it, between two writes. Where it is
    ignored, as a shell does for what it starts in the background, it stays so.
    """

    def __init__(self, shell: Shell, engine: Engine, name: str):
        self._shell, self._engine, self._name = shell, engine, name
        self.asked = 0  # how often
        self._acted = 0

    def __enter__(self) -> Stopper:
        self._before = signal.getsignal(signal.SIGINT)
        if self._before is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._count)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _count(self, number: int, frame: FrameType | None) -> None:
        self.asked += 1
        if self.asked > 2:
            raise KeyboardInterrupt

    def act(self) -> None:
        """Does what has been asked for since the last call. The stopping itself runs in a
        thread: states and output go on meanwhile."""
        if self._acted == self.asked:
            return
        self._acted = self.asked
        force = self.asked > 1
        how = "at once" if force else "(Ctrl-C once more: at once)"
        self._shell.note(f"stopping {self._name} {how}")
        threading.Thread(target=self._stop, args=(force,), daemon=True).start()

    def _stop(self, force: bool) -> None:
        try:
            self._engine.stop(self._name, "stopped by Ctrl-C", force=force)
        except Exception as error:  # in a thread of its own nobody else would say it
            self._shell.note(f"stopping {self._name}: {error}")
