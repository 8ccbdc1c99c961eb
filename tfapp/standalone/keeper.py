"""Runs one container on an executor: starts it, sends its output and its end to the master, and
kills all its processes on the master's order, or after their grace when the Spark task has ended.

    python3 keeper.py

The first line of standard input is the order as JSON: `id`, `attempt` (of the Spark task),
`control` (host:port of the master's control server), `files` (host:port of its file server),
`folder` (of the container, with the files crt, key and bootstrap.py) and `environment`. The end of
standard input is the end of the Spark task, and thus of its executor or the driver.

It is a subreaper: no process of the container can escape it. Standard library only, because this
file is used where tfapp is not installed.
"""

import asyncio
import contextlib
import ctypes
import json
import os
import shutil
import signal
import socket
import ssl
import struct
import sys

GO = b"go\n"
END = b"end\n"
# Frames to the master: one letter, the length in 4 bytes, and the data.
LOG, RETURNED, EXIT = b"L", b"R", b"X"
RETURNED_FILE = "tfapp-returned.json"  # tfapp.contract.names
KILL_LIMIT = 30.0  # seconds that SIGKILL may take to work
TERM_GRACE = 0.25  # seconds between SIGTERM and SIGKILL, YARN's own
CONNECT_LIMIT = 20.0  # seconds
SILENCE = 20  # seconds after which a connection to a machine that does not answer is over
CHUNK = 1 << 16
CANNOT_START_CODE = 78  # tfapp.contract.names

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def main():
    """Returns an exit code, which has no meaning: the master gets a report."""
    with open(0, "rb", buffering=0, closefd=False) as unread:  # nothing but the line
        order = json.loads(unread.readline())
    try:
        return asyncio.run(Keeper(order).keep())
    finally:
        shutil.rmtree(order["folder"], ignore_errors=True)


class Keeper:
    def __init__(self, order):
        self.order = order
        self.folder = order["folder"]
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.writer: asyncio.StreamWriter

    async def keep(self):
        try:
            reader, self.writer = await asyncio.wait_for(self.connect(), CONNECT_LIMIT)
        except (OSError, asyncio.TimeoutError) as error:
            print(f"tfapp: the application master cannot be reached: {error}", file=sys.stderr)
            return 1
        gone = asyncio.ensure_future(end_of_input())
        answer = asyncio.ensure_future(reader.readline())
        await asyncio.wait({gone, answer}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done() or answer.exception() or answer.result() != GO:
            return 0  # it was killed meanwhile, or has been started before
        if self.libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl")
        ended = await self.run(reader, gone)
        self.frame(EXIT, json.dumps(ended).encode())
        with contextlib.suppress(OSError):
            await asyncio.wait_for(self.writer.drain(), SILENCE)
            self.writer.close()
            await asyncio.wait_for(self.writer.wait_closed(), SILENCE)
        return 0

    async def connect(self):
        tls = ssl.create_default_context(cafile=os.path.join(self.folder, "crt"))
        tls.load_cert_chain(os.path.join(self.folder, "crt"), os.path.join(self.folder, "key"))
        tls.check_hostname = False  # all of an application have this one certificate
        host, _, port = self.order["control"].rpartition(":")
        reader, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=tls)
        notice_silence(writer.get_extra_info("socket"))
        hello = {"role": "container", "id": self.order["id"], "attempt": self.order["attempt"]}
        writer.write(json.dumps(hello).encode() + b"\n")
        await writer.drain()
        return reader, writer

    async def run(self, reader, gone):
        """The report on its end. `code`: the exit code as Python has it; None if it did not end by
        itself or on the master's order. `lost`: whether the Spark task ended first."""
        parts = ("bootstrap.py", "crt", "key")
        bootstrap, certificate, key = (os.path.join(self.folder, name) for name in parts)
        words = (bootstrap, self.order["files"], self.order["id"], certificate, key, self.folder)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *words,
            env=self.order["environment"],
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: self.libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0),
        )
        pump = asyncio.ensure_future(self.pump(process.stdout))
        told = asyncio.ensure_future(end_of_order(reader))
        exit = asyncio.ensure_future(process.wait())
        await asyncio.wait({exit, told, gone}, return_when=asyncio.FIRST_COMPLETED)
        lost = not exit.done() and not told.done()
        if not exit.done():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            if lost:  # the runner gives its program the whole grace, and ends
                await asyncio.wait({exit, told}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({exit}, timeout=TERM_GRACE)
        await kill_all(exit)
        with contextlib.suppress(OSError, asyncio.TimeoutError):
            await asyncio.wait_for(pump, SILENCE)
        self.send_returned()
        return {"code": exit.result() if exit.done() and not lost else None, "lost": lost}

    async def pump(self, output):
        while data := await output.read(CHUNK):
            self.frame(LOG, data)
            await self.writer.drain()

    def send_returned(self):
        """Sends the record of the return value, if there is one."""
        path = os.path.join(self.order["environment"]["LOG_DIRS"], RETURNED_FILE)
        with contextlib.suppress(OSError), open(path, "rb") as file:
            self.frame(RETURNED, file.read())

    def frame(self, kind, data):
        self.writer.write(kind + struct.pack(">I", len(data)) + data)


async def end_of_input():
    """Returns at the end of standard input."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.read(CHUNK):
        pass


async def end_of_order(reader):
    """Returns when the master orders the end, or its connection ends."""
    with contextlib.suppress(OSError):
        await reader.readline()


def notice_silence(connection):
    """Ends a connection to a machine that is gone without a word. tfapp.feed.wire has another, with
    times of its own: both files travel to where the other is not."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", SILENCE // 4),
        ("TCP_KEEPINTVL", SILENCE // 4),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", SILENCE * 1000),
    ):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


async def kill_all(exit):
    """Kills all descendants of this process, until none is left but those that may not be killed,
    which are another user's. `exit`: the end of the container's first process, for which other
    threads wait."""
    until = asyncio.get_running_loop().time() + KILL_LIMIT
    ending = [0]
    while ending and asyncio.get_running_loop().time() < until:
        # Twice: a process that forks and ends while /proc is read hides its child from that look.
        alive = alive_below(os.getpid()) or alive_below(os.getpid())
        ending = [pid for pid in alive if killed(pid)]
        if ending:
            await asyncio.sleep(0.02)
    await asyncio.wait({exit}, timeout=KILL_LIMIT)


def killed(pid):
    """Sends SIGKILL. Returns whether this process may do that."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return True


def alive_below(root):
    """The process ids of all living descendants of the process `root`."""
    return [pid for pid, state in below(root) if state != "Z"]


def below(root):
    """(pid, state) of all descendants of the process `root`."""
    children: dict[int, list[tuple[int, str]]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            children.setdefault(int(fields[1]), []).append((int(name), fields[0]))
    found, todo = [], [root]
    while todo:
        for pid, state in children.get(todo.pop(), ()):
            found.append((pid, state))
            todo.append(pid)
    return found


if __name__ == "__main__":
    sys.exit(main())
