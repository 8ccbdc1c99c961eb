"""Finds the schemas and the app packages that ship with tfapp.

In a wheel they are inside the Python package. In a checkout they are beside it, because an editable
install does not resolve the wheel's `package_dir` mapping.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def schemas_dir() -> Path:
    return _find("schemas", "schemas", "metainfo.schema.json")


def app_packages_dir() -> Path:
    """The folder of the shipped app packages, one folder each."""
    return _find("app-packages", "app_packages", "tensorflow")


def _find(checkout_name: str, wheel_name: str, member: str) -> Path:
    # The folder inside is tried first: only a wheel has it, and beside an installed package, in
    # site-packages, there may be a "schemas" folder of another project.
    inside = _PACKAGE / wheel_name
    if (inside / member).exists():
        return inside
    return _PACKAGE.parent / checkout_name
