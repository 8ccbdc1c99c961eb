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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Union

from tfapp.api.errors import told_in_full
from tfapp.errors import ReturnedError, TfappError, UnavailableError
from tfapp.storage import folders

if TYPE_CHECKING:
    from tfapp.engines.base import Engine, LogFile

DAMAGED = "what it returned is damaged"


Records = Mapping[str, Union[bytes, ReturnedError]]


class Lazy(Mapping[str, Any]):
    """Maps instances to what they have said. The instances and each value are fetched at the first
    access to them, once. `about` begins the text that the mapping is shown as. A pickle of it has
    all values; with `left_behind`, only those that were fetched before, and that is the error for
    the others."""

    def __init__(
        self,
        instances: Callable[[], Collection[str]],
        fetch: Callable[[str], Any],
        about: str = "",
        left_behind: TfappError | None = None,
    ):
        self._instances = functools.lru_cache(maxsize=None)(told_in_full()(instances))
        self._fetch = told_in_full()(fetch)
        self._about = about
        self._left_behind = left_behind
        self._fetched: dict[str, Any] = {}

    def __getitem__(self, instance: str) -> Any:
        if instance not in self:
            raise KeyError(instance)
        if instance not in self._fetched:
            self._fetched[instance] = self._fetch(instance)
        return self._fetched[instance]

    def __contains__(self, instance: object) -> bool:
        return instance in self._instances()

    def __iter__(self) -> Iterator[str]:
        return iter(self._instances())

    def __len__(self) -> int:
        return len(self._instances())

    def __repr__(self) -> str:
        nobody = "nobody" if self._about else "nothing"
        return f"<{self._about}{', '.join(self._instances()) or nobody}>"

    def __reduce__(self) -> tuple[Any, ...]:
        try:
            outcomes = {instance: self._outcome(instance) for instance in self}
        except TfappError as error:  # the engine does not answer
            return _travelled, ({}, self._about, error)
        return _travelled, (outcomes, self._about, None)

    def _outcome(self, instance: str) -> tuple[Any, TfappError | None]:
        """A value, or the error for it."""
        if self._left_behind is not None and instance not in self._fetched:
            return None, self._left_behind
        try:
            return self[instance], None
        except TfappError as error:
            return None, error


def _travelled(
    outcomes: Mapping[str, tuple[Any, TfappError | None]], about: str, error: TfappError | None
) -> Lazy:
    """What a pickle of a `Lazy` is read back as."""

    def instances() -> Collection[str]:
        if error is not None:
            raise error
        return outcomes.keys()

    def fetch(instance: str) -> Any:
        value, why = outcomes[instance]
        if why is not None:
            raise why
        return value

    return Lazy(instances, fetch, about)


def fetch_returned(
    engine: Engine, name: str, run: int | None = None, pickles: bool = False
) -> Mapping[str, Any]:
    """The return values of the functions of a run: instance -> value, in job order. Instances
    without a value are left out: the function returned None, still runs, or the program is no
    function. `pickles`: whether values that were sent as pickles are loaded, which runs code from
    the cluster. The engine is asked at the first access; just after the end that may take up to a
    minute. ReturnedError for a value that is not plain data, is too large, or is on a lost node."""
    records = functools.lru_cache(maxsize=None)(lambda: _records(engine.returned(name, run)))

    def value_of(instance: str) -> Any:
        record = records()[instance]
        try:
            if isinstance(record, ReturnedError):
                raise record
            return decode(record, pickles)
        except ReturnedError as error:
            raise ReturnedError(f"{instance}: {error.message}", error.hint) from error

    return Lazy(records, value_of, "returned by ")


def _records(files: Iterable[LogFile]) -> Records:
    records: dict[str, bytes | ReturnedError] = {}
    for file in files:
        why = file.missing and f"what it returned cannot be read: {file.missing}"
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


def _read_file(path: str, size: int, sha256: str, schemes: str = "") -> bytes:
    what = f"what it returned, {size / (1 << 20):.4g} MiB, is in {path}"
    try:
        store = folders.store_of(path, schemes=schemes)
        if store is not None:
            with folders.opening(path):
                return _checked(folders.read(store, path, size), what, sha256)
        # Never waits: what the name stands for here may be anything.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            data = file.read(size + 1) if regular else b""
    except OSError as error:
        raise ReturnedError(
            f"{what}, which cannot be read here: {error.strerror or error}",
            "Read it on a machine that sees the checkpoint folder, or copy the file to that path.",
        ) from error
    except UnavailableError as error:
        words = f"{what}, which cannot be read here: {error.message}"
        raise ReturnedError(words, error.hint) from error
    return _checked(data, what, sha256)


def _checked(data: bytes, what: str, sha256: str) -> bytes:
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
