"""Functions that hide differences between versions of TensorFlow 2."""

from __future__ import annotations

import inspect
import tempfile
from typing import Any


def export_saved_model(model: Any, export_dir: str, is_chief: bool = False) -> None:
    """Saves a Keras model for serving in the folder `export_dir`. Its outputs have the names of the
    layers that they come from, except those of a subclass of keras.Model under Keras 3. All
    programs that train together must call it: those that are not the chief write to a temporary
    folder."""
    if is_chief:
        _save(model, export_dir)
        return
    with tempfile.TemporaryDirectory(prefix="tfapp-export-") as folder:
        _save(model, folder)


def _save(model: Any, folder: str) -> None:
    if "save_format" in inspect.signature(model.save).parameters:
        model.save(folder, save_format="tf")
    else:
        _with_named_outputs(model).export(folder)


def _with_named_outputs(model: Any) -> Any:
    """A model of Keras 3 whose outputs are exported by the names of their layers, as Keras 2 does.
    A model that does not know its outputs before it is called is returned as it is."""
    import keras

    outputs = getattr(model, "outputs", None) or []
    names = [tensor._keras_history.operation.name for tensor in outputs]
    if (
        not names
        or isinstance(getattr(model, "output", None), dict)
        or len(set(names)) < len(names)
    ):
        return model
    return keras.Model(model.inputs, dict(zip(names, outputs)))


def disable_auto_shard(options: Any) -> None:
    """Turns auto-sharding off in `options`, a tf.data.Options: each program is fed its own rows."""
    import tensorflow as tf

    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF


def is_gpu_available() -> bool:
    import tensorflow as tf

    return bool(tf.config.list_physical_devices("GPU"))
