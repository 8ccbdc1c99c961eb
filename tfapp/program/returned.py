"""Records the return value of a function as a file in the log folder, from which it is fetched for
the caller.

tfapp-returned.json is a JSON object with the key "generation", the number of the cluster, and one
of the following keys. Without any of them the function returned None.

    "value"  the encoded value, of at most 1 MiB
    "file"   {"path", "size", "sha256"} of a larger value, below the checkpoint folder; the path may
             be a URL, and "schemes" are those that the program opens by tfapp besides tfapp's own
    "error"  a sentence: why the value cannot be returned

Numbers, text, None, lists and dictionaries with text keys are encoded as in JSON. Other values are
objects with the key "$", which names their kind: "int" and "float" (not representable in JSON),
"bytes", "tuple", "dict" (other keys), "array" and "scalar" (NumPy, as the bytes of an .npy file),
and "pickle" if the caller allows pickles. `tfapp.api.returned` decodes it.
"""

from __future__ import annotations

import base64
import importlib
import io
import json
import math
import os
import reprlib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tfapp.errors import TfappError

FILE = "tfapp-returned.json"  # in the log folder; tfapp.contract.names has it too
FOLDER = "returned"  # in the checkpoint folder
LIMIT = 1 << 20  # bytes of an encoded value in the record itself

_INTEGERS = 1 << 63  # larger ones are no number to other readers of JSON
_DATA = "return numbers, text, bytes, lists, dicts or NumPy arrays"
_HINTS = {
    "History": "return its .history",
    "Model": "save it below the checkpoint folder",
    "Layer": "return its .get_weights()",
    "DataFrame": "return its .to_dict('list')",
    "Series": "return its .to_numpy()",
    "PurePath": "return str() of it",
    "set": "return a list",
    "frozenset": "return a list",
    "date": "return its .isoformat()",
}


class NoDataError(Exception):
    """A part of a value cannot be encoded. `said` continues a sentence about it: "is a set,
    ..."."""

    def __init__(self, said: str):
        super().__init__(said)
        self.said = said
        self.keys: list[Any] = []  # of the containers around it, the innermost first

    def __str__(self) -> str:
        return f"returned{''.join(f'[{reprlib.repr(k)}]' for k in reversed(self.keys))} {self.said}"


class _TooLargeError(Exception):
    pass


def write(value: Any, pickles: bool = False, environ: Mapping[str, str] | None = None) -> None:
    """Writes the record of a return value into the log folder, atomically. `pickles`: whether other
    values are pickled. Never raises: a value that cannot be returned costs a warning on standard
    error. `environ`: the environment of the program."""
    environ = os.environ if environ is None else environ
    record: dict[str, Any] = {"generation": int(environ.get("TFAPP_GENERATION", "1"))}
    try:
        record.update(_outcome(value, pickles, environ))
    except (NoDataError, _TooLargeError, OSError) as error:
        record["error"] = str(error)
    except RecursionError:
        record["error"] = "what it returned is nested too deeply, or contains itself"
    except MemoryError:
        record["error"] = "what it returned does not fit into memory a second time, to be sent"
    try:
        _write_atomically(Path(environ["TFAPP_LOG_DIR"], FILE), _json(record))
    except OSError as error:
        record["error"] = str(error)
    if "error" in record:
        print(
            f"tfapp: what the program returned does not come back: {record['error']}",
            file=sys.stderr,
            flush=True,
        )


def _outcome(value: Any, pickles: bool, environ: Mapping[str, str]) -> dict[str, Any]:
    if value is None:
        return {}
    encoded = _Encoder(pickles).encode(value)
    data = _json(encoded)
    if len(data) <= LIMIT:
        return {"value": encoded}
    name = f"{environ['TFAPP_COMPONENT']}-{environ.get('TFAPP_INDEX', '0')}.json"
    path = f"{_shared_folder(environ, len(data))}/{FOLDER}/{name}"
    if "://" in path:
        _send(data, path, environ)
    else:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        _write_atomically(Path(path), data)
    hashlib = importlib.import_module("hashlib")  # seldom needed, and large
    digest = hashlib.sha256(data).hexdigest()
    file = {"path": path, "size": len(data), "sha256": digest}
    if schemes := environ.get("TFAPP_STORAGE_SCHEMES"):
        file["schemes"] = schemes
    return {"file": file}


def _shared_folder(environ: Mapping[str, str], size: int) -> str:
    """The checkpoint folder, for a value of `size` bytes, which is too large for the record. A path
    or a URL."""
    large = f"what it returned is {_amount(size)}, and at most {_amount(LIMIT)} come back"
    place = environ.get("TFAPP_CHECKPOINT_DIR", "")
    if place.startswith("file:///"):
        place = place[len("file://") :]
    # Without a prefix it is a folder of the container, beside its work folder.
    if not place or Path(place).parent == Path(environ.get("TFAPP_WORK_DIR", "/")).parent:
        raise _TooLargeError(
            f"{large} without a checkpoint folder; give checkpoints=, and larger values are kept "
            "there"
        )
    return place.rstrip("/")


def _send(data: bytes, url: str, environ: Mapping[str, str]) -> None:
    """Writes a file at a URL. It appears as a whole."""
    try:
        # Seldom needed, and only where programs open URLs it is there.
        folders = importlib.import_module("tfapp.storage.folders")
        store = folders.store_of(url, environ)
        if store is not None:
            with folders.opening(url):
                folders.put(store, [data], url)
            return
        why = "the packages of tfapp open no such URL"
    except (ImportError, OSError, TfappError) as error:
        why = str(error)
    amounts = f"{_amount(len(data))}, more than {_amount(LIMIT)}"
    raise _TooLargeError(f"what it returned is {amounts}, and {url} cannot be written: {why}")


