"""Starts the user's TensorFlow program, TensorBoard or a part of tf.data service."""

from __future__ import annotations

from tfapp.runner.tensorflow_script import TensorflowScript


class Tensorflow(TensorflowScript):
    """Every component of the package; the component's role decides. What is the same for each
    package with TensorFlow is in its base class."""
