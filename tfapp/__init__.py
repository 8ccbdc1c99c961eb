"""Distributed TensorFlow from a declarative app package, on YARN or on one machine."""

__version__ = "0.1.0"
