"""What a session must do wherever a program runs: `tfapp exec`."""

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import termios
import time
from collections.abc import Callable
from subprocess import Popen

from tests.end_to_end.command_line import LIMIT, PLAIN_PACKAGE, CommandLine
from tests.waiting import wait
from tfapp.processes import stat
from tfapp.ready import ready

ONE = ("--appdef", PLAIN_PACKAGE, "--files", "program.py", "--component", "worker", 1)
RUNS = "import time\nprint('begins', flush=True)\ntime.sleep(600)\n"
DAEMONS = "(setsid sleep 7777 & setsid sleep 8888 &)"  # whose parent has ended
LARGE, VERY_LARGE = 20_000_000, 100_000_000  # bytes
LEAVES = f"{DAEMONS} ; exec sleep 9999"


def create(tfapp: CommandLine, *words: object) -> None:
    """An application that runs."""
    tfapp.program(RUNS)
    tfapp.ok("create", "app", *ONE, "--detach", "--wait", LIMIT, *words)
    begins(tfapp)


def begins(tfapp: CommandLine) -> None:
    wait(lambda: "begins" in tfapp.asks("logs", "app"), "it has not begun", LIMIT)


def moments(tfapp: CommandLine) -> list[str]:
    """The instances of the sessions in the timeline."""
    found = tfapp.status("app")["status"]["timeline"]
    return [one["instance"] for one in found if one["kind"] == "session"]


def sleeping(tfapp: CommandLine) -> list[int]:
    return [pid for pid in tfapp.living() if re.search(rb"^sleep\0[789]{4}\0", cmdline(pid))]


def cmdline(pid: int) -> bytes:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read()
    return b""


def check_commands(tfapp: CommandLine, missing: str, size: int = LARGE) -> None:
    """Exit codes, outputs that come apart, any bytes, `size` of them there and back. `missing`: why
    a command cannot be run that is not there."""
    command = "pwd; echo $TFAPP_INSTANCE; echo wrong >&2; exit 7"
    ended = tfapp("exec", "app", "worker/0", "--", "sh", "-c", command)
    assert (ended.code, ended.err) == (7, "wrong\n")
    assert re.fullmatch(r"/.*/work\nworker/0\n", ended.out)
    assert moments(tfapp) == ["worker/0"]

    data = os.urandom(size)
    given, got = tfapp.work / "in", tfapp.work / "out"
    given.write_bytes(data)
    with given.open("rb") as source, got.open("wb") as sink:
        cat = ("exec", "app", "worker/0", "--", "cat")
        assert tfapp.start(*cat, stdin=source, stdout=sink, stderr=None).wait(LIMIT) == 0
    assert (got.stat().st_size, got.read_bytes() == data) == (len(data), True)

    nothing = tfapp("exec", "app", "worker/0", "--", "no-such-command")
    assert nothing.code == 127
    assert nothing.err == f"tfapp: no-such-command cannot be run: {missing}\n"


def check_terminal(tfapp: CommandLine, *command: str) -> None:
    """Its size, a new size, Ctrl-C, the shell's exit code."""
    own, its = pty.openpty()
    resize(own, 33, 111)
    streams = {"stdin": its, "stdout": its, "stderr": its}
    shell = tfapp.start("exec", "app", "worker/0", *command, **streams)
    os.close(its)
    os.write(own, b"stty size; tty\n")
    assert b"/dev/pts/" in read_until(own, b"/dev/pts/")[-400:]
    os.write(own, b"stty size\n")
    read_until(own, b"33 111")
    resize(own, 44, 222)
    shell.send_signal(signal.SIGWINCH)
    # What is typed before the size has come is no mistake: it is asked again.
    os.write(own, b"until stty size | grep '^44 222'; do sleep 0.1; done; echo $((6*7))be\n")
    read_until(own, b"42be")
    os.write(own, b"sleep 9999; echo after $?\n")
    wait(lambda: sleeping(tfapp), "it does not sleep", LIMIT)
    os.write(own, b"\x03")
    os.write(own, b"echo inter$((20+2))\n")
    read_until(own, b"inter22")
    assert sleeping(tfapp) == []
    os.write(own, b"exit 5\n")
    assert shell.wait(LIMIT) == 5
    os.close(own)


def check_end(tfapp: CommandLine, kill: Callable[[Popen], object]) -> None:
    """Nothing that a session has started is left after `kill`, which gets the client."""
    with tfapp.start("exec", "app", "worker/0", "--", "sh", "-c", LEAVES) as client:
        try:
            wait(lambda: len(sleeping(tfapp)) == 3, "not all sleep", LIMIT)
            kill(client)
            client.communicate(timeout=LIMIT)
        finally:
            client.kill()  # where one of them has failed
    assert client.returncode != 0
    wait(lambda: not sleeping(tfapp), "something is left", LIMIT)


def check_what_ends(tfapp: CommandLine) -> None:
    """The client, well or not, and the process that serves it."""
    check_end(tfapp, lambda client: client.kill())
    check_end(tfapp, lambda client: client.terminate())
    check_end(tfapp, lambda client: os.kill(server(tfapp), signal.SIGKILL))


def check_end_of_runner(tfapp: CommandLine) -> None:
    check_end(tfapp, lambda client: os.kill(stat(server(tfapp)).parent, signal.SIGKILL))


def server(tfapp: CommandLine) -> int:
    """The process that serves the only session."""
    (pid,) = (pid for pid in tfapp.living() if b"tfapp.runner.session" in cmdline(pid))
    return pid


def read_until(terminal: int, text: bytes, limit: float = 60.0) -> bytes:
    found, end = b"", time.monotonic() + limit
    while text not in found:
        assert time.monotonic() < end, found
        if ready([terminal], seconds=1.0)[0]:
            found += os.read(terminal, 1 << 16)
    return found


def resize(terminal: int, rows: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
