"""What must not happen, on a real S3 server behind a proxy that makes the faults: `faults.py FOLDER
[ROW ...]`. FOLDER: the server's own, where objects of the bucket `tests` are files. Prints what
`rows.run` does."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from pathlib import Path

import tensorflow as tf

import tfapp.storage
from tests.storage import proxy, rows
from tests.storage.proxy import CUT, answer, half
from tests.storage.rows import ODD, raises, read, write
from tfapp.storage import objects

gfile, errors = tf.io.gfile, tf.errors
BASE = "s3://tests"
FOLDER = Path(sys.argv[1]) / "tests"
LARGE = os.urandom(1 << 20) * 20  # is sent in three parts
FOREVER = 1000
world = proxy.Proxy(os.environ["S3_ENDPOINT"])


def asked(pattern):
    """How many requests of the last fault's time begin so."""
    return len([line for line in world.seen if line.startswith(pattern)])


@contextlib.contextmanager
def logged():
    """The lines of the plug-in's own log."""
    lines, log = [], logging.getLogger("tfapp.storage.plugin")
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    log.addHandler(handler)
    log.propagate = False
    yield lines
    log.removeHandler(handler)
    log.propagate = True


def a_busy_server():
    """503 and 429: tried again, with pauses, and an error at the end."""
    path = f"{BASE}/busy"
    write(path, b"one")
    for status, code in (("503 Slow Down", "SlowDown"), ("429 Too Many", "TooManyRequests")):
        world.times(3, "PUT", answer(status, code))
        write(path, b"two")
        assert asked("PUT") == 4
        world.times(3, "GET", answer(status, code))
        assert read(path) == b"two" and asked("GET") == 4
    world.times(3, "POST", answer("500 Internal", "InternalError"))
    write(path, LARGE)
    world.times(0, "", None)
    assert read(path) == LARGE
    short, given = "s3n://tests/busy", (objects.RETRY_LIMIT, objects.REQUEST_LIMIT)
    objects.RETRY_LIMIT, objects.REQUEST_LIMIT = 2, 1
    world.times(FOREVER, "PUT", answer("503 Slow Down", "SlowDown", "Reduce your rate"))
    with raises(errors.UnavailableError, short, "SlowDown: Reduce your rate", "try again later"):
        write(short, b"three")
    assert asked("PUT") > 2
    objects.RETRY_LIMIT, objects.REQUEST_LIMIT = given


def a_slow_server():
    """What comes late is waited for, until a deadline."""
    path = f"{BASE}/slow"
    write(path, b"slow")
    world.times(FOREVER, "(GET|HEAD)", late(1.5))
    assert read(path) == b"slow"
    world.times(FOREVER, "GET", late(5))
    short = "s3n://tests/slow"  # a_busy_server has opened this bucket, with a limit of 1 s
    with raises(errors.DeadlineExceededError, short, "timed out"):
        read(short)


def late(seconds):
    def answered(whole):
        time.sleep(seconds)
        return whole

    return answered


def a_broken_connection():
    """Half a body, no answer, and answers that are lost after the server has done it all."""
    path = f"{BASE}/broken/file"
    for lost in ("POST .*uploads", "PUT .*partNumber=2", "POST .*uploadId"):
        world.times(1, lost, lambda whole: CUT)
        write(path, LARGE)
        assert len(world.seen) >= 6, world.seen
        world.times(1, "GET", half)
        assert read(path) == LARGE and asked("GET") > 1
        world.times(1, "GET", CUT)
        assert read(path) == LARGE and asked("GET") > 1
        os.remove(FOLDER / "broken" / "file")
    for fault in (CUT, lambda whole: CUT):
        world.times(1, "PUT", fault)
        write(path, b"small")
        assert asked("PUT") == 2
        world.times(1, "PUT", fault)
        gfile.rename(path, f"{path}2")
        assert asked("PUT") == 2
        world.times(1, "POST", fault)
        gfile.remove(f"{path}2")
        assert not gfile.exists(path) and not gfile.exists(f"{path}2")


def an_upload_whose_end_is_lost():
    """The second attempt cannot know whether the first one was done."""
    path, answers = f"{BASE}/lost", iter([lambda whole: CUT])
    gone = answer("404 Not Found", "NoSuchUpload", "It is gone")
    world.fault = lambda line: (
        next(answers, gone) if line.startswith("POST") and "uploadId" in line else None
    )
    with raises(errors.AbortedError, path, "NoSuchUpload", "look whether the file is there"):
        write(path, LARGE)


