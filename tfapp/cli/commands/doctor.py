"""Checks what tfapp needs around it, and says what to mend.

One line for each thing: `ok`, `warning` (some applications will not run), or `problem` (none
will). On the local engine: Python, TFAPP_HOME and the room on its disk, TensorFlow, GPUs, a Docker
engine. With `--engine yarn`: Java, the command yarn, Hadoop's configuration, a Kerberos ticket or
keytab where one is asked for, the ResourceManager and its nodes, their clocks, HDFS. The exit
code is 0, or 53 when there is a problem. With --python, also whether that interpreter starts
where programs run: on YARN, in one small container on each node that takes containers (on one of
those that share a label), which takes half a minute or so and leaves nothing behind.

  tfapp doctor --engine yarn
  tfapp doctor --engine yarn --python /opt/tensorflow/bin/python
"""

from __future__ import annotations

import argparse
import dataclasses

from tfapp.cli.engine_flags import add_engine_flag, add_format_flag
from tfapp.cli.shell import Shell
from tfapp.cli.tables import to_json
from tfapp.errors import ExitCode

_COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `tfapp doctor`."""
    add_engine_flag(parser)
    parser.add_argument(
        "--python", metavar="FILE", help="an interpreter to start where programs run"
    )
    parser.add_argument(
        "--queue", default="default", metavar="Q", help="the queue for that (default: %(default)s)"
    )
    add_format_flag(parser)


def run(args: argparse.Namespace, shell: Shell) -> int:
    """Prints each finding as soon as it is known; as JSON, all of them at the end."""
    from tfapp.cli.console import style
    from tfapp.engines.diagnosis import PROBLEM

    findings = []
    for finding in shell.engine(args.engine).examine(args.python, args.queue):
        findings.append(finding)
        if args.format == "text":
            level = style(f"{finding.level:8}", _COLOURS[finding.level], shell.out, shell.environ)
            shell.print(f"{level} {finding.subject}: {finding.text}")
            if finding.mend:
                shell.print(f"         {finding.mend}")
            shell.out.flush()
    if args.format == "json":
        shell.print(to_json([dataclasses.asdict(finding) for finding in findings]))
    bad = any(finding.level == PROBLEM for finding in findings)
    return ExitCode.UNAVAILABLE if bad else ExitCode.SUCCESS
