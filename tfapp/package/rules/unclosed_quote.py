"""Arguments of a program that cannot be split into words: a quote is never closed, or a
backslash stands at the end.

They are written as in a shell. That each container would find as well, only later.

    user.scripts.args: --title 'two words'      PASS
    user.scripts.args: --title 'two words       FAIL
    user.scripts.args: --title it\\'s            PASS
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from tfapp.package.docker import CLOSE_THE_QUOTE
from tfapp.package.model import AppPackage
from tfapp.package.rules.written import all_values
from tfapp.problems import Problem

CODE = "unclosed-quote"
NEEDS = ("appConfig",)
KEYS = ("site.global.user.scripts.args", "site.global.tensorboard.args")


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports at the value."""
    for key, value in all_values(package):
        if key in KEYS:
            try:
                shlex.split(value.text)
            except ValueError as error:
                message = f"{key} cannot be split into words: {error}"
                yield Problem(value.at, CODE, message, hint=CLOSE_THE_QUOTE)
