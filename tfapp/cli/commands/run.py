"""Runs one training script on N workers, with tfapp's own TensorFlow package around it, and
follows it to its end as `tfapp create` does.

The script gets TF_CONFIG, WORKER_NUMBER and TOT_WORKERS; plain tf.distribute code needs nothing
else. With --ps there is a chief besides, as ParameterServerStrategy needs one. Words after `--`
are the script's arguments. --option, --resopt and their like set any other key of that package.

  tfapp run train.py -w 4 -- --epochs 10
  tfapp run train.py -w 4 --engine yarn --rescompopt worker yarn.gpus 1
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from tfapp.cli.commands.create import add_launch_flags, launch
from tfapp.cli.engine_flags import application_name
from tfapp.cli.package_flags import add_override_flags, file_path, overrides_of
from tfapp.cli.shell import Shell
from tfapp.contract.names import MAX_NAME
from tfapp.errors import NotFoundError, UsageError
from tfapp.package.nearby import nearby

if TYPE_CHECKING:
    from tfapp.cli.request import Request


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `tfapp run`."""
    parser.usage = "%(prog)s SCRIPT [-w N] [--ps N] [options] [-- ARGS ...]"
    parser.set_defaults(passed=[])
    parser.add_argument("script", metavar="SCRIPT", type=file_path, help="the training script")
    parser.add_argument(
        "-w", "--workers", metavar="N", type=_count, default=2, help="default: %(default)s"
    )
    parser.add_argument("--ps", metavar="N", type=_count, default=0, help="parameter servers")
    parser.add_argument("--evaluator", action="store_true", help="one evaluator besides")
    parser.add_argument("--tensorboard", action="store_true", help="a TensorBoard besides")
    parser.add_argument("-i", "--image", metavar="IMAGE", help="run in this container image")
    parser.add_argument(
        "-c",
        "--command",
        metavar="COMMAND",
        type=file_path,
        help="an entrypoint script that is run as it is, in SCRIPT's place; it finds SCRIPT and "
        "ARGS in its own arguments",
    )
    parser.add_argument(
        "-p", "--port", metavar="PORT", type=_port, help="the workers' gRPC port where it is free"
    )
    parser.add_argument(
        "-e",
        "--env-file",
        metavar="ENVFILE",
        type=file_path,
        help="NAME=value lines; never printed",
    )
    parser.add_argument(
        "--files",
        metavar="PATH",
        type=file_path,
        action="append",
        default=[],
        help="ship a file or folder too",
    )
    parser.add_argument("--name", metavar="NAME", help="default: SCRIPT-xxxx")
    parser.add_argument(
        "-t", "--tag", metavar="T", action="append", default=[], help="for `tfapp list --tag T`"
    )
    add_override_flags(parser.add_argument_group("the package"))
    add_launch_flags(parser)


def run(args: argparse.Namespace, shell: Shell) -> int:
    """Submits the TensorFlow package with the script in it."""
    for path in filter(None, (args.script, args.command)):
        if not path.is_file():
            raise NotFoundError(f"there is no file {path}", _other_hint(path))
    name = application_name(args.name) if args.name else name_for(args.script)
    return launch(name, lambda: _request(name, args), args, shell)


def _request(name: str, args: argparse.Namespace) -> Request:
    from tfapp.cli.env_file import read_env_file
    from tfapp.cli.request import Request
    from tfapp.package.source import collect_user_files
    from tfapp.shipped import app_packages_dir

    given = overrides_of(args)
    return Request(
        name=name,
        appdef=app_packages_dir() / "tensorflow",
        overrides=dataclasses.replace(
            given,
            options=(*options_of(args), *given.options),
            components=(*components_of(args), *given.components),
        ),
        files=collect_user_files([*args.files, *filter(None, (args.command, args.script))]),
        programs=False,  # a sample, of a common name: the script may mean another module by it
        queue=args.queue,
        tags=tuple(sorted(set(args.tag))),
        environment=read_env_file(args.env_file) if args.env_file else {},
    )


def components_of(args: argparse.Namespace) -> tuple[tuple[str, str], ...]:
    """How many instances of each component the flags mean."""
    if not args.workers and not args.ps:
        raise UsageError("there is nothing to run with no workers", "Give -w 1 or more.")
    counts = {
        "chief": 1 if args.ps else 0,
        "worker": args.workers,
        "ps": args.ps,
        "evaluator": int(args.evaluator),
        "tensorboard": int(args.tensorboard),
    }
    return tuple((name, str(count)) for name, count in counts.items())


def options_of(args: argparse.Namespace) -> tuple[tuple[str, str], ...]:
    """The appConfig keys that the flags mean."""
    entry, words = args.script, args.passed
    if args.command:
        entry, words = args.command, [args.script.name, *args.passed]
    options = [
        ("site.global.user.scripts.entry", entry.name),
        ("site.global.user.scripts.args", shlex.join(words)),
    ]
    if args.image:
        options += [("site.global.run.mode", "docker"), ("site.global.docker.image", args.image)]
    if args.port:
        port = f"${{worker.ALLOCATED_PORT}}{{DEFAULT_{args.port}}}{{PER_CONTAINER}}"
        options.append(("site.global.worker.port", port))
    return tuple(options)


def name_for(script: Path) -> str:
    """A new name for an application that runs `script`: "train-4f1a"."""
    stem = re.sub(r"[^a-z0-9_-]+", "-", script.stem.lower()).strip("-_")
    if not stem[:1].isalpha():
        stem = f"run-{stem}".rstrip("-")
    return f"{stem[: MAX_NAME - 5]}-{os.urandom(2).hex()}"


def _other_hint(path: Path) -> str:
    if path.is_dir():
        return f"It is a folder; a package: `tfapp create NAME --appdef {path}`."
    found = nearby(path)
    return f"Did you mean {found}?" if found else ""


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of instances")
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 1 << 16:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (1 to 65535)")
    return int(text)
