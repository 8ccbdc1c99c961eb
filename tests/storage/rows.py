"""What `faults` and `hdfs_faults` share: a program with many rows, which reports on each."""

from __future__ import annotations

import contextlib
import json
import sys
import time
import traceback

import tensorflow as tf

# Names of files.
ODD = (
    *("with space", "a%b", "a%20b", "a#b", "a+b", "a?b", "a&b=c", "é日本", "~ *[x]{y}"),
    "'\";,!$@",
)


def run(rows, before=lambda: None):
    """Runs each row, and `before` before it. Prints, as JSON, what went wrong in each; "" where all
    went well."""
    wrong = {}
    for row in rows:
        begun = time.monotonic()
        before()
        try:
            row()
        except BaseException:
            wrong[row.__name__] = traceback.format_exc()
        else:
            wrong[row.__name__] = ""
        print(row.__name__, f"{time.monotonic() - begun:.1f} s", file=sys.stderr)
    print(json.dumps(wrong))


@contextlib.contextmanager
def raises(kind, *words):
    """This very class, and these words in the text."""
    try:
        yield
    except kind as error:
        for word in words:
            assert word in str(error), f"no {word!r} in: {error}"
        assert type(error) is kind
    else:
        raise AssertionError(f"no {kind.__name__}")


def write(path, content):
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(content)


def read(path):
    with tf.io.gfile.GFile(path, "rb") as file:
        return file.read()
