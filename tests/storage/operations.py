"""What TensorFlow does with files, on a file system of tfapp.storage: `operations.py URL`. Tests
run it as a process of its own. It prints the names of what is done."""

from __future__ import annotations

import contextlib
import os
import sys
import time

import tfapp.storage

tfapp.storage.register()  # before TensorFlow is imported

import tensorflow as tf  # noqa: E402

BASE = sys.argv[1].rstrip("/")
OBJECTS = BASE.startswith(("s3", "abfs"))
gfile, errors = tf.io.gfile, tf.errors


@contextlib.contextmanager
def raises(kind, words=""):
    try:
        yield
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"no {kind.__name__}")


def write(path, content):
    with gfile.GFile(path, "w") as file:
        file.write(content)


def read(path):
    with gfile.GFile(path) as file:
        return file.read()


def files():
    folder = f"{BASE}/files"
    gfile.makedirs(folder)
    assert gfile.isdir(folder) and gfile.exists(folder)
    odd = f"{folder}/with space, % and # é.txt"
    for path in (f"{folder}/a.txt", odd):
        write(path, "hello\nworld\n")
        assert read(path) == "hello\nworld\n"
        assert gfile.stat(path).length == 12
        assert abs(gfile.stat(path).mtime_nsec / 1e9 - time.time()) < 300
        assert not gfile.isdir(path)
    write(f"{folder}/empty", "")
    assert read(f"{folder}/empty") == ""
    assert gfile.listdir(folder) == ["a.txt", "empty", odd.rpartition("/")[2]]
    assert gfile.glob(f"{folder}/*.txt") == [f"{folder}/a.txt", odd]
    assert [place for place, _, _ in gfile.walk(BASE)] == [BASE, folder]
    gfile.copy(odd, f"{folder}/b.txt")
    with raises(errors.AlreadyExistsError):
        gfile.rename(f"{folder}/b.txt", f"{folder}/a.txt")
    write(f"{folder}/b.txt", "b")
    gfile.rename(f"{folder}/b.txt", f"{folder}/a.txt", overwrite=True)
    assert read(f"{folder}/a.txt") == "b" and not gfile.exists(f"{folder}/b.txt")
    gfile.rename(folder, f"{BASE}/renamed")
    assert not gfile.exists(folder) and gfile.exists(f"{BASE}/renamed/empty")
    gfile.remove(f"{BASE}/renamed/empty")
    gfile.rmtree(f"{BASE}/renamed")
    assert not gfile.exists(f"{BASE}/renamed")


def large_files():
    path, content = f"{BASE}/large", os.urandom(1 << 20) * 21
    with gfile.GFile(path, "wb") as file:
        file.write(content)
        assert not gfile.exists(path)  # before it is closed
    with gfile.GFile(path, "rb") as file:
        assert file.size() == len(content)
        for place in (0, 5 << 20, 100, len(content) - 10):
            file.seek(place)
            assert file.read(50) == content[place : place + 50]
        file.seek(0)
        assert file.read() == content


def append():
    write(f"{BASE}/appended", "one")
    if OBJECTS:
        with raises(errors.UnimplementedError, "cannot append"):
            gfile.GFile(f"{BASE}/appended", "a").write("two")
    else:
        with gfile.GFile(f"{BASE}/appended", "a") as file:
            file.write("two")
        assert read(f"{BASE}/appended") == "onetwo"


def mistakes():
    missing, folder = f"{BASE}/none", f"{BASE}/folder"
    write(f"{folder}/file", "x")
    for call in (gfile.stat, gfile.remove, gfile.listdir, gfile.rmtree, read):
        with raises(errors.NotFoundError, missing):
            call(missing)
    assert not gfile.exists(missing) and not gfile.isdir(missing)
    with raises(errors.FailedPreconditionError, "this is a folder"):
        read(folder)
    with raises((errors.NotFoundError, errors.FailedPreconditionError)):
        gfile.remove(folder)
    if BASE.startswith("s3"):
        with raises(errors.NotFoundError, "NoSuchBucket"):
            read("s3n://no-such-bucket/file")
        with raises(errors.NotFoundError, "NoSuchBucket"):
            write("s3a://no-such-bucket/file", "x")


