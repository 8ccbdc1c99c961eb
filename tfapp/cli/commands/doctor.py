"""Checks that this machine and the cluster have what tfapp needs, and says what to do if not.

Prints one line for each check: `ok`, `warning` (some applications will not run), or `problem` (none
will). The exit code is 0, or 53 if there is a problem.

On the local engine it checks Python, TFAPP_HOME and its disk space, TensorFlow, GPUs and the Docker
engine. With `--engine yarn`: Java, the command yarn, Hadoop's configuration, the Kerberos ticket or
keytab if one is needed, the ResourceManager, the nodes and their clocks, and HDFS.

--python checks that this interpreter starts where programs run. On YARN that takes a small
container on each node of the queue (--queue), and about half a minute for each node label. With
`--engine spark` it takes a task in a session as in spark-defaults.conf. Nothing is left behind.

  tfapp doctor --engine yarn
  tfapp doctor --engine yarn --python /opt/tensorflow/bin/python
"""

from __future__ import annotations

import argparse
from typing import Any

from tfapp.cli.flags import (
    add_engine_options,
    add_format_flag,
    engine_of,
    engine_options_of,
    note_unused_options,
)
from tfapp.cli.json_output import document
from tfapp.cli.shell import Shell
from tfapp.engines.diagnosis import Finding
from tfapp.errors import ExitCode

_COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_engine_options(parser)
    parser.add_argument(
        "--python", metavar="FILE", help="an interpreter to check where programs run"
    )
    add_format_flag(parser)


def run(args: argparse.Namespace, shell: Shell) -> int:
    """Prints each finding as soon as it is known; as JSON, all of them at the end."""
    from tfapp.cli.console import style
    from tfapp.engines.diagnosis import PROBLEM

    note_unused_options(args, shell)
    findings = []
    for finding in engine_of(args, shell).examine(args.python, engine_options_of(args, shell)):
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


def _as_dict(finding: Finding) -> dict[str, Any]:
    return {
        "subject": finding.subject,
        "level": finding.level,
        "text": finding.text,
        "mend": finding.hint or None,
    }
