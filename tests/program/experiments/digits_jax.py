"""The digits on JAX. In the first generation worker/1 is killed at the end of its second epoch."""

import os
import signal

import tfapp

EPOCHS = 4


def experiment(context):
    import keras
    import numpy as np

    data = np.load("digits.npz")
    x, y = data["train_x"], data["train_y"].astype("int32")

    class Killed(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            if (context.generation, context.instance, epoch) == (1, "worker/1", 1):
                os.kill(os.getpid(), signal.SIGKILL)

    def build():
        layers = [keras.Input((64,)), keras.layers.Dense(64, "relu"), keras.layers.Dense(10)]
        model = keras.Sequential(layers)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer=keras.optimizers.Adam(5e-3), loss=loss, metrics=["accuracy"])
        return model

    return tfapp.KerasExperiment(
        build,
        backend="jax",
        train_params={"epochs": EPOCHS, "batch_size": 64},
        input_data_fn=lambda: x,
        target_data_fn=lambda: y,
        validation_data_fn=lambda: (data["test_x"], data["test_y"].astype("int32")),
        callbacks=[Killed()],
    )
