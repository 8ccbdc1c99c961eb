"""Shows the values that the instances of an application export, such as their addresses and
URLs.

  tfapp exports mnist
"""

from __future__ import annotations

import argparse

from tfapp.cli.console import columns
from tfapp.cli.flags import add_shown, status_of
from tfapp.cli.json_output import show
from tfapp.cli.shell import Shell

add_arguments = add_shown


def run(args: argparse.Namespace, shell: Shell) -> None:
    """Prints one line for each export of each instance."""
    rows = [
        (group, name, instance.instance, value)
        for instance in status_of(args, shell).instances
        for group, exports in sorted(instance.exports.items())
        for name, value in sorted(exports.items())
    ]
    header = ("group", "name", "instance", "value")
    text = columns([word.upper() for word in header], rows, shell.width)
    show(args, shell, text, exports=[dict(zip(header, row)) for row in rows])
