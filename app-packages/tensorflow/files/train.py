"""The program that the package runs until you bring your own: a straight line through noise.

It is plain TensorFlow. MultiWorkerMirroredStrategy finds its cluster in TF_CONFIG, which each
process gets; without TF_CONFIG it trains alone: python train.py

After each epoch it saves where it is, and goes on from there when it begins again. Where an earlier
run has trained all epochs, nothing is left to train: `tfapp run train.py -- 40` trains 40.
"""

import json
import os
import signal
import sys

import numpy as np
import tensorflow as tf


def main():
    config = json.loads(os.environ.get("TF_CONFIG", "{}"))
    task = config.get("task", {"type": "worker", "index": 0})
    if task["type"] not in ("chief", "worker"):
        sys.exit(f"this program has no work for a {task['type']}: bring one that has, with --files")

    # Every instance sees this folder, where site.global.user.checkpoint.prefix is on a shared disk.
    folder = os.environ.get("TFAPP_CHECKPOINT_DIR", "checkpoints")
    backup = os.path.join(folder, "backup")
    callbacks = [tf.keras.callbacks.BackupAndRestore(backup, delete_checkpoint=False)]
    chief = "chief" if "chief" in config.get("cluster", {}) else "worker"
    if (task["type"], task["index"]) == (chief, 0):
        callbacks.append(tf.keras.callbacks.TensorBoard(os.path.join(folder, "logs")))

    tf.keras.utils.set_random_seed(0)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    # Programs are stopped by SIGTERM. From here on TensorFlow would catch it, and train on.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    points = np.random.default_rng(seed=0).uniform(-1, 1, size=(1024, 1)).astype("float32")
    noise = np.random.default_rng(seed=1).normal(0, 0.05, size=points.shape).astype("float32")
    data = tf.data.Dataset.from_tensor_slices((points, 3 * points - 1 + noise))
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,))])
        model.compile(optimizer=tf.keras.optimizers.SGD(0.2), loss="mse")
    batches = data.batch(32 * strategy.num_replicas_in_sync)
    epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    trained = model.fit(batches, epochs=epochs, verbose=2, callbacks=callbacks)
    if not trained.epoch:
        print(f"an earlier run has trained all {epochs} epochs: its result is in {backup}")

    slope, intercept = (value.item() for value in model.get_weights())
    print(f"y = {slope:.2f} x {intercept:+.2f} (drawn from y = 3.00 x -1.00)")


if __name__ == "__main__":
    main()
