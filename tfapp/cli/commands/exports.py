"""Shows the values that the instances of an application export, such as addresses and URLs.

tfapp exports mnist
"""

from __future__ import annotations

import argparse

from tfapp.cli.console import columns
from tfapp.cli.flags import add_format_flag, add_name, add_run_flag, engine_of
from tfapp.cli.json_output import document
from tfapp.cli.shell import Shell
from tfapp.errors import ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `tfapp exports`."""
    add_name(parser)
    add_run_flag(parser)
    add_format_flag(parser)


def run(args: argparse.Namespace, shell: Shell) -> int:
    """Prints one line for each export of each instance."""
    status = engine_of(args, shell).find(args.name, args.run).status
    rows = [
        (group, name, instance.instance, value)
        for instance in status.instances
        for group, exports in sorted(instance.exports.items())
        for name, value in sorted(exports.items())
    ]
    header = ("group", "name", "instance", "value")
    if args.format == "json":
        shell.print(document(exports=[dict(zip(header, row)) for row in rows]))
    else:
        shell.print(columns([word.upper() for word in header], rows, shell.width))
    return ExitCode.SUCCESS
