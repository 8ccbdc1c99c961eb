"""Handwritten digits: KerasTuner searches for the size of a layer and the learning rate.

The oracle and all tuners run this program. The oracle stays in `search`.
"""

import os

import keras
import keras_tuner
import numpy as np
from sklearn.datasets import load_digits

TRIALS, EPOCHS, TEST = int(os.environ.get("TRIALS", "8")), 4, 360

data = load_digits()
order = np.random.default_rng(seed=0).permutation(len(data.images))
images = (data.images[order, :, :, None] / 16.0).astype("float32")
labels = data.target[order].astype("int32")


def build(hp):
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(hp.Choice("units", [16, 32, 64, 128]), activation="relu"),
            keras.layers.Dense(10),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(hp.Float("rate", 1e-4, 1e-2, sampling="log")),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


tuner = keras_tuner.RandomSearch(
    build,
    objective="val_accuracy",
    max_trials=TRIALS,
    directory=os.environ.get("TFAPP_CHECKPOINT_DIR", "search"),
    project_name="digits",
    seed=0,
)
tuner.search(
    images[TEST:],
    labels[TEST:],
    epochs=EPOCHS,
    validation_data=(images[:TEST], labels[:TEST]),
    verbose=0,
)
(best,) = tuner.get_best_hyperparameters(1)
print(f"best: {best.get('units')} units, learning rate {best.get('rate'):.4f}")
