"""Lists the app packages that tfapp brings. `create`, `validate`, `compile` and `run --appdef` take
one by its name; `init --package` makes a copy of one, to change.

  tfapp packages
  tfapp init my-app --package keras-jax
"""

from __future__ import annotations

import argparse

from tfapp.cli.console import columns
from tfapp.cli.flags import add_format_flag
from tfapp.cli.json_output import show
from tfapp.cli.shell import Shell
from tfapp.shipped import app_packages

add_arguments = add_format_flag


def run(args: argparse.Namespace, shell: Shell) -> None:
    from tfapp.package.load import load_package

    loaded = {name: load_package(path).package for name, path in app_packages().items()}
    rows = [(name, package.comment) for name, package in loaded.items() if package is not None]
    found = [{"name": name, "comment": comment} for name, comment in rows]
    show(args, shell, columns(("NAME", "WHAT IT RUNS"), rows), packages=found)
