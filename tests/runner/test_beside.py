"""What is on its way between a command and its client."""

import fcntl
import os
import select
import socket

from tfapp.contract.channel import CHUNK, OUTPUT
from tfapp.runner.beside import Passing

F_SETPIPE_SZ = 1031  # of fcntl from Python 3.10 on


class Ended:
    """A command that has ended, and written `data` before."""

    terminal, to = False, -1

    def __init__(self, data):
        self.wakes, _ = self.pair = socket.socketpair()
        self.reads, writes = os.pipe()
        fcntl.fcntl(writes, F_SETPIPE_SZ, 2 * len(data))
        assert os.write(writes, data) == len(data)
        os.close(writes)
        self.sources = {self.reads}

    def frames(self, source, data):
        return [(OUTPUT, data)] if data else ()

    def ended(self):
        return 3

    def kill_rest(self):
        pass

    def close(self):
        os.close(self.reads)
        for end in self.pair:
            end.close()


class Slow:
    """The channel to a client that takes all at once, but only when nothing more can be held."""

    def __init__(self):
        self.got = b""
        self.waiting = bytearray()

    @property
    def full(self):
        return bool(self.waiting)

    def put(self, kind, data):
        self.waiting += data

    def take(self):
        return ()

    def wait(self, files, timeout, reads):
        if self.waiting:
            self.got += self.waiting
            self.waiting.clear()
            return {}
        poll = select.poll()
        for number in files.keys() - {0}:  # the runner lives
            poll.register(number, files[number])
        return dict(poll.poll(1000 * timeout))


def test_a_command_that_has_ended_is_read_to_its_end_however_slow_its_client_is():
    data = os.urandom(3 * CHUNK + 1)
    command, channel = Ended(data), Slow()
    assert Passing(command, channel).run([]) == 3
    channel.wait({}, 0, True)
    assert channel.got == data
    command.close()
