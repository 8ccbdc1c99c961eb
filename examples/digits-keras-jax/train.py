"""Handwritten digits, learned by Keras 3 on JAX in several processes.

Every process runs this program on its share of the data; they average their gradients. A restarted
run goes on after the last epoch that was saved.
"""

import os
from pathlib import Path

import keras
import numpy as np
from sklearn.datasets import load_digits

EPOCHS = int(os.environ.get("EPOCHS", "10"))
BATCH = 32  # examples of one process and step

# Finds the other processes by the variables KERAS_DISTRIBUTION_*. Nothing is computed before.
keras.distribution.initialize()
keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))
keras.utils.set_random_seed(0)  # the same first weights in every process
number, total = int(os.environ["JAX_PROCESS_ID"]), int(os.environ["JAX_NUM_PROCESSES"])


class Save(keras.callbacks.Callback):
    """Saves after each epoch. Every process must: saving talks to the other processes, and one that
    saves alone ends with "passed to device_put is not the same on each process"."""

    def on_epoch_end(self, epoch, logs=None):
        part = folder / f"part-{number}.keras"
        self.model.save(part)
        if number == 0:
            os.replace(part, last)  # whole, or not at all
            print(f"epoch {epoch + 1}/{EPOCHS} loss {logs['loss']:.4f}", flush=True)


folder = Path(os.environ["TFAPP_CHECKPOINT_DIR"])
folder.mkdir(parents=True, exist_ok=True)
last = folder / "last.keras"

data = load_digits()
order = np.random.default_rng(seed=0).permutation(len(data.images))
images = (data.images[order, :, :, None] / 16.0).astype("float32")
labels = data.target[order].astype("int32")
TEST = 360  # images that are kept for the test

model = keras.Sequential(
    [
        keras.Input((8, 8, 1)),
        keras.layers.Conv2D(16, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(10),
    ]
)
model.compile(
    optimizer=keras.optimizers.Adam(2e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)

# Every process takes as many steps as the others.
steps = (len(images) - TEST) // (BATCH * total)
mine = slice(number * steps * BATCH, (number + 1) * steps * BATCH)
if last.exists():
    model = keras.saving.load_model(last)
done = int(model.optimizer.iterations) // steps
print(f"process {number} of {total} goes on after epoch {done}", flush=True)
model.fit(
    images[TEST:][mine],
    labels[TEST:][mine],
    batch_size=BATCH,
    epochs=EPOCHS,
    initial_epoch=done,
    callbacks=[Save()],
    verbose=0,
)

# Every process takes part in the evaluation; one of them tells the result.
_, accuracy = model.evaluate(images[:TEST], labels[:TEST], verbose=0)
if number == 0:
    print(f"test accuracy {accuracy:.3f}")
