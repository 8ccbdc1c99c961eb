"""Runs one container on an executor: starts it, sends its output and its end to the master, and
kills all its processes on the master's order, or after their grace when the Spark task has ended.

    python3 keeper.py

The first line of standard input is the order as JSON: `id`, `attempt` (of the Spark task),
`control` (host:port of the master's control server), `files` (host:port of its file server),
`folder` (of the container, with the files crt, key and bootstrap.py), `environment`, and
`patience`: the seconds for which it looks for another master when its connection ends. The end of
standard input is the end of the Spark task, and thus of its executor or the driver.

It is a subreaper: no process of the container can escape it. Standard library only, because this
file is used where tfapp is not installed.
"""

import asyncio
import collections
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

# What a master says: to begin, to go on (with the bytes of the log that it has), to end; and that
# the end is written down.
GO, GO_ON, END, NOTED = b"go\n", b"go on %d\n", b"end\n", b"noted\n"
# Frames to the master: one letter, the length in 4 bytes, and the data.
LOG, RETURNED, EXIT = b"L", b"R", b"X"
RETURNED_FILE = "tfapp-returned.json"  # tfapp.contract.names
KILL_LIMIT = 30.0  # seconds that SIGKILL may take to work
TERM_GRACE = 0.25  # seconds between SIGTERM and SIGKILL, YARN's own
CONNECT_LIMIT = 20.0  # seconds
SILENCE = 20  # seconds after which a connection to a machine that does not answer is over
AGAIN_EVERY = 0.2  # seconds between two looks for another master
CHUNK = 1 << 16
KEPT = 1 << 22  # bytes of the log, the last ones, that another master may lack
CANNOT_START_CODE = 78  # tfapp.contract.names

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def main():
    """Returns an exit code, which has no meaning: the master gets a report."""
    with open(0, "rb", buffering=0, closefd=False) as unread:  # nothing but the line
        order = json.loads(unread.readline())
    try:
        return asyncio.run(keep(order))
    finally:
        shutil.rmtree(order["folder"], ignore_errors=True)


async def keep(order):
    return await Keeper(order).keep()


class Keeper:
    def __init__(self, order):
        self.order = order
        self.folder = order["folder"]
        self.patience = order.get("patience", 0)
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter
        self.connected = asyncio.Event()
        self.log: collections.deque[bytes] = collections.deque()  # its last chunks
        self.kept = self.count = 0  # bytes of them, and of the whole log
        self.last_words = b""  # frames on its end

    async def keep(self):
        try:
            await asyncio.wait_for(self.connect(), CONNECT_LIMIT)
        except (OSError, asyncio.TimeoutError) as error:
            print(f"tfapp: the application master cannot be reached: {error}", file=sys.stderr)
            return 1
        gone = asyncio.ensure_future(end_of_input())
        answer = asyncio.ensure_future(self.may_begin())
        await asyncio.wait({gone, answer}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done() or not answer.result():
            return 0  # it was killed meanwhile, or has been started before
        if self.libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl")
        self.connected.set()
        over = asyncio.ensure_future(self.listen())
        ended = await self.run(over, gone)
        await self.tell(ended, over, gone)
        return 0

    async def may_begin(self):
        word = await self.word()
        return word == GO if word else await self.find_next(again=False)

    async def word(self):
        """What the master says; b"" at the end of the connection."""
        with contextlib.suppress(OSError):
            return await self.reader.readline()
        return b""

    async def connect(self, again=False):
        tls = ssl.create_default_context(cafile=os.path.join(self.folder, "crt"))
        tls.load_cert_chain(os.path.join(self.folder, "crt"), os.path.join(self.folder, "key"))
        tls.check_hostname = False  # all of an application have this one certificate
        host, _, port = self.order["control"].rpartition(":")
        reader, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=tls)
        notice_silence(writer.get_extra_info("socket"))
        hello = {"role": "container", "id": self.order["id"], "attempt": self.order["attempt"]}
        writer.write(json.dumps({**hello, "again": again}).encode() + b"\n")
        self.reader, self.writer = reader, writer
        await writer.drain()

    async def listen(self):
        """Returns when the master orders the end, or has noted it; or when there is no master for
        too long."""
        while True:
            if await self.word() in (END, NOTED):
                return
            self.connected.clear()
            found = await self.find_next(again=True)
            self.connected.set()
            if not found:
                return

    async def find_next(self, again):
        """Connects to another master. Returns False if there is none, or if that one does not want
        this container. `again`: whether it has begun."""
        clock = asyncio.get_running_loop().time
        until = clock() + self.patience
        while clock() < until:
            self.writer.close()
            word = b""
            with contextlib.suppress(OSError, asyncio.TimeoutError):
                await asyncio.wait_for(self.connect(again), CONNECT_LIMIT)
                word = await asyncio.wait_for(self.word(), CONNECT_LIMIT)
            if word in (GO, END):
                return word == GO
            if word.startswith(GO_ON[:6]):
                self.say_again(int(word[6:]))
                return True
            await asyncio.sleep(AGAIN_EVERY)
        return False

    def say_again(self, heard):
        """Says what the master before may not have heard. `heard`: so many bytes of the log."""
        missing = b"".join(self.log)[max(heard - (self.count - self.kept), 0) :]
        if missing:
            self.frame(LOG, missing)
        self.writer.write(self.last_words)

    async def tell(self, ended, over, gone):
        """Tells its end, until a master has noted it."""
        self.last_words = self.returned() + framed(EXIT, json.dumps(ended).encode())
        if self.connected.is_set():
            self.writer.write(self.last_words)
        if self.patience:
            await asyncio.wait({over, gone}, return_when=asyncio.FIRST_COMPLETED)
        with contextlib.suppress(OSError):
            await asyncio.wait_for(self.writer.drain(), SILENCE)
            self.writer.close()
            await asyncio.wait_for(self.writer.wait_closed(), SILENCE)

    async def run(self, over, gone):
        """The report on its end. `code`: the exit code as Python has it; None if it did not end by
        itself or on the master's order. `lost`: whether the Spark task ended first. `over`: done
        when the master has ordered the end."""
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
        exit = asyncio.ensure_future(process.wait())
        await asyncio.wait({exit, over, gone}, return_when=asyncio.FIRST_COMPLETED)
        lost = not exit.done() and not over.done()
        if not exit.done():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            if lost:  # the runner gives its program the whole grace, and ends
                await asyncio.wait({exit, over}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({exit}, timeout=TERM_GRACE)
        await kill_all(exit)
        with contextlib.suppress(OSError, asyncio.TimeoutError):
            await asyncio.wait_for(pump, SILENCE)
        return {"code": exit.result() if exit.done() and not lost else None, "lost": lost}

    async def pump(self, output):
        """Sends what comes; reads nothing while there is no master."""
        while data := await output.read(CHUNK):
            await self.connected.wait()
            self.count += len(data)
            self.kept += len(data)
            self.log.append(data)
            while self.kept > KEPT:
                self.kept -= len(self.log.popleft())
            self.frame(LOG, data)
            with contextlib.suppress(OSError):
                await self.writer.drain()

    def returned(self):
        """The record of the return value, if there is one."""
        path = os.path.join(self.order["environment"]["LOG_DIRS"], RETURNED_FILE)
        with contextlib.suppress(OSError), open(path, "rb") as file:
            return framed(RETURNED, file.read())
        return b""

    def frame(self, kind, data):
        self.writer.write(framed(kind, data))


def framed(kind, data):
    return kind + struct.pack(">I", len(data)) + data


async def end_of_input():
    """Returns at the end of standard input."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.read(CHUNK):
        pass


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