def _amount(size: int) -> str:
    return f"{max(size, LIMIT) / (1 << 20):.4g} MiB"


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def _write_atomically(path: Path, data: bytes) -> None:
    new = path.with_name(f"{path.name}.new-{os.getpid()}")
    try:
        new.write_bytes(data)
        os.replace(new, path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


# ---- Values ----------------------------------------------------------------------------------
class _Encoder:
    def __init__(self, pickles: bool):
        self._pickles = pickles
        # A value can be NumPy's only where its program has loaded it.
        self._numpy: Any = sys.modules.get("numpy")

    def encode(self, value: Any) -> Any:
        """The encoded value. NoDataError names the first part that cannot be encoded."""
        if value is None or isinstance(value, bool):
            return value
        try:
            return self._encode(value)
        except NoDataError as error:
            if not self._pickles or error.keys:
                raise
        return {"$": "pickle", "base64": _base64(_pickled(value))}

    def _encode(self, value: Any) -> Any:
        if self._numpy is not None and isinstance(
            value, (self._numpy.ndarray, self._numpy.generic)
        ):
            return self._array(value)
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, int):
            value = int(value)
            return value if abs(value) < _INTEGERS else {"$": "int", "hex": hex(value)}
        if isinstance(value, float):
            value = float(value)
            return value if math.isfinite(value) else {"$": "float", "text": repr(value)}
        if isinstance(value, (bytes, bytearray)):
            return {"$": "bytes", "base64": _base64(value)}
        if isinstance(value, list):
            return self._each(enumerate(value))
        if isinstance(value, tuple):
            return {"$": "tuple", "items": self._each(enumerate(value))}
        if isinstance(value, dict):
            return self._dict(value)
        tensor = _tensor(value)
        if tensor is not None:
            # TensorFlow's text is an array of objects, each of them bytes.
            text = getattr(getattr(tensor, "dtype", None), "hasobject", False)
            return self.encode(tensor.tolist() if text else tensor)
        raise NoDataError(_no_data(value))

    def _each(self, items: Iterable[tuple[Any, Any]]) -> list[Any]:
        encoded = []
        for key, item in items:
            try:
                encoded.append(self.encode(item))
            except NoDataError as error:
                error.keys.append(key)
                raise
        return encoded

    def _dict(self, value: dict[Any, Any]) -> dict[str, Any]:
        values = self._each(value.items())
        if all(type(key) is str for key in value) and "$" not in value:
            return dict(zip(value, values))
        try:
            keys = [self.encode(key) for key in value]
        except NoDataError as error:
            raise NoDataError(f"has a key that {error.said}") from None
        return {"$": "dict", "items": [list(pair) for pair in zip(keys, values)]}

    def _array(self, value: Any) -> dict[str, str]:
        array = self._numpy.asanyarray(value)
        name = f"is a NumPy array of dtype {array.dtype}"
        if array.dtype.hasobject:
            raise NoDataError(f"{name}, which is no data; return its .tolist()")
        if isinstance(array, self._numpy.ma.MaskedArray):
            raise NoDataError("is a masked array, which is no data; return its .filled() and .mask")
        form = self._numpy.lib.format
        if form.descr_to_dtype(form.dtype_to_descr(array.dtype)) != array.dtype:
            raise NoDataError(f'{name}, which no .npy file has; return its .astype("float32")')
        file = io.BytesIO()
        form.write_array(file, self._numpy.asarray(array), allow_pickle=False)
        kind = "scalar" if isinstance(value, self._numpy.generic) else "array"
        return {"$": kind, "npy": _base64(file.getvalue())}


def _base64(data: bytes | bytearray) -> str:
    return base64.b64encode(data).decode()


def _tensor(value: Any) -> Any:
    """The NumPy value of a TensorFlow tensor or variable; None for any other value."""
    if type(value).__module__.partition(".")[0] not in ("tensorflow", "keras", "tf_keras"):
        return None
    try:
        return value.numpy()
    except (AttributeError, NotImplementedError, TypeError):
        return None  # what has no value yet, or never has one


def _no_data(value: Any) -> str:
    """Describes a value that cannot be encoded: "is a keras History, which is no data; return its
    .history, or give pickles=True"."""
    kind = type(value)
    room = kind.__module__.partition(".")[0]
    name = kind.__name__ if room in ("builtins", "__main__") else f"{room} {kind.__name__}"
    article = "an" if name[:1].lower() in "aeiou" else "a"
    hints = (_HINTS[base.__name__] for base in kind.__mro__ if base.__name__ in _HINTS)
    default = (
        "return dataclasses.asdict() of it" if hasattr(kind, "__dataclass_fields__") else _DATA
    )
    return f"is {article} {name}, which is no data; {next(hints, default)}, or give pickles=True"


def _pickled(value: Any) -> bytes:
    try:
        # A call ships it: it also takes what is defined in the program itself.
        pickler: Any = importlib.import_module("cloudpickle")
    except ImportError:
        pickler = importlib.import_module("pickle")
    try:
        return pickler.dumps(value)
    except RecursionError:
        raise
    except Exception as error:
        text = " ".join(str(error).split())
        raise NoDataError(f"does not pickle: {type(error).__name__}: {text}") from None
