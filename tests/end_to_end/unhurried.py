"""Runs `train.py`, whose `model.fit` trains slowly, tells how far it has come, and ends when it is
told to: so that there is time to disturb it, however fast the machine is. What TensorBoard shows is
what tfapp tells of its metrics. The digits come from a file: where scikit-learn is, Keras loads it,
which takes as long as half of TensorFlow."""

import os
import pathlib
import sys
import time
import types

import numpy as np

sys.modules["sklearn"] = None
import tensorflow as tf  # noqa: E402

datasets = types.ModuleType("sklearn.datasets")
datasets.load_digits = lambda: types.SimpleNamespace(**np.load("load_digits.npz"))
sys.modules |= {"sklearn": types.ModuleType("sklearn"), "sklearn.datasets": datasets}
import train  # noqa: E402

FOLDER = pathlib.Path(os.environ["TFAPP_CHECKPOINT_DIR"])
EPOCHS = FOLDER / "epochs"  # how many have been trained and saved
LAST = FOLDER / "last"  # the number of the last epoch; there early enough for all workers


class Unhurried(tf.keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if os.environ["WORKER_NUMBER"] == "0":
            unfinished = EPOCHS.with_suffix(".new")
            unfinished.write_text(str(epoch + 1))
            unfinished.rename(EPOCHS)
        time.sleep(0.2)
        if LAST.exists() and epoch + 1 >= int(LAST.read_text()):
            self.model.stop_training = True


fit = tf.keras.Model.fit


def unhurried_fit(model, *args, callbacks, **kwargs):
    board = tf.keras.callbacks.TensorBoard("logs", write_graph=False)
    return fit(model, *args, callbacks=[*callbacks, board, Unhurried()], **kwargs)


tf.keras.Model.fit = unhurried_fit
train.main()