def checkpoints():
    folder = f"{BASE}/checkpoints"
    value = tf.Variable(tf.random.normal([1000, 1000]))
    checkpoint = tf.train.Checkpoint(value=value, step=tf.Variable(0))
    manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=2)
    for _ in range(3):
        checkpoint.step.assign_add(1)
        manager.save()
    assert tf.train.latest_checkpoint(folder) == f"{folder}/ckpt-3"
    saved = value.numpy()
    value.assign(tf.zeros_like(value))
    checkpoint.restore(manager.latest_checkpoint).assert_consumed()
    assert (value.numpy() == saved).all() and int(checkpoint.step) == 3
    assert sum(name.endswith(".index") for name in gfile.listdir(folder)) == 2


def records():
    for number in range(4):
        with tf.io.TFRecordWriter(f"{BASE}/records/{number}") as writer:
            for one in range(1000):
                writer.write(b"%d-%d" % (number, one) + bytes(500))
    found = tf.data.Dataset.list_files(f"{BASE}/records/*")
    found = found.interleave(tf.data.TFRecordDataset, 4, num_parallel_calls=4).prefetch(10)
    assert len({bytes(one.numpy()[:10]) for one in found}) == 4000
    iterator = iter(found.repeat())
    next(iterator)
    del iterator


def models():
    model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(2)])
    tf.saved_model.save(model, f"{BASE}/saved")
    assert tf.saved_model.load(f"{BASE}/saved").signatures["serving_default"]
    model.save(f"{BASE}/model.keras")
    assert tf.keras.models.load_model(f"{BASE}/model.keras").count_params() == 10


def callbacks():
    """Of Keras: the best model so far, and a backup from which a second `fit` goes on."""

    class Stop(tf.keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            seen.append(epoch)
            if seen == [0, 1]:
                raise KeyboardInterrupt

    seen = []
    for _ in range(2):
        model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        best = tf.keras.callbacks.ModelCheckpoint(f"{BASE}/best/{{epoch}}.keras", monitor="loss")
        backup = tf.keras.callbacks.BackupAndRestore(f"{BASE}/backup")
        x = tf.ones([8, 4])
        with contextlib.suppress(KeyboardInterrupt):
            model.fit(x, x[:, :1], epochs=3, verbose=0, callbacks=[best, backup, Stop()])
    assert seen == [0, 1, 1, 2], seen
    assert gfile.listdir(f"{BASE}/best") == ["1.keras", "2.keras", "3.keras"]
    assert tf.keras.models.load_model(f"{BASE}/best/3.keras").count_params() == 5


def summaries():
    writer = tf.summary.create_file_writer(f"{BASE}/summaries")
    with writer.as_default():
        tf.summary.scalar("loss", 1.0, step=1)
        writer.flush()
        (name,) = gfile.listdir(f"{BASE}/summaries")
        path = f"{BASE}/summaries/{name}"
        before = sum(1 for _ in tf.data.TFRecordDataset(path))
        tf.summary.scalar("loss", 2.0, step=2)
    writer.close()
    assert before >= 1
    assert sum(1 for _ in tf.data.TFRecordDataset(path)) == 3


def other_libraries():
    system = tfapp.storage.fsspec(BASE)
    write(f"{BASE}/other", "from TensorFlow")
    with system.open(f"{BASE}/other", "rb") as file:
        assert file.read() == b"from TensorFlow"
    with system.open(f"{BASE}/another", "wb") as file:
        file.write(b"from fsspec")
    assert read(f"{BASE}/another") == "from fsspec"


def forked():
    child = os.fork()
    if child == 0:
        with raises(errors.FailedPreconditionError, "spawn"):
            gfile.exists(BASE)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def main():
    if gfile.exists(BASE):
        gfile.rmtree(BASE)
    steps = (files, large_files, append, mistakes, checkpoints, records, models, callbacks,
             summaries, other_libraries, forked)  # fmt: skip
    for step in steps:
        begun = time.monotonic()
        step()
        print(step.__name__, f"{time.monotonic() - begun:.1f} s", file=sys.stderr)
        print(step.__name__, flush=True)
    gfile.rmtree(BASE)
    assert not gfile.exists(BASE) or OBJECTS


if __name__ == "__main__":
    main()
