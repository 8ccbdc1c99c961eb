"""`tfapp` as a person uses it: commands in a folder, a TFAPP_HOME of the test's own, and what of
an application still lives."""

from __future__ import annotations

import contextlib
import getpass
import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tfapp.cli.main import Outcome, dispatch, error_boundary
from tfapp.cli.shell import Shell

LIMIT = 300  # seconds for anything that a test waits for

# What `tfapp logs --timestamps` sets before a line.
STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d"

OWN = (sys.executable, "-m", "tfapp")

PLAIN_PACKAGE = Path(__file__).parent / "packages" / "plain"


class Ended(NamedTuple):
    code: int
    out: str
    err: str


class CommandLine:
    """Calls `tfapp` in the folder `work`. `home` is TFAPP_HOME."""

    def __init__(
        self,
        work: Path,
        home: Path,
        wrapper: Sequence[str] = (),
        program: Sequence[str] = OWN,
        environ: Mapping[str, str] | None = None,
        flags: Sequence[str] = (),
    ):
        """`wrapper` is put in front of each command, as `nice` would be; `program` is `tfapp`.
        `environ` is added to the environment of each, `flags` to its words."""
        self.work = work
        self.home = home
        self._environ = {**(environ or {}), "TFAPP_HOME": str(home)}
        self._flags = flags
        self._command = (*wrapper, *program)
        self._elsewhere = self._command != OWN

    def start(
        self, *words: object, environ: Mapping[str, str] | None = None, **popen: Any
    ) -> subprocess.Popen:
        """A command that runs, in a session of its own, its outputs in pipes unless `popen`
        says otherwise. `environ` is added to its environment."""
        settings = {
            "cwd": self.work,
            "env": {**os.environ, **self._environ, **(environ or {})},
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "text": True,
            "start_new_session": True,
            **popen,
        }
        argv = [*self._command, *map(str, self._with_flags(words))]
        return subprocess.Popen(argv, **settings)

    def __call__(self, *words: object, environ: Mapping[str, str] | None = None) -> Ended:
        """A command that has ended, well or not."""
        process = self.start(*words, environ=environ)
        limit = threading.Timer(LIMIT, process.kill)
        limit.start()
        out, err = process.communicate()
        limit.cancel()
        assert "bug in tfapp" not in err, err
        return Ended(process.returncode, out, err)

    def ok(self, *words: object) -> str:
        """The standard output of a command that must succeed."""
        ended = self(*words)
        assert ended.code == 0, ended.err + ended.out
        return ended.out

    def here(self, *words: object) -> Ended:
        """A command that starts nothing, called in this process where that can be."""
        if self._elsewhere:
            return self(*words)
        return call(self._with_flags(words), {**os.environ, **self._environ}, self.work)

    def _with_flags(self, words: tuple[object, ...]) -> tuple[object, ...]:
        """Before a command of its own, as that of `tfapp exec`."""
        end = words.index("--") if "--" in words else len(words)
        return (*words[:end], *self._flags, *words[end:])

    def asks(self, *words: object) -> str:
        """The standard output of a command that starts nothing and must succeed: tests ask
        often, in this process where that can be."""
        ended = self.here(*words)
        assert ended.code == 0, ended.err + ended.out
        return ended.out

    def status(self, name: str, *flags: object) -> dict[str, Any]:
        return json.loads(self.asks("status", name, "--format", "json", *flags))

    def names(self) -> list[str]:
        listed = json.loads(self.asks("list", "--format", "json"))
        return [row["name"] for row in listed["applications"]]

    def program(self, text: str, name: str = "program.py") -> Path:
        """A program file in `work`."""
        path = self.work / name
        path.write_text(text)
        return path

    def living(self) -> list[int]:
        """Every process that was started for an application of `home`: what names `home` in its
        environment, its command or its folder."""
        mark = os.fsencode(self.home)
        return [pid for pid in processes() if any(mark in text for text in known_of(pid))]

    def left(self) -> list[int]:
        """The processes that live although every application has ended."""
        return self.living()

    def kill_living(self) -> list[int]:
        """`living`, each of which is killed."""
        found = self.living()
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return found

    def process(self, name: str, instance: str, command: str) -> int:
        """The process of application `name` that has `command` in its command line, in the
        container of `instance`; "" when it is in no instance's."""
        found = self.status(name)
        told = [b""]  # to a program, or to a runner
        if instance:
            (container,) = (
                i["container"] for i in found["status"]["instances"] if i["instance"] == instance
            )
            told = [f"TFAPP_INSTANCE={instance}\0", f"\0SKEIN_CONTAINER_ID={container}\0"]
            told = [text.encode() for text in told]
        mark = self.mark(found)
        living = [(pid, known_of(pid)) for pid in self.living()]
        (pid,) = (
            pid
            for pid, (environ, words, _) in living
            if command.encode() in words
            and mark in environ + words
            and any(text in environ for text in told)
        )
        return pid

    def mark(self, application: Mapping[str, Any]) -> bytes:
        """The text that all of an application's processes have in their environment or command."""
        return os.fsencode(self.home / "apps" / application["name"])


def call(words: Iterable[object], environ: Mapping[str, str], work: Path) -> Ended:
    """A command, called in this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    shell = Shell(
        out=out,
        err=err,
        environ=environ,
        cwd=work,
        home=Path(environ["TFAPP_HOME"]),
        user=getpass.getuser(),
        python=sys.executable,
    )
    argv, outcome = [str(word) for word in words], Outcome()
    before = os.getcwd()
    os.chdir(work)
    try:
        with error_boundary(shell, argv, outcome):
            outcome.code = dispatch(argv, shell)
    finally:
        os.chdir(before)
    written = [stream.buffer.getvalue().decode() for stream in (out, err)]
    assert "bug in tfapp" not in written[1], written[1]
    return Ended(outcome.code, *written)


def processes() -> list[int]:
    """All there are, but for this one."""
    return [
        int(folder.name)
        for folder in Path("/proc").iterdir()
        if folder.name.isdigit() and int(folder.name) != os.getpid()
    ]


def known_of(pid: int) -> tuple[bytes, bytes, bytes]:
    """Environment, command and folder of a process; empty when it has ended since."""
    folder = Path(f"/proc/{pid}")
    try:
        return (
            (folder / "environ").read_bytes(),
            (folder / "cmdline").read_bytes(),
            os.fsencode(os.readlink(folder / "cwd")),
        )
    except OSError:
        return b"", b"", b""


def read_until(process: subprocess.Popen, stream: Iterable[str], text: str) -> str:
    """The output of `process` to `stream`, up to the line with `text`. Fails when it ends before,
    or has not written it in time and is killed."""
    limit = threading.Timer(LIMIT, process.kill)
    limit.start()
    seen = ""
    try:
        for line in stream:
            seen += line
            if text in line:
                return seen
    finally:
        limit.cancel()
    raise AssertionError(f"no {text!r} in {seen!r}")
