"""What differs between versions of TensorFlow 2."""

from __future__ import annotations

import tempfile
from typing import Any


def export_saved_model(model: Any, export_dir: str, is_chief: bool = False) -> None:
    """Saves a Keras model for serving, in `export_dir`. To be called by all programs that train
    together: those that are not the chief write to a folder that is deleted."""
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
    """Has tf.data divide nothing: each program is fed its own rows. `options`: tf.data.Options."""
    import tensorflow as tf

    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF


def is_gpu_available() -> bool:
    """Whether TensorFlow sees a GPU."""
    import tensorflow as tf

    return bool(tf.config.list_physical_devices("GPU"))
