"""Ends in the middle of a pipeline over remote files: `leaving.py URL HOW [TIMES]`. TensorFlow
reads on and on, also after errors, and a writer is open.

With TIMES, a process that has imported TensorFlow is forked so often; HOW is "all" then, and they
end in each way in turn. It prints as JSON how they did."""

import collections
import json
import os
import signal
import sys
import threading
import time

import tensorflow as tf

import tfapp.storage

ENDS = {
    "exit": 3,
    "raise": 1,
    "at once": 4,
    "signal": -signal.SIGTERM,
    "last line": 0,
    "iterator deleted": 0,
    "in a thread": 5,
}
LIMIT = 120.0  # seconds for a forked one
open_to_the_end = []


def make(base):
    if not tf.io.gfile.exists(f"{base}/0"):
        for number in range(8):
            with tf.io.TFRecordWriter(f"{base}/{number}") as writer:
                for _ in range(500):
                    writer.write(bytes(1000))


def leave(base, how):
    tfapp.storage.register()  # after TensorFlow is imported
    make(base)
    files = tf.data.Dataset.list_files(f"{base}/?").repeat()
    records = files.interleave(tf.data.TFRecordDataset, 8, num_parallel_calls=8).ignore_errors()
    iterator = iter(records.batch(100).prefetch(50))
    for _ in range(3):
        next(iterator)
    summaries = tf.summary.create_file_writer(f"{base}/summaries")
    open_to_the_end.append(summaries)
    with summaries.as_default():
        tf.summary.scalar("loss", 1.0, step=1)
    print("leaves", flush=True)
    if how == "iterator deleted":
        del iterator
        return
    open_to_the_end.append(iterator)
    if how == "in a thread":
        threading.Thread(target=lambda: collections.deque(iterator, 0), daemon=True).start()
        sys.exit(5)
    if how == "raise":
        raise ValueError("as asked for")
    if how == "exit":
        sys.exit(3)
    if how == "at once":
        os._exit(4)
    if how == "signal":
        os.kill(os.getpid(), signal.SIGTERM)


def ended(pid):
    """The exit code of a child; "hangs" if it has none in time."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "hangs"


def main():
    base, how, *times = sys.argv[1:]
    if not times:
        leave(base, how)
        return
    kinds = list(ENDS)
    seen = {kind: collections.Counter() for kind in kinds}
    for number in range(int(times[0])):
        kind = kinds[number % len(kinds)]
        pid = os.fork()
        if pid == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            leave(base, kind)
            return  # to the end of Python
        code = ended(pid)
        seen[kind]["right" if code == ENDS[kind] else str(code)] += 1
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
