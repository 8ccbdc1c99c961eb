"""Functions that hide differences between versions of TensorFlow 2."""

from __future__ import annotations

import tempfile
from typing import Any


def export_saved_model(model: Any, export_dir: str, is_chief: bool = False) -> None:
    """Saves a Keras model for serving in the folder `export_dir`. All programs that train together
    must call it: those that are not the chief write to a temporary folder."""
    if is_chief:
        _save(model, export_dir)
        return
    with tempfile.TemporaryDirectory(prefix="tfapp-export-") as folder:
        _save(model, folder)


def _save(model: Any, folder: str) -> None:
    if hasattr(model, "export"):
        model.export(folder)
    else:
        model.save(folder, save_format="tf")


def disable_auto_shard(options: Any) -> None:
    """Turns auto-sharding off in `options`, a tf.data.Options: each program is fed its own rows."""
    import tensorflow as tf

    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF


def is_gpu_available() -> bool:
    """Whether TensorFlow sees a GPU."""
    import tensorflow as tf

    return bool(tf.config.list_physical_devices("GPU"))
