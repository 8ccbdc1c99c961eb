"""The time that a program of a synchronous training spends in collectives: waiting for the other
workers, and for the network."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

_NAMES = ("all_reduce", "_all_gather")  # of TensorFlow's CollectiveReplicaLauncher


class CollectiveTime:
    """Counts from its making on, in functions that are traced after that. It does not work
    (`works`) where this TensorFlow has its collectives elsewhere, nor with a GPU: the processor
    does not know when tensors are there, and a question would hold up the GPU."""

    def __init__(self) -> None:
        import tensorflow as tf

        self._tf = tf
        self.works = False
        if tf.config.list_physical_devices("GPU"):
            return
        with tf.device("CPU:0"):
            # Of no strategy: it is this process's alone.
            self._sum = tf.raw_ops.VarHandleOp(
                dtype=tf.float64, shape=[], shared_name="tfapp-collectives"
            )
        self._set(0.0)
        try:
            from tensorflow.python.distribute.cross_device_utils import CollectiveReplicaLauncher

            for name in _NAMES:
                original = getattr(CollectiveReplicaLauncher, name)
                setattr(CollectiveReplicaLauncher, name, self._timed(original))
            self.works = True
        except (ImportError, AttributeError):
            pass

    def take(self) -> float:
        """The seconds since the last call."""
        found = float(
            self._tf.raw_ops.ReadVariableOp(resource=self._sum, dtype=self._tf.float64).numpy()
        )
        self._set(0.0)
        return found

    def _set(self, value: float) -> None:
        tf = self._tf
        tf.raw_ops.AssignVariableOp(resource=self._sum, value=tf.constant(value, tf.float64))

    def _timed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        tf = self._tf

        @functools.wraps(original)
        def timed(launcher: Any, tensor: Any, *args: Any, **more: Any) -> Any:
            if tf.executing_eagerly():
                return original(launcher, tensor, *args, **more)
            with tf.device("CPU:0"), tf.control_dependencies([tensor]):
                begun = tf.timestamp()
            with tf.control_dependencies([begun]):
                tensor = tf.identity(tensor)
            found = original(launcher, tensor, *args, **more)
            with tf.device("CPU:0"), tf.control_dependencies([found]):
                added = tf.raw_ops.AssignAddVariableOp(
                    resource=self._sum, value=tf.timestamp() - begun
                )
            with tf.control_dependencies([added]):
                return tf.identity(found)

        return timed
