"""Experiments on the handwritten digits, as a user writes them. `digits.npz` lies beside it."""

import os
import pathlib
import signal
import sys
import time

import numpy as np

from tfapp.program.experiment import Experiment, KerasExperiment

sys.modules.setdefault("sklearn", None)  # Keras would load it, which takes long
import tensorflow as tf  # noqa: E402

DATA = pathlib.Path(__file__).with_name("digits.npz")
EPOCHS = 5
LOST = 3  # the epoch at whose end one program is killed


class Lost(tf.keras.callbacks.Callback):
    """Kills the program of `instance`, once. The others wait there for their own end."""

    def __init__(self, instance):
        super().__init__()
        self.instance = instance

    def on_epoch_end(self, epoch, logs=None):
        if os.environ["TFAPP_GENERATION"] == "1" and epoch + 1 == LOST:
            if os.environ["TFAPP_INSTANCE"] == self.instance:
                os.kill(os.getpid(), signal.SIGKILL)
            signal.pause()


def data(part):
    found = np.load(DATA)
    return found[f"{part}_x"], found[f"{part}_y"]


class SlowInput(tf.keras.callbacks.Callback):
    """In the last epoch the input of worker/1 is slow."""

    slow = False

    def on_epoch_begin(self, epoch, logs=None):
        SlowInput.slow = epoch == EPOCHS - 1 and os.environ["TFAPP_INSTANCE"] == "worker/1"


def slow_data():
    def pause(x, y):
        waits = tf.py_function(lambda: time.sleep(0.15 * SlowInput.slow), [], [])
        with tf.control_dependencies([waits]):
            return x, tf.identity(y)

    return train_data().map(pause)


def train_data():
    return tf.data.Dataset.from_tensor_slices(data("train")).shuffle(1500).batch(64)


def build():
    model = tf.keras.Sequential(
        [
            tf.keras.Input((64,)),
            tf.keras.layers.Dense(64, activation="relu"),
            tf.keras.layers.Dense(10),
        ]
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.Adam(5e-3), loss=loss, metrics=["accuracy"])
    return model


def several_workers() -> KerasExperiment:
    """Loses worker/1 once."""
    return KerasExperiment(
        model=build(),
        train_params={"epochs": EPOCHS},
        input_data_fn=slow_data,
        validation_data_fn=lambda: data("test"),
        callbacks=[Lost("worker/1"), SlowInput()],
    )


def for_long() -> KerasExperiment:
    """Many steps in one epoch."""
    return KerasExperiment(build(), "", {"steps_per_epoch": 10**7}, lambda: train_data().repeat())


def servers(context):
    """Arrays, and a model that is built later."""
    return KerasExperiment(
        model=build,
        model_dir=context.checkpoint_dir,
        train_params={"epochs": EPOCHS, "batch_size": 64},
        input_data_fn=lambda: data("train")[0],
        target_data_fn=lambda: data("train")[1],
        validation_data_fn=lambda: data("test"),
    )


def alone():
    return KerasExperiment(build(), "", {"epochs": EPOCHS}, train_data, None, lambda: data("test"))


def keras_estimator(context):
    """Of TensorFlow 2.15 or older: a Keras model as an Estimator."""
    model = tf.keras.Sequential([tf.keras.layers.Dense(10, "softmax", input_shape=(64,))])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    config = tf.estimator.RunConfig(context.checkpoint_dir, save_checkpoints_steps=50)

    def rows(part):
        return tf.data.Dataset.from_tensor_slices(data(part)).batch(64)

    return Experiment(
        tf.keras.estimator.model_to_estimator(model, config=config),
        tf.estimator.TrainSpec(lambda: rows("train").repeat(), max_steps=50),
        tf.estimator.EvalSpec(
            lambda: rows("test"), steps=None, start_delay_secs=0, throttle_secs=1
        ),
    )


def estimator(context):
    """Of TensorFlow 2.15 or older."""
    images = tf.feature_column.numeric_column("x", shape=(64,))
    config = tf.estimator.RunConfig(context.checkpoint_dir, save_checkpoints_steps=50)
    classifier = tf.estimator.LinearClassifier([images], n_classes=10, config=config)

    def rows(part):
        x, y = data(part)
        return tf.data.Dataset.from_tensor_slices(({"x": x}, y)).batch(64)

    return Experiment(
        classifier,
        tf.estimator.TrainSpec(lambda: rows("train").shuffle(1500).repeat(), max_steps=150),
        tf.estimator.EvalSpec(
            lambda: rows("test"), steps=None, start_delay_secs=0, throttle_secs=1
        ),
    )
