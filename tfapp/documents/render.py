"""Renders data as YAML, in the style of tfapp's packages."""

from __future__ import annotations

import sys
from typing import Any

import yaml


def render_yaml(data: Any) -> str:
    """`data` (dicts, lists and scalars) as YAML. It is equal to `data` when parsed; the order of
    keys is kept."""
    return yaml.safe_dump(
        data, sort_keys=False, allow_unicode=True, default_flow_style=False, width=sys.maxsize
    )
