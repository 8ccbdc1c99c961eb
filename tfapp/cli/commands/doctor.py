"""Checks that this machine and the cluster have what tfapp needs, and says what to do if not.

Prints one line for each check: `ok`, `warning` (some applications will not run), or `problem` (none
will). The exit code is 0, or 53 if there is a problem.

On the local engine it checks Python, TFAPP_HOME and its disk space, TensorFlow, GPUs and the Docker
engine. With `--engine yarn`: Java, the command yarn, Hadoop's configuration, the Kerberos ticket or
keytab if one is needed, the ResourceManager, the nodes and their clocks, and HDFS.

--python checks that this interpreter starts where programs run. On YARN that takes a small
container on each node of the queue (--queue), and about half a minute for each node label. With
`--engine spark` it takes a task in a session as in spark-defaults.conf. Nothing is left behind.

--storage checks that files can be written, read, renamed, listed and deleted below a URL, such as
hdfs://namenode:8020/user/me or s3://bucket/folder, from this machine. It says how fast that is, and
which credentials are in use. It needs the extra tfapp[storage]. What it makes there has a folder of
its own, .tfapp-doctor-..., which it deletes.

With another engine than the local one, and with -i, -e, --secret-env-file or --option, --storage
checks the same from a container of the engine, too, by a small application: what programs there
can do, with the credentials that they have. Its record is deleted afterwards.

  tfapp doctor --engine yarn
  tfapp doctor --engine yarn --python /opt/tensorflow/bin/python
  tfapp doctor --engine kubernetes --storage s3://bucket/data -i IMAGE --secret-env-file keys.env
"""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfapp.cli.flags import (
    add_engine_options,
    add_format_flag,
    engine_of,
    engine_options_of,
    note_unused_options,
)
from tfapp.cli.json_output import document
from tfapp.cli.shell import Shell
from tfapp.engines import DEFAULT_ENGINE
from tfapp.engines.diagnosis import Finding
from tfapp.errors import ExitCode

if TYPE_CHECKING:
    from tfapp.engines.base import Engine

_COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_engine_options(parser)
    parser.add_argument(
        "--python", metavar="FILE", help="an interpreter to check where programs run"
    )
    parser.add_argument(
        "--storage", metavar="URL", type=_url, help="a folder, as s3://bucket/folder, to check"
    )
    there = parser.add_argument_group("--storage from a container")
    there.add_argument("-i", "--image", metavar="IMAGE", help="the image of the container")
    there.add_argument(
        "-e",
        "--env",
        metavar="NAME[=VALUE]",
        action="append",
        default=[],
        help="a variable there, by default with the value that it has here; may be repeated",
    )
    there.add_argument(
        "--secret-env-file",
        metavar="FILE",
        type=Path,
        help="a file with variables there whose values are struck out of logs",
    )
    there.add_argument(
        "-O",
        "--option",
        metavar=("KEY", "VALUE"),
        nargs=2,
        action="append",
        default=[],
        help="a key of appConfig for the application that checks; may be repeated",
    )
    add_format_flag(parser)


def _url(text: str) -> str:
    from tfapp.contract.names import ENV_STORAGE_SCHEMES, opened_schemes

    schemes = opened_schemes(os.environ.get(ENV_STORAGE_SCHEMES, ""))
    if not text.startswith(tuple(f"{scheme}://" for scheme in schemes)):
        raise argparse.ArgumentTypeError(f"{text!r} is no URL of one of {', '.join(schemes)}")
    return text


def run(args: argparse.Namespace, shell: Shell) -> int:
    """Prints each finding as soon as it is known; as JSON, all of them at the end."""
    from tfapp.cli.console import style
    from tfapp.engines.diagnosis import PROBLEM

    note_unused_options(args, shell)
    findings = []
    for finding in _findings(args, shell):
        findings.append(finding)
        if args.format == "text":
            level = style(f"{finding.level:8}", _COLOURS[finding.level], shell.out, shell.environ)
            shell.print(f"{level} {finding.subject}: {finding.text}")
            if finding.hint:
                shell.print(f"         {finding.hint}")
            shell.flush()
    if args.format == "json":
        shell.print(document(findings=[_as_dict(finding) for finding in findings]))
    bad = any(finding.level == PROBLEM for finding in findings)
    return ExitCode.UNAVAILABLE if bad else ExitCode.SUCCESS


def _findings(args: argparse.Namespace, shell: Shell) -> Iterator[Finding]:
    engine = engine_of(args, shell)
    yield from engine.examine(args.python, engine_options_of(args, shell))
    if args.storage is not None:
        from tfapp.engines.diagnosis import OK, PROBLEM
        from tfapp.storage.check import check

        with contextlib.closing(check(args.storage, shell.environ)) as results:
            for step, text, failed in results:
                found = (PROBLEM, failed.words, failed.hint) if failed else (OK, text)
                yield Finding(f"storage {step}", *found)
        given = (args.image, args.env, args.secret_env_file, args.option)
        if args.engine != DEFAULT_ENGINE or any(given):
            yield from _from_container(args, engine, shell)


def _from_container(args: argparse.Namespace, engine: Engine, shell: Shell) -> Iterator[Finding]:
    from tfapp.api.arguments import Call
    from tfapp.api.storage_check import check_there
    from tfapp.launch.env_file import read_variables

    call = Call(
        engine=args.engine,
        env=read_variables(args.env, "-e", shell.environ),
        secret_env_file=args.secret_env_file,
        python=args.python,
        image=args.image,
        queue=args.queue,
        options=dict(args.option),
    )
    return check_there(args.storage, call, engine, shell)


def _as_dict(finding: Finding) -> dict[str, Any]:
    return {
        "subject": finding.subject,
        "level": finding.level,
        "text": finding.text,
        "mend": finding.hint or None,
    }
