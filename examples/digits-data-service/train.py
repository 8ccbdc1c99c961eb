"""Handwritten digits, shifted and blurred at random by the data workers of tf.data service.

A restarted run goes on after the last epoch that was saved.
"""

import os

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

EPOCHS, BATCH, TEST = int(os.environ.get("EPOCHS", "15")), 32, 360
SERVICE = os.environ.get("TFAPP_DATA_SERVICE")  # grpc://host:port of the dispatcher


def disturb(image, label):
    """What takes time in a real program, such as decoding and cropping. It runs on data workers."""
    shift = tf.random.uniform([2], -1, 2, tf.int32)
    image = tf.roll(image, shift, axis=[0, 1])
    return image + tf.random.normal(tf.shape(image), stddev=0.05), label


data = load_digits()
order = np.random.default_rng(seed=0).permutation(len(data.images))
images = (data.images[order, :, :, None] / 16.0).astype("float32")
labels = data.target[order].astype("int64")

training = tf.data.Dataset.from_tensor_slices((images[TEST:], labels[TEST:])).shuffle(2000)
training = training.map(disturb, tf.data.AUTOTUNE).batch(BATCH)
if SERVICE:
    # Each data worker takes the next part that is free: every image comes once in an epoch.
    service = tf.data.experimental.service
    training = training.apply(service.distribute(service.ShardingPolicy.DYNAMIC, SERVICE))

model = tf.keras.Sequential(
    [
        tf.keras.layers.Conv2D(16, 3, activation="relu", input_shape=(8, 8, 1)),
        tf.keras.layers.MaxPooling2D(),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(64, activation="relu"),
        tf.keras.layers.Dense(10),
    ]
)
model.compile(
    optimizer=tf.keras.optimizers.Adam(2e-3),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
folder = os.environ.get("TFAPP_CHECKPOINT_DIR", "checkpoints")
backup = tf.keras.callbacks.BackupAndRestore(os.path.join(folder, "backup"))
model.fit(training.prefetch(tf.data.AUTOTUNE), epochs=EPOCHS, callbacks=[backup], verbose=2)
_, accuracy = model.evaluate(images[:TEST], labels[:TEST], verbose=0)
print(f"test accuracy {accuracy:.3f}")
