"""Kinds of values that cannot be pickled, and a hint for each."""

from __future__ import annotations

from typing import Any

INSIDE = "Make it inside the function."
_OPEN = "Open it inside the function."
_HERE = "Use it where you submit from, not in the function."
# The module that a type is from, or a package around it; its name, "" for any; what it is; what to
# do about it. The first row that fits one of a value's classes counts.
_KINDS = (
    ("tfapp.api.handle", "", "a tfapp application", _HERE),
    ("tensorflow", "BaseSession", "a TensorFlow session", INSIDE),
    ("tensorflow", "Graph", "a TensorFlow graph", INSIDE),
    ("tensorflow", "FuncGraph", "a TensorFlow graph", INSIDE),
    ("tensorflow", "StrategyBase", "a tf.distribute strategy", INSIDE),
    ("tensorflow.python.data", "", "a tf.data.Dataset", INSIDE),
    ("tensorflow.python.checkpoint", "", "a TensorFlow checkpoint", INSIDE),
    ("tensorflow.python.ops.lookup_ops", "", "a TensorFlow table", INSIDE),
    ("tensorflow", "SummaryWriter", "a writer of TensorFlow's summaries", _OPEN),
    ("tensorflow", "Tensor", "a tensor", "Take its .numpy() along, or make it inside."),
    ("tensorflow", "_EagerTensorBase", "a tensor", "Take its .numpy() along, or make it inside."),
    ("tensorflow", "BaseResourceVariable", "a TensorFlow variable", INSIDE),
    ("tensorflow", "ResourceBase", "a TensorFlow resource", INSIDE),
    ("pyspark", "SparkContext", "a Spark context", _HERE),
    ("pyspark", "SparkSession", "a Spark session", _HERE),
    ("pyspark", "RDD", "a Spark RDD", _HERE),
    ("pyspark", "DataFrame", "a Spark data frame", _HERE),
    ("sqlite3", "Connection", "a database connection", _OPEN),
    ("sqlite3", "Cursor", "a database cursor", _OPEN),
    ("sqlalchemy", "", "a database connection", _OPEN),
    ("psycopg", "", "a database connection", _OPEN),
    ("pymysql", "", "a database connection", _OPEN),
    ("MySQLdb", "", "a database connection", _OPEN),
    ("h5py", "", "an open HDF5 file", _OPEN),
    ("_io", "", "an open file", _OPEN),
    ("tempfile", "_TemporaryFileWrapper", "an open file", _OPEN),
    ("_thread", "", "a lock", INSIDE),
    ("threading", "Thread", "a thread", "Start it inside the function."),
    ("threading", "local", "a thread's own data", INSIDE),
    ("threading", "", "a lock", INSIDE),
    ("multiprocessing.pool", "", "a pool of processes", INSIDE),
    ("multiprocessing.synchronize", "", "a lock", INSIDE),
    ("multiprocessing", "", "a process, or what belongs to one", INSIDE),
    ("concurrent.futures", "", "a pool of threads or processes", INSIDE),
    ("subprocess", "Popen", "a process", "Start it inside the function."),
    ("asyncio", "", "a part of an event loop", INSIDE),
    ("queue", "", "a queue", INSIDE),
    ("_queue", "", "a queue", INSIDE),
    ("weakref", "", "a weak reference", "Take the object itself along."),
    ("builtins", "weakref", "a weak reference", "Take the object itself along."),  # Python 3.9
    ("ctypes", "CDLL", "a loaded library", "Load it inside the function."),
    ("tempfile", "TemporaryDirectory", "a temporary folder", INSIDE),
    ("socket", "", "a socket", _OPEN),
    ("_socket", "", "a socket", _OPEN),
    ("ssl", "", "a TLS connection", _OPEN),
    ("builtins", "generator", "a generator", "Make it inside the function, or take a list along."),
    ("builtins", "async_generator", "a generator", INSIDE),
    ("builtins", "coroutine", "a coroutine", "Give a function that calls asyncio.run."),
    ("builtins", "frame", "a frame", INSIDE),
    ("builtins", "traceback", "a traceback", "Take its text along."),
    ("IPython", "", "a part of the notebook", _HERE),
    ("ipykernel", "", "a part of the notebook", _HERE),
)


def known(value: Any) -> tuple[str, str] | None:
    """A name for the kind of a value and a hint, if the kind is known."""
    for module, name, kind, hint in _KINDS:
        for cls in type(value).__mro__:
            fits = cls.__module__ == module or cls.__module__.startswith(f"{module}.")
            if fits and name in ("", cls.__name__):
                return kind, hint
    return None


def kind_of(value: Any) -> tuple[str, str]:
    return known(value) or (f"{type_of(value)}, which cannot be pickled", INSIDE)


def type_of(value: object) -> str:
    """ "a list", "an Event"."""
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
