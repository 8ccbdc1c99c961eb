"""Handwritten digits, learned by as many workers as there are.

Each worker keeps its batch, so a step sees more images with more workers, and the learning rate
grows with it (https://arxiv.org/abs/1706.02677). A run that goes on with other workers takes the
weights from its last epoch, and batch and learning rate from its present number of workers.
"""

import argparse
import json
import os

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

TEST_IMAGES = 360
BATCH = 16  # images per worker and step
LEARNING_RATE = 1e-3  # with one worker
WARM_UP = 3  # epochs in which the learning rate of several workers is reached


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
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(64, activation="relu"),
            tf.keras.layers.Dense(10),
        ]
    )


def is_first_worker():
    return json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {}).get("index", 0) == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint-dir", required=True, help="a folder that all workers see")
    parser.add_argument("--epochs", type=int, default=30)
    args = parser.parse_args()

    tf.keras.utils.set_random_seed(0)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    workers = strategy.num_replicas_in_sync
    batch, rate = BATCH * workers, LEARNING_RATE * workers
    if is_first_worker():
        print(f"{workers} workers, batch {batch}, learning rate {rate:g}")

    def schedule(epoch):
        """Sets the rate anew in each epoch: that of the backup is of the workers before."""
        return LEARNING_RATE + (rate - LEARNING_RATE) * min(epoch / WARM_UP, 1.0)

    train, test = digits()
    size = len(train[0])
    training = tf.data.Dataset.from_tensor_slices(train).shuffle(size, seed=0).repeat().batch(batch)
    testing = tf.data.Dataset.from_tensor_slices(test).batch(batch)
    with strategy.scope():
        model = build_model()
        model.compile(
            optimizer=tf.keras.optimizers.Adam(rate),
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
    model.fit(
        training,
        epochs=args.epochs,
        # An epoch is the whole data with any number of workers.
        steps_per_epoch=size // batch,
        callbacks=[
            tf.keras.callbacks.BackupAndRestore(os.path.join(args.checkpoint_dir, "backup")),
            tf.keras.callbacks.LearningRateScheduler(schedule),
        ],
        verbose=2,
    )
    _, accuracy = model.evaluate(testing, verbose=0)
    if is_first_worker():
        print(f"test accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
