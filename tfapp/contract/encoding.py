"""Encodes values of the contract as JSON, and selects the known fields of JSON objects."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any


def encode(value: Any) -> bytes:
    """A value of the contract, or plain JSON data, as compact UTF-8 JSON."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()


def known(cls: type, data: Mapping[str, Any]) -> dict[str, Any]:
    """The items of `data` that are fields of the dataclass `cls`. A newer tfapp may have written
    others."""
    names = {field.name for field in dataclasses.fields(cls)}
    return {key: value for key, value in data.items() if key in names}
