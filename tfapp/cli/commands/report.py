"""Writes the page of an application as one HTML file, to keep or to send: state, instances,
history, metrics, and the last lines of the logs. The file needs no server and no network.

  tfapp report mnist -o mnist.html
"""

from __future__ import annotations

import argparse

from tfapp.cli.flags import add_name, add_run_flag, engine_of, file_path
from tfapp.cli.shell import Shell
from tfapp.disk import write_atomically, writing
from tfapp.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_name(parser)
    add_run_flag(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=file_path, help="the file (default: standard output)"
    )


def run(args: argparse.Namespace, shell: Shell) -> None:
    from tfapp.launch.pages import kept
    from tfapp.page.html import page

    if args.output is None and shell.out.isatty():
        raise UsageError(
            "the report is an HTML page, which a terminal does not show",
            f"Give it a file: -o {args.name}.html",
        )
    document = page(kept(engine_of(args, shell), args.name, args.run)).encode()
    if args.output is None:
        shell.write(document)
        return
    target = shell.cwd / args.output
    with writing(target):
        write_atomically(target, document)
    shell.note(f"the report is in {target}")
