"""Encodes values of the contract as JSON, and makes them of JSON again."""

from __future__ import annotations

import builtins
import dataclasses
import enum
import functools
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

# For a field's type, those that its value has in JSON.
_PLAIN: Mapping[Any, tuple[type, ...]] = {
    str: (str,),
    int: (int,),
    float: (float, int),
    bool: (bool,),
}


def encode(value: Any) -> bytes:
    """A value of the contract, or plain JSON data, as compact UTF-8 JSON. Surrogates, which are no
    UTF-8 (see tfapp.runner.output.utf8), become "?"."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    text = json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    return text.encode(errors="replace")


def plain(value: Any) -> Any:
    """A value that JSON does not have as one that it has: of a dataclass, an enum or a frozenset.
    For `json.dumps(default=)`."""
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, frozenset):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


class Coded:
    """The base of dataclasses that come back from JSON. A field's type says what becomes of its
    value: `tuple`, `frozenset`, `Mapping[str, X]`, `X | None`, an enum, another dataclass, or what
    JSON has already."""

    @classmethod
    def from_dict(cls: type[T], data: Mapping[str, Any]) -> T:
        """The value that `encode` has made `data` of. Items that are no fields are left out: a
        newer tfapp may have written them. ValueError if `data` is something else."""
        try:
            found: T = decode(cls, data)
        except TypeError as error:
            raise ValueError(str(error)) from error
        return found


def decode(cls: Any, data: Mapping[str, Any]) -> Any:
    """As `Coded.from_dict`, of any dataclass whose fields are like that. TypeError."""
    readers, values = _readers(cls), {}
    for name, value in _OBJECT(data).items():
        if name in readers:
            read = readers[name]
            values[name] = value if read is None else read(value)
    return cls(**values)


@functools.cache
def _readers(cls: Any) -> dict[str, Callable[[Any], Any] | None]:
    """For each field what makes its value of what JSON has; None where that is the value."""
    names = {**vars(builtins), **vars(sys.modules[cls.__module__])}
    return {field.name: _reader(field.type, names) for field in dataclasses.fields(cls)}


def _reader(declared: Any, names: Mapping[str, Any]) -> Callable[[Any], Any] | None:
    """`declared`: the type as it is written. `names`: those of its module."""
    if declared.endswith(" | None"):
        read = _reader(declared[: -len(" | None")], names)
        return read and (lambda value: None if value is None else read(value))
    kind, _, inner = declared.removesuffix("]").partition("[")
    if kind == "tuple":
        item: Any = _reader(inner.rpartition(", ")[0], names) if inner.endswith("...") else None
        entries = _checked(list, tuple)
        return lambda value: tuple(map(item, entries(value)) if item else entries(value))
    if kind == "frozenset":
        return lambda value: frozenset(_checked(list)(value))
    if kind == "Mapping":
        item = _reader(inner.partition(", ")[2], names)
        if item is None:
            return _OBJECT
        return lambda value: {key: item(each) for key, each in _OBJECT(value).items()}
    found = names[kind]
    if found in _PLAIN:
        return _checked(*_PLAIN[found])
    if isinstance(found, type) and issubclass(found, enum.Enum):
        return found
    return functools.partial(decode, found) if dataclasses.is_dataclass(found) else None


def _checked(*kinds: type) -> Callable[[Any], Any]:
    """Returns a value of one of these types as it is; TypeError for any other."""

    def read(value: Any) -> Any:
        if not isinstance(value, kinds):
            raise TypeError(f"expected {kinds[0].__name__}, found {type(value).__name__}")
        return value

    return read


_OBJECT = _checked(dict, Mapping)
