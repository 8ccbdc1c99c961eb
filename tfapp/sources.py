"""The one way to read the source of a Python program."""

from __future__ import annotations

import ast

_TRIES = 10


def parsed(source: bytes | str) -> ast.Module:
    """As ast.parse, in any thread: up to Python 3.11.7 and 3.12.1 that one fails now and then with
    a SystemError where two threads do so at the same time (gh-106905 of CPython)."""
    for _ in range(_TRIES - 1):
        try:
            return ast.parse(source)
        except SystemError:
            continue
    return ast.parse(source)
