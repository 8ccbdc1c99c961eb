"""File systems for TensorFlow and for Python: HDFS, S3 and Azure.

    import tfapp.storage
    tfapp.storage.register()

From then on tf.io.gfile, tf.data, checkpoints, saved models and summaries take URLs such as
hdfs://namenode:8020/user/me/model and s3://bucket/model. It needs the extra `tfapp[storage]`.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from tfapp.contract.names import (
    ENV_STORAGE_SCHEMES,
    HDFS_SCHEMES,
    OPENED_SCHEMES,
    opened_schemes,
)
from tfapp.errors import UnavailableError
from tfapp.storage.folders import NEEDS, store_of

__all__ = ["SCHEMES", "fsspec", "register"]

SCHEMES = OPENED_SCHEMES

_registered = False


def register(told: Callable[[Exception], object] | None = None) -> None:
    """Gives TensorFlow the file systems that it does not have: of SCHEMES, and of the schemes that
    the variable TFAPP_STORAGE_SCHEMES names ("sftp,oss"). If TensorFlow is not imported yet, it
    gets them when it is. A second call does nothing.

    UnavailableError if the extra `storage` is not installed, or this processor or TensorFlow has no
    such interface: at the import of TensorFlow, or for `told`, and the import goes on.
    """
    global _registered
    if not any(importlib.util.find_spec(name) for name in ("obstore", "hdfs_native")):
        raise UnavailableError("there is neither obstore nor hdfs_native", NEEDS)
    if _registered:
        return
    found = sys.modules.get("tensorflow")
    if found is None or getattr(found.__spec__, "_initializing", False):
        sys.meta_path.insert(0, _WithTensorFlow(told))
    else:
        _give(found)
    _registered = True


def _give(tensorflow: Any) -> None:
    from tfapp.storage.plugin import plugin_for

    if importlib.util.find_spec("tensorflow_io"):
        with contextlib.suppress(Exception):  # it does not fit to most versions of TensorFlow
            importlib.import_module("tensorflow_io")
    there = set(tensorflow.io.gfile.get_registered_schemes())
    stores = dict.fromkeys(
        opened_schemes(os.environ.get(ENV_STORAGE_SCHEMES, "")), _WhenUsed("others", "Others")
    )
    stores |= dict.fromkeys(SCHEMES, _WhenUsed("objects", "Objects"))
    stores |= dict.fromkeys(HDFS_SCHEMES, _WhenUsed("hdfs", "Hdfs"))
    missing = {scheme: store for scheme, store in stores.items() if scheme not in there}
    if missing:
        register_library = tensorflow.experimental.register_filesystem_plugin
        plugin_for(tensorflow).load(missing, register_library)


class _WhenUsed:
    """A Store that is made when it is used first: a program may open no URL."""

    def __init__(self, module: str, name: str):
        self._made_by, self._lock = (module, name), threading.Lock()

    def __getattr__(self, name: str) -> Any:
        with self._lock:
            if "_store" not in vars(self):
                from tfapp.storage.watched import watching

                module, kind = self._made_by
                made = getattr(importlib.import_module(f"tfapp.storage.{module}"), kind)()
                self._store = watching(made, os.environ)
        return getattr(self._store, name)


class _WithTensorFlow:
    """Lets others find TensorFlow, and adds to what happens at its import."""

    def __init__(self, told: Callable[[Exception], object] | None):
        self._told = told

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """Of TensorFlow alone."""
        if name != "tensorflow":
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        specs = (finder.find_spec(name, path, target) for finder in others)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                load(module)
                try:
                    _give(module)
                except Exception as error:
                    if self._told is None:
                        raise
                    self._told(error)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def fsspec(url: str) -> Any:
    """The file system of fsspec for a URL, for what is not TensorFlow's: pandas, PyArrow, a program
    itself. With the same settings as TensorFlow gets here; other schemes are left to fsspec.
    UnavailableError if a library is missing."""
    try:
        store = store_of(url)
        if store is None:
            return importlib.import_module("fsspec.core").url_to_fs(url)[0]
        from tfapp.storage.system import StoreFileSystem

        return StoreFileSystem(store)
    except ImportError as error:
        raise UnavailableError(f"{url} cannot be opened: {error}", NEEDS) from error
