"""A component's script that Python cannot read.

Judged by the Python that runs tfapp. The local engine runs scripts by it, and a package is to run
on every engine, so what it does not know is an error also where the containers of a cluster have
a newer one: run tfapp with that. What an older one there does not know is only found by it.

    def start(self, context):     PASS
    def start(self, context:      FAIL
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from tfapp.errors import TfappError
from tfapp.package.find import place
from tfapp.package.model import AppPackage
from tfapp.problems import Position, Problem

CODE = "script-syntax"
NEEDS = ("metainfo",)


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports at the line and column in the script."""
    named = {component.script for component in package.components}
    for script in named.intersection(package.source.files()):
        if script.endswith(".py"):  # the loader refuses others
            yield from _check(package, script)


def _check(package: AppPackage, script: str) -> Iterator[Problem]:
    at = place(package.source, script)
    hint = "mend it; for what only a newer Python knows, run tfapp with that one"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(package.source.read(script), script, "exec", dont_inherit=True)
    except TfappError as error:
        yield Problem(at, CODE, error.message, hint=error.hint)
    except SyntaxError as error:
        if error.lineno:
            at = Position(at.file, error.lineno, max(error.offset or 1, 1))
        yield Problem(at, CODE, f"Python cannot read the script: {error.msg}", hint=hint)
    except ValueError as error:  # a NUL, in older Pythons
        yield Problem(at, CODE, f"Python cannot read the script: {error}", hint=hint)
