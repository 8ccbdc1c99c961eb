"""Handwritten digits, learned by several workers that average their gradients.

Plain TensorFlow: MultiWorkerMirroredStrategy finds its cluster in TF_CONFIG. A restarted run goes
on at the epoch in which the last one ended.
"""

import argparse
import json
import os

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

TEST_IMAGES = 360


def digits():
    """((images, labels) to train with, the same to test with), shuffled alike in every worker."""
    data = load_digits()
    order = np.random.default_rng(seed=0).permutation(len(data.images))
    images = (data.images[order, :, :, None] / 16.0).astype("float32")
    labels = data.target[order].astype("int64")
    return (
        (images[TEST_IMAGES:], labels[TEST_IMAGES:]),
        (images[:TEST_IMAGES], labels[:TEST_IMAGES]),
    )


def build_model():
    return tf.keras.Sequential(
        [
            tf.keras.layers.Conv2D(16, 3, activation="relu", input_shape=(8, 8, 1)),
            tf.keras.layers.MaxPooling2D(),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(64, activation="relu"),
            tf.keras.layers.Dense(10),
        ]
    )


def is_first_worker():
    task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {})
    return task.get("type", "worker") in ("chief", "worker") and task.get("index", 0) == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint-dir", required=True, help="a folder that all workers see")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=32, help="images per worker and step")
    args = parser.parse_args()

    tf.keras.utils.set_random_seed(0)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    batch = args.batch_size * strategy.num_replicas_in_sync
    train, test = digits()
    training = tf.data.Dataset.from_tensor_slices(train).shuffle(2000, seed=0).batch(batch)
    testing = tf.data.Dataset.from_tensor_slices(test).batch(batch)

    with strategy.scope():
        model = build_model()
        model.compile(
            optimizer=tf.keras.optimizers.Adam(2e-3),
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
    backup = tf.keras.callbacks.BackupAndRestore(os.path.join(args.checkpoint_dir, "backup"))
    model.fit(training, epochs=args.epochs, callbacks=[backup], verbose=2)

    # Every worker takes part in the evaluation; one of them tells the result.
    _, accuracy = model.evaluate(testing, verbose=0)
    if is_first_worker():
        print(f"test accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
