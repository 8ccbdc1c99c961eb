"""Finds the schemas and the app packages that ship with tfapp.

They stand beside the package in a checkout (an editable install does not resolve the wheel's
`package_dir` mapping) and inside it in a wheel.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def schemas_dir() -> Path:
    """The folder of the `*.schema.json` files."""
    return _find("schemas", "schemas", "metainfo.schema.json")


def app_packages_dir() -> Path:
    """The folder of the shipped app packages, one folder each."""
    return _find("app-packages", "app_packages", "tensorflow")


def _find(checkout_name: str, wheel_name: str, member: str) -> Path:
    # tfapp/schemas holds the finished files only in a wheel; a sibling folder counts only when
    # it holds what is looked for, as site-packages may have a "schemas" folder of its own.
    inside = _PACKAGE / wheel_name
    if (inside / member).exists():
        return inside
    return _PACKAGE.parent / checkout_name