def refusals():
    """Each is an error at once, with the server's words also where HEAD has none."""
    rows = (
        ("403 Forbidden", "QuotaExceeded", errors.ResourceExhaustedError, "a larger quota"),
        ("400 Bad Request", "ExpiredToken", errors.UnauthenticatedError, "a new session token"),
        ("403 Forbidden", "RequestTimeTooSkewed", errors.PermissionDeniedError, "Set the clock"),
        ("403 Forbidden", "AccessDenied", errors.PermissionDeniedError, "AWS_ACCESS_KEY_ID"),
    )
    for status, code, kind, hint in rows:
        path = f"{BASE}/refused/{code}"
        world.seen.clear()
        world.fault = lambda line, status=status, code=code: answer(
            status, code, "Says why", bare=line.startswith("HEAD")
        )
        for call in (lambda path: write(path, b"x"), gfile.stat, read):
            with raises(kind, path, f"{code}: Says why", hint):
                call(path)
        assert asked("PUT") == 1
        # TensorFlow says "no such folder" whatever it is: the log has why.
        with logged() as lines:
            assert not gfile.isdir(path)
        assert path in lines[0] and f"{code}: Says why" in lines[0], lines
    with contextlib.suppress(OSError):
        assert not os.listdir(FOLDER / "refused")


def a_quota_that_ends_in_the_middle():
    """Of a file of three parts: nothing is there, and the server has no parts of it."""
    path = f"{BASE}/middle/file"
    world.times(FOREVER, "PUT .*partNumber=2", answer("507 Insufficient Storage", "Full", "Full"))
    objects_limit = "s3n://tests/middle/file"  # tries again for 2 s
    with raises(errors.ResourceExhaustedError, objects_limit, "Full", "a larger quota"):
        write(objects_limit, LARGE)
    assert asked("DELETE") == 1
    world.times(0, "", None)
    assert not gfile.exists(path)


def a_wrong_secret():
    """As a real server says it."""
    given = os.environ["S3_SECRET_KEY"]
    os.environ["S3_SECRET_KEY"] = "wrong"
    other = "s3a://tests/secret"  # is opened here first
    for call in (lambda: write(other, b"x"), lambda: gfile.stat(other)):
        with raises(errors.PermissionDeniedError, other, "SignatureDoesNotMatch", "S3_SECRET_KEY"):
            call()
    os.environ["S3_SECRET_KEY"] = given


def no_bucket():
    for call in (lambda path: write(path, b"x"), gfile.stat, read):
        path = "s3://no-such-bucket/file"
        with raises(errors.NotFoundError, path, "NoSuchBucket", "Make the bucket first"):
            call(path)


def two_writers():
    """The last one to close has the whole file."""
    path = f"{BASE}/two"
    one, two = gfile.GFile(path, "wb"), gfile.GFile(path, "wb")
    for _ in range(10):
        one.write(b"1" * (1 << 20))
        two.write(b"2" * (2 << 20))
    two.close()
    assert read(path) == b"2" * (20 << 20)
    one.close()
    assert read(path) == b"1" * (10 << 20)


def many_files():
    """10,000, which come in pages."""
    folder = FOLDER / "many"
    folder.mkdir()
    for number in range(10_000):
        (folder / f"{number:05d}").touch()
    names = [f"{number:05d}" for number in range(10_000)]
    assert gfile.listdir(f"{BASE}/many") == names
    assert len(gfile.glob(f"{BASE}/many/*9")) == 1000
    world.seen.clear()
    gfile.rmtree(f"{BASE}/many")
    assert not gfile.exists(f"{BASE}/many") and asked("POST") == 10


def five_gigabytes():
    """Sparse. What lies beyond 4 GiB is read where it is."""
    with (FOLDER / "sparse").open("wb") as file:
        file.truncate(5 << 30)
        for place in ((4 << 30) + 10, (5 << 30) - 4):
            file.seek(place)
            file.write(b"here")
    with gfile.GFile(f"{BASE}/sparse", "rb") as file:
        assert file.size() == gfile.stat(f"{BASE}/sparse").length == 5 << 30
        for place in ((4 << 30) + 10, (5 << 30) - 4):
            file.seek(place)
            assert file.read(4) == b"here"
        assert file.read(1) == b""


