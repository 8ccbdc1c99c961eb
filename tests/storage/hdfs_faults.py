"""What must not happen, on a real HDFS: `hdfs_faults.py URL NAMENODE`. NAMENODE: its process, which
is stopped for a while. Prints what `rows.run` does."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import tensorflow as tf

import tfapp.storage
from tests import programs
from tests.storage import rows
from tests.storage.rows import ODD, raises, read, write
from tfapp import threads
from tfapp.storage import hdfs

gfile, errors = tf.io.gfile, tf.errors
BASE, NAMENODE = sys.argv[1].rstrip("/"), int(sys.argv[2])
ADDRESS, FOLDER = re.fullmatch(r"hdfs://([^/]+)(/.*)", BASE).groups()
MIB = 1 << 20


def command(*words):
    subprocess.run(["hdfs", *words], check=True, capture_output=True, text=True)


def listed(folder):
    """All names there, also those that tfapp leaves out."""
    import hdfs_native

    client = hdfs_native.Client(f"hdfs://{ADDRESS}")
    return sorted(one.path.rpartition("/")[2] for one in client.list_status(f"{FOLDER}/{folder}"))


@contextlib.contextmanager
def away(seconds):
    """The NameNode stops for so long, from now on."""
    os.kill(NAMENODE, signal.SIGSTOP)
    timer = threading.Timer(seconds, os.kill, (NAMENODE, signal.SIGCONT))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        os.kill(NAMENODE, signal.SIGCONT)


def a_namenode_that_is_away():
    """For 60 s. Calls wait and go on, also those of a file that is open. At the deadline they are
    errors."""
    write(f"{BASE}/away/there", b"there")
    file = gfile.GFile(f"{BASE}/away/open", "wb")
    file.write(bytes(2 * MIB))
    begun = time.monotonic()
    with away(60):
        write(f"{BASE}/away/new", b"new")
        assert time.monotonic() - begun > 59
    file.write(bytes(2 * MIB))
    file.close()
    assert gfile.listdir(f"{BASE}/away") == ["new", "open", "there"]
    assert read(f"{BASE}/away/open") == bytes(4 * MIB)
    store = hdfs.Hdfs(limit=1)
    store.stat(BASE)
    with away(60):
        try:
            store.stat(BASE)
        except hdfs.Failed as error:
            assert error.code == tf.errors.DEADLINE_EXCEEDED and "within 1 s" in str(error)
        else:
            raise AssertionError("an answer")
    assert store.stat(BASE).is_folder


def a_namenode_that_has_just_started():
    """It changes nothing yet: what is asked for is asked again."""
    command("dfsadmin", "-fs", f"hdfs://{ADDRESS}", "-safemode", "enter")
    leave = ("dfsadmin", "-fs", f"hdfs://{ADDRESS}", "-safemode", "leave")
    timer = threading.Timer(1, command, leave)
    timer.start()
    write(f"{BASE}/safe/file", b"safe")
    gfile.rename(f"{BASE}/safe/file", f"{BASE}/safe/other")
    timer.join()
    assert read(f"{BASE}/safe/other") == b"safe"


class Cut:
    """A way to the NameNode on which the answer to one kind of call is lost."""

    def __init__(self):
        host, _, port = ADDRESS.rpartition(":")
        self._server, self._listening = (host, int(port)), socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self.method, self.calls = b"", 0
        threads.start("cut", self._accept)

    def _accept(self):
        while True:
            client, _ = self._listening.accept()
            server = socket.create_connection(self._server)
            lost = threading.Event()
            threads.start("up", self._pass, client, server, lost, True)
            threads.start("down", self._pass, server, client, lost, False)

    def _pass(self, source, target, lost, up):
        with contextlib.suppress(OSError):
            while content := source.recv(1 << 16):
                if up and self.method and self.method in content:
                    self.calls += 1
                    lost.set()
                if lost.is_set() and not up:
                    break
                target.sendall(content)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


def an_answer_that_is_lost():
    """What may have been done is done once: it is an error, and never tried again. Looks are."""
    cut = Cut()
    base = BASE.replace(ADDRESS, cut.address) + "/cut"
    write(f"{base}/file", b"there")
    calls = (
        (b"create", lambda: write(f"{base}/file", b"new")),
        (b"addBlock", lambda: write(f"{base}/file", b"new")),
        (b"complete", lambda: write(f"{base}/file", b"new")),
        (b"mkdirs", lambda: gfile.mkdir(f"{base}/folder")),
    )
    for method, call in calls:
        cut.method, cut.calls = method, 0
        with raises(errors.UnavailableError, base, "it may have been done or not"):
            call()
        assert cut.calls == 1, method
        cut.method = b""
        assert read(f"{base}/file") == b"there"
        left = [name for name in listed("cut") if name not in ("file", "folder")]
        # A create whose answer is lost leaves a name that nobody knows of.
        assert len(left) <= 1, left
    cut.method, cut.calls = b"rename2", 0
    with raises(errors.UnavailableError, base, "it may have been done or not"):
        write(f"{base}/file", b"new")
    assert cut.calls == 1
    cut.method = b""
    assert read(f"{base}/file") == b"new"  # it was done, and it is whole
    store = hdfs.Hdfs(limit=2)
    cut.method = b"getFileInfo"
    with contextlib.suppress(hdfs.Failed):  # each attempt is cut
        store.stat(f"{base}/file")
    assert cut.calls > 2


def a_full_quota():
    """Nothing is left that counts against it."""
    gfile.makedirs(f"{BASE}/quota")
    command("dfsadmin", "-fs", f"hdfs://{ADDRESS}", "-setSpaceQuota", "150m", f"{FOLDER}/quota")
    with raises(errors.ResourceExhaustedError, f"{BASE}/quota/large", "DSQuotaExceeded", "larger"):
        write(f"{BASE}/quota/large", bytes(200 * MIB))
    assert listed("quota") == []
    write(f"{BASE}/quota/small", b"small")
    assert read(f"{BASE}/quota/small") == b"small"


def a_folder_of_somebody_else():
    program = (
        "import sys, tensorflow as tf, tfapp.storage\n"
        "from tests.storage.rows import write\n"
        "tfapp.storage.register()\n"
        "for call in (write, tf.io.gfile.makedirs):\n"
        "    try:\n"
        "        call(sys.argv[1], *[b'x'][:call is write])\n"
        "    except tf.errors.PermissionDeniedError as error:\n"
        "        assert sys.argv[1] in str(error), error\n"
        "        assert 'AccessControlException: Permission denied: user=somebody' in str(error)\n"
        "        assert 'Use a folder that is yours, or ask its owner' in str(error)\n"
        "    else:\n"
        "        raise AssertionError(call)\n"
    )
    gfile.makedirs(f"{BASE}/mine")
    programs.printed("-c", program, f"{BASE}/mine/theirs", environ={"HADOOP_USER_NAME": "somebody"})
    assert gfile.listdir(f"{BASE}/mine") == []


def two_writers():
    """The last one to close has the whole file."""
    path = f"{BASE}/two"
    one, two = gfile.GFile(path, "wb"), gfile.GFile(path, "wb")
    for _ in range(4):
        one.write(b"1" * MIB)
        two.write(b"2" * (2 * MIB))
    two.close()
    assert read(path) == b"2" * (8 * MIB)
    one.close()
    assert read(path) == b"1" * (4 * MIB)


def many_files():
    """10,000, which come in pages."""
    import hdfs_native

    client = hdfs_native.AsyncClient(f"hdfs://{ADDRESS}")

    async def make(number):
        async with await client.create(f"{FOLDER}/many/{number:05d}"):
            pass

    async def make_all():
        for begin in range(0, 10_000, 100):
            await asyncio.gather(*(make(number) for number in range(begin, begin + 100)))

    asyncio.run(make_all())
    assert gfile.listdir(f"{BASE}/many") == [f"{number:05d}" for number in range(10_000)]
    assert len(gfile.glob(f"{BASE}/many/*99")) == 100
    gfile.rmtree(f"{BASE}/many")


def names():
    """They are the same for others. A colon is refused by HDFS itself."""
    for name in ODD:
        write(f"{BASE}/names/{name}", name.encode())
    assert gfile.listdir(f"{BASE}/names") == listed("names") == sorted(ODD)
    for name in ODD:
        gfile.rename(f"{BASE}/names/{name}", f"{BASE}/names/{name}.2")
        assert read(f"{BASE}/names/{name}.2") == name.encode()
    with raises(errors.InvalidArgumentError, f"{BASE}/names/a:b", "no names with a colon"):
        write(f"{BASE}/names/a:b", b"x")


ROWS = (a_namenode_that_is_away, a_namenode_that_has_just_started, an_answer_that_is_lost,
        a_full_quota, a_folder_of_somebody_else, two_writers, many_files, names)  # fmt: skip


if __name__ == "__main__":
    tfapp.storage.register()
    rows.run(ROWS)
