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


def app_packages() -> dict[str, Path]:
    """The shipped app packages: name -> folder, sorted by name."""
    folders = sorted(path.parent for path in app_packages_dir().glob("*/metainfo.yaml"))
    return {folder.name: folder for folder in folders}


def find_package(path: Path) -> Path:
    """The package that a user calls `path`: that file or folder, else the shipped one of this name.
    What the user has comes first: a package that tfapp gets later changes no command line."""
    return path if path.exists() else app_packages().get(str(path), path)


def _find(checkout_name: str, wheel_name: str, member: str) -> Path:
    # The folder inside is tried first: only a wheel has it, and beside an installed package, in
    # site-packages, there may be a "schemas" folder of another project.
    inside = _PACKAGE / wheel_name
    if (inside / member).exists():
        return inside
    return _PACKAGE.parent / checkout_name
