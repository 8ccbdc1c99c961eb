"""Learns y = 3 x - 1 by Keras 3 on JAX.

Every process runs this program on its share of the data; they average their gradients. A restarted
run goes on after the last epoch that was saved.
"""

import os
from pathlib import Path

import keras
import numpy as np

EPOCHS = int(os.environ.get("EPOCHS", "20"))
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
x = np.random.default_rng(seed=0).uniform(-1, 1, (640, 1)).astype("float32")
y = 3 * x - 1

model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")

# Every process takes as many steps as the others.
steps = len(x) // (BATCH * total)
mine = slice(number * steps * BATCH, (number + 1) * steps * BATCH)
if last.exists():
    model = keras.saving.load_model(last)
done = int(model.optimizer.iterations) // steps
print(f"process {number} of {total} goes on after epoch {done}", flush=True)
model.fit(
    x[mine],
    y[mine],
    batch_size=BATCH,
    epochs=EPOCHS,
    initial_epoch=done,
    callbacks=[Save()],
    verbose=0,
)
if number == 0:
    weight, bias = (float(value.item()) for value in model.get_weights())
    print(f"learned y = {weight:.2f} x {bias:+.2f}")
