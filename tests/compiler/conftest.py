"""`pytest tests/compiler --update-golden` writes what the golden tests expect anew."""

from __future__ import annotations


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="rewrite expected files")
