"""Ends in the middle of a pipeline over remote files: `leaving.py URL HOW`. TensorFlow reads on and
on, also after errors, and a writer is open."""

import os
import signal
import sys

import tensorflow as tf

import tfapp.storage

tfapp.storage.register()  # after TensorFlow is imported
base, how = sys.argv[1:]
if not tf.io.gfile.exists(f"{base}/0"):
    for number in range(8):
        with tf.io.TFRecordWriter(f"{base}/{number}") as writer:
            for _ in range(500):
                writer.write(bytes(1000))
files = tf.data.Dataset.list_files(f"{base}/?").repeat()
records = files.interleave(tf.data.TFRecordDataset, 8, num_parallel_calls=8).ignore_errors()
iterator = iter(records.batch(100).prefetch(50))
for _ in range(3):
    next(iterator)
summaries = tf.summary.create_file_writer(f"{base}/summaries")
with summaries.as_default():
    tf.summary.scalar("loss", 1.0, step=1)
print("leaves", flush=True)
if how == "raise":
    raise ValueError("as asked for")
if how == "exit":
    sys.exit(3)
if how == "at once":
    os._exit(4)
if how == "signal":
    os.kill(os.getpid(), signal.SIGTERM)
