"""The program that the package runs until you bring your own: it searches for the learning rate
with which a straight line is found best.

Every instance runs it. The oracle stays in `search`, and hands out trials there; the tuners train
them, and go on after it when all are done.
"""

import os

import keras
import keras_tuner
import numpy as np

x = np.random.default_rng(seed=0).uniform(-1, 1, (512, 1)).astype("float32")
y = 3 * x - 1


def build(hp):
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    rate = hp.Float("rate", 0.001, 0.5, sampling="log")
    model.compile(optimizer=keras.optimizers.SGD(rate), loss="mse")
    return model


# In the checkpoint folder: a relative directory is taken to be below it.
tuner = keras_tuner.RandomSearch(
    build,
    objective="val_loss",
    max_trials=int(os.environ.get("TRIALS", "8")),
    directory="search",
    project_name="line",
    seed=0,
)
tuner.search(x[128:], y[128:], epochs=5, validation_data=(x[:128], y[:128]), verbose=0)
(best,) = tuner.get_best_hyperparameters(1)
print(f"the best learning rate is {best.get('rate'):.3f}")
