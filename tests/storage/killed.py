"""Programs that are killed while they write: `killed.py URL TIMES`. Each is forked from this one,
which has imported TensorFlow and done nothing with it. Prints what was seen."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import traceback

import tensorflow as tf

import tfapp.storage
from tfapp.ready import ready

BASE, TIMES = sys.argv[1].rstrip("/"), int(sys.argv[2])
MIB = bytes(1 << 20)
LIMIT = 120.0  # seconds for a child


class Child:
    """A process that runs `work(say)`; `lines` has what it said."""

    def __init__(self, work):
        self._pipe, write = os.pipe()
        self.lines: list[str] = []
        self._pid = os.fork()
        if self._pid == 0:
            try:
                tfapp.storage.register()
                work(lambda *words: os.write(write, (" ".join(map(str, words)) + "\n").encode()))
                code = 0
            except BaseException:
                traceback.print_exc()
                code = 1
            sys.stderr.flush()
            os._exit(code)
        os.close(write)

    def says(self, enough):
        """Waits until there are so many lines."""
        end = time.monotonic() + LIMIT
        while len(self.lines) < enough and self._read(end - time.monotonic()):
            pass
        assert len(self.lines) >= enough, self.lines

    def kill(self):
        os.kill(self._pid, signal.SIGKILL)
        assert os.WTERMSIG(self._end()) == signal.SIGKILL

    def ends(self):
        assert self._end() == 0, self.lines
        return self.lines

    def _end(self):
        end = time.monotonic() + LIMIT
        while self._read(end - time.monotonic()):
            pass
        os.close(self._pipe)
        return os.waitpid(self._pid, 0)[1]

    def _read(self, limit):
        assert ready([self._pipe], seconds=max(0.0, limit))[0], "it hangs"
        found = os.read(self._pipe, 1 << 16).decode()
        self.lines += found.split("\n")[:-1]  # a line is written at once
        return found


def upload(say):
    """A large file, slowly, over one that is there."""
    with tf.io.gfile.GFile(f"{BASE}/old", "wb") as file:
        file.write(b"old")
    new, old = (tf.io.gfile.GFile(f"{BASE}/{name}", "wb") for name in ("new", "old"))
    for number in range(1000):
        new.write(MIB)
        old.write(MIB)
        say(number)


def nothing_half(say):
    """What others see of that, and that it can be done again."""
    gfile = tf.io.gfile
    assert not gfile.exists(f"{BASE}/new")
    assert gfile.listdir(BASE) == ["old"] and gfile.glob(f"{BASE}/*") == [f"{BASE}/old"]
    assert gfile.GFile(f"{BASE}/old").read() == "old"
    with gfile.GFile(f"{BASE}/new", "w") as file:
        file.write("new")
    assert gfile.GFile(f"{BASE}/new").read() == "new"
    gfile.rmtree(BASE)


def manager():
    step = tf.Variable(0, dtype=tf.int64)
    values = [tf.Variable(tf.zeros([300_000])) for _ in range(2)]
    checkpoint = tf.train.Checkpoint(step=step, values=values)
    return step, values, tf.train.CheckpointManager(checkpoint, f"{BASE}/checkpoints", 2)


def restored(made):
    step, values, found = made
    if found.latest_checkpoint:
        found.checkpoint.restore(found.latest_checkpoint).assert_consumed()
    for value in values:
        tf.debugging.assert_equal(value, tf.fill(value.shape, float(step)))
    return int(step)


def save(say):
    """One checkpoint after the other, from the newest on."""
    step, values, found = made = manager()
    say(restored(made))
    while True:
        step.assign_add(1)
        for value in values:
            value.assign(tf.fill(value.shape, float(step)))
        found.save(int(step))
        say(int(step))


def check(say):
    say(restored(manager()))


def main():
    child = Child(upload)
    child.says(30)
    child.kill()
    Child(nothing_half).ends()
    print("nothing half", flush=True)
    draw, last = random.Random(7), 0
    for _ in range(TIMES):
        child = Child(save)
        child.says(2 + draw.randrange(3))
        time.sleep(draw.random() * 0.3)  # the moment of the kill is any
        child.kill()
        begun, saved = int(child.lines[0]), int(child.lines[-1])
        (found,) = map(int, Child(check).ends())
        # The last one may be complete, although nobody heard of that.
        assert begun == last and found in (saved, saved + 1), (last, child.lines, found)
        last = found
    print("the newest complete checkpoint", flush=True)


if __name__ == "__main__":
    main()
