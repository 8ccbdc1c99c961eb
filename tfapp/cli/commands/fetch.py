"""Copies files of an application's checkpoint folder into the folder DIR of this machine, while it
runs or after its end, and prints their paths. PATH, a file or a folder below the checkpoint folder,
comes into DIR under its last name; without PATH, all files come.

Nothing is copied where a file would be replaced (75), unless with --force. A file that the
application is writing may come as it is at that moment.

  tfapp fetch mnist out
  tfapp fetch mnist export/model out          # out/model/...
"""

from __future__ import annotations

import argparse

from tfapp.cli.flags import add_name, engine_of, file_path
from tfapp.cli.shell import Shell
from tfapp.errors import ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `tfapp fetch`."""
    add_name(parser)
    parser.add_argument("path", metavar="PATH", nargs="?", default="", help="default: all")
    parser.add_argument("dir", metavar="DIR", type=file_path, help="a folder, made where it lacks")
    parser.add_argument("--force", action="store_true", help="replace files that are in DIR")


def run(args: argparse.Namespace, shell: Shell) -> int:
    """Fetches, and prints the new files."""
    from tfapp.launch.fetch import fetch

    for path in fetch(
        engine_of(args, shell), args.name, args.path, args.dir, shell, replace=args.force
    ):
        shell.print(str(path))
    return ExitCode.SUCCESS
