"""Reads the values that programs returned. `tfapp.program.returned` writes them and describes the
format."""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib
import io
import json
import os
import pickle
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Union

from tfapp.errors import ReturnedError

if TYPE_CHECKING:
    from tfapp.engines.base import Engine, LogFile

DAMAGED = "what it returned is damaged"


Records = Mapping[str, Union[bytes, ReturnedError]]


class Returned(Mapping[str, Any]):
    """Maps instances to the return values of their functions. `fetch` gives the bytes of each
    record, or the ReturnedError that an access raises. It is called at the first access; each value
    is decoded once."""

    def __init__(self, fetch: Callable[[], Records], pickles: bool = False):
        self._fetch = fetch
        self._pickles = pickles
        self._values: dict[str, Any] = {}

    @functools.cached_property
    def _records(self) -> Records:
        return self._fetch()

    def __getitem__(self, instance: str) -> Any:
        """ReturnedError if the value is not plain data, is too large, or is on a lost node."""
        if instance not in self._values:
            self._values[instance] = self._decode(instance, self._records[instance])
        return self._values[instance]

    def _decode(self, instance: str, record: bytes | ReturnedError) -> Any:
        try:
            if isinstance(record, ReturnedError):
                raise record
            return decode(record, self._pickles)
        except ReturnedError as error:
            raise ReturnedError(f"{instance}: {error.message}", error.hint) from error

    def __contains__(self, instance: object) -> bool:
        return instance in self._records

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def __repr__(self) -> str:
        return f"<returned by {', '.join(self._records) or 'nobody'}>"


def fetch_returned(
    engine: Engine, name: str, run: int | None = None, pickles: bool = False
) -> Mapping[str, Any]:
    """The return values of the functions of a run: instance -> value, in job order. Instances
    without a value are left out: the function returned None, still runs, or the program is no
    function. `pickles`: whether values that were sent as pickles are loaded, which runs code from
    the cluster. The engine is asked at the first access; just after the end that may take up to a
    minute."""
    return Returned(lambda: _records(engine.returned(name, run)), pickles)


def _records(files: Iterable[LogFile]) -> Records:
    records: dict[str, bytes | ReturnedError] = {}
    for file in files:
        why = file.missing and f"what it returned cannot be had: {file.missing}"
        try:
            records[file.instance] = ReturnedError(why) if why else file.path.read_bytes()
        except OSError as error:
            why = f"what it returned cannot be read: {error.strerror}: {file.path}"
            records[file.instance] = ReturnedError(why)
    return records


def decode(data: bytes, pickles: bool = False) -> object:
    """The value of one record, None if the function returned None. ReturnedError gives the reason
    why there is none. A pickle is loaded only if `pickles` is set."""
    try:
        record = json.loads(data)
        if "error" in record:
            raise ReturnedError(str(record["error"]))
        if "file" in record:
            return _value(json.loads(_read_file(**record["file"])), pickles)
        return _value(record.get("value"), pickles)
    except ReturnedError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ReturnedError(f"{DAMAGED}: {error}") from error
    except (EOFError, MemoryError, RecursionError) as error:
        raise ReturnedError(DAMAGED) from error


def _read_file(path: str, size: int, sha256: str) -> bytes:
    what = f"what it returned, {size / (1 << 20):.4g} MiB, is in {path}"
    try:
        # Never waits: what the name stands for here may be anything.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            data = file.read(size + 1) if regular else b""
    except OSError as error:
        raise ReturnedError(
            f"{what}, which cannot be read here: {error.strerror}",
            "Read it on a machine that sees the checkpoint folder, or copy the file to that path.",
        ) from error
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ReturnedError(f"{what}, and that file is not what it wrote: a later run has, maybe")
    return data


# ---- Values ----------------------------------------------------------------------------------
def _value(encoded: Any, pickles: bool) -> Any:
    if isinstance(encoded, list):
        return [_value(item, pickles) for item in encoded]
    if not isinstance(encoded, dict):
        return encoded
    kind = encoded.get("$")
    if kind is None:
        return {key: _value(item, pickles) for key, item in encoded.items()}
    if kind == "tuple":
        return tuple(_value(item, pickles) for item in encoded["items"])
    if kind == "dict":
        return {_value(key, pickles): _value(item, pickles) for key, item in encoded["items"]}
    if kind == "pickle":
        return _unpickled(_bytes(encoded["base64"]), pickles)
    return _DECODERS[kind](encoded)


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _array(encoded: Mapping[str, str]) -> Any:
    try:
        numpy: Any = importlib.import_module("numpy")
    except ImportError:
        raise ReturnedError(
            "what it returned has NumPy arrays, and NumPy is not installed here",
            "Install it: pip install numpy",
        ) from None
    return numpy.lib.format.read_array(io.BytesIO(_bytes(encoded["npy"])), allow_pickle=False)


_DECODERS = {
    "int": lambda encoded: int(encoded["hex"], 16),
    "float": lambda encoded: float(encoded["text"]),
    "bytes": lambda encoded: _bytes(encoded["base64"]),
    "array": _array,
    "scalar": lambda encoded: _array(encoded)[()],
}


def _unpickled(data: bytes, pickles: bool) -> Any:
    if not pickles:
        raise ReturnedError(
            "what it returned has a pickle in it, which can run code here and was not asked for",
            "With pickles=True it is loaded.",
        )
    try:
        return pickle.loads(data)
    except Exception as error:
        raise ReturnedError(
            f"the pickle that it returned cannot be read here: {type(error).__name__}: {error}",
            "Load it where what it needs is installed, in the versions of the program.",
        ) from error
