"""Copies files from an application's checkpoint folder to the folder DIR on this machine, and
prints their paths. Works while the application runs and after its end. PATH is a file or a folder
in the checkpoint folder, and keeps its last name in DIR. Without PATH, all files are copied.

If a file exists in DIR already, nothing is copied (75), unless --force is given. A file that the
application is writing at that moment may be incomplete.

  tfapp fetch mnist out
  tfapp fetch mnist out --outputs             # out/worker_0/model.txt, ...
  tfapp fetch mnist export/model out          # out/model/...
"""

from __future__ import annotations

import argparse

from tfapp.cli.flags import add_name, engine_of, file_path
from tfapp.cli.shell import Shell


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_name(parser)
    parser.add_argument("path", metavar="PATH", nargs="?", default="", help="default: all files")
    parser.add_argument(
        "dir", metavar="DIR", type=file_path, help="a folder; it is created if necessary"
    )
    parser.add_argument(
        "--outputs",
        action="store_true",
        help="from what the programs of the newest run have left in their working folders, "
        "INSTANCE/FILE, instead of the checkpoint folder",
    )
    parser.add_argument("--force", action="store_true", help="replace existing files in DIR")


def run(args: argparse.Namespace, shell: Shell) -> None:
    from tfapp.launch.fetch import fetch

    engine = engine_of(args, shell)
    for path in fetch(
        engine, args.name, args.path, args.dir, shell, replace=args.force, outputs=args.outputs
    ):
        shell.print(str(path))