def names():
    """They are the same for others, and after a copy."""
    for name in ODD:
        write(f"{BASE}/names/{name}", name.encode())
    assert sorted(os.listdir(FOLDER / "names")) == sorted(ODD)
    assert gfile.listdir(f"{BASE}/names") == sorted(ODD)
    for name in ODD:
        path = f"{BASE}/names/{name}"
        gfile.rename(path, f"{BASE}/names/in {name}/{name}")
        path = f"{BASE}/names/in {name}/{name}"
        assert read(path) == name.encode() and gfile.stat(path).length == len(name.encode())
        assert os.listdir(FOLDER / "names" / f"in {name}") == [name]
    gfile.rmtree(f"{BASE}/names")
    assert not gfile.exists(f"{BASE}/names")


def checkpoints():
    """A save that is cut at any of its requests: the newest complete one is restored."""
    folder = f"{BASE}/checkpoints"
    step, value = tf.Variable(0), tf.Variable(tf.zeros([1000]))
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(step=step, value=value), folder, 2)

    def save(fault):
        step.assign_add(1)
        value.assign(tf.fill([1000], float(step)))
        world.seen.clear()
        world.fault = fault
        try:
            manager.save(int(step))
        finally:
            world.fault = lambda line: None

    def restored():
        found = tf.Variable(-1), tf.Variable(tf.zeros([1000]))
        newest = tf.train.latest_checkpoint(folder)
        assert newest
        reading = tf.train.Checkpoint(step=found[0], value=found[1])
        reading.restore(newest).assert_consumed()
        tf.debugging.assert_equal(found[1], tf.fill([1000], float(found[0])))
        return int(found[0])

    for _ in range(3):
        save(lambda line: None)
    requests, complete = len(world.seen), restored()
    assert complete == 3
    dead = answer("403 Forbidden", "AccessDenied")
    for last in range(requests):
        left = iter(range(last))
        with contextlib.suppress(errors.OpError):
            save(lambda line, left=left: None if next(left, None) is not None else dead)
        found = restored()
        assert found in (complete, int(step)), f"{found} after {last} of {requests} requests"
        complete = found
    save(lambda line: None)
    assert restored() == int(step)
    print(requests, "requests of a save", file=sys.stderr)


def a_store_that_is_away_at_the_start():
    """TensorFlow begins anew then. What it saves must not make it forget the checkpoints that are
    there."""
    for name in ("checkpoint", "ckpt-1.index"):
        folder = f"{BASE}/away/{name}"
        there = tf.train.Checkpoint(step=tf.Variable(1))
        tf.train.CheckpointManager(there, str(FOLDER / "away" / name), 2).save()
        refused = answer("403 Forbidden", "AccessDenied")
        world.fault = lambda line, name=name, refused=refused: (
            refused if line.split()[1].endswith(f"/{name}") else None
        )
        assert tf.train.latest_checkpoint(folder) is None
        world.fault = lambda line: None
        anew = tf.train.Checkpoint(step=tf.Variable(0))
        manager = tf.train.CheckpointManager(anew, folder, 2, checkpoint_name="new")
        for save in (manager.save, lambda: write(f"{folder}/checkpoint", b"x")):  # noqa: B023
            with raises(errors.FailedPreconditionError, folder, "403 Forbidden", "Start"):
                save()
        assert tf.train.latest_checkpoint(folder) == f"{folder}/ckpt-1"
        gfile.remove(f"{folder}/checkpoint")
        manager.save()  # nothing is forgotten by that


ROWS = (a_busy_server, a_slow_server, a_broken_connection, an_upload_whose_end_is_lost, refusals,
        a_quota_that_ends_in_the_middle, a_wrong_secret, no_bucket, two_writers, many_files,
        five_gigabytes, names, checkpoints, a_store_that_is_away_at_the_start)  # fmt: skip


def main():
    chosen = [row for row in ROWS if row.__name__ in sys.argv[2:]] or ROWS
    os.environ["S3_ENDPOINT"] = world.address
    tfapp.storage.register()
    rows.run(chosen, lambda: world.times(0, "", None))


if __name__ == "__main__":
    main()
