"""Reports all errors in a package: checks its documents against their schemas and against each
other, and the syntax of its Python scripts.

Each finding is printed as `file:line:column: error: message [code]`, with a hint below. The exit
code is 77 if there are errors, else 0; warnings do not count.

  tfapp validate my-app --template production.yaml --component worker 8
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from pathlib import Path

from tfapp.cli.flags import add_package_flags, file_path, overrides_of, user_files
from tfapp.cli.reports import REPORTS
from tfapp.cli.shell import Shell
from tfapp.errors import ExitCode, InvalidPackageError
from tfapp.problems import ERROR, Problem


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `tfapp validate`."""
    parser.add_argument(
        "appdef", metavar="APPDEF", type=file_path, nargs="+", help="a package: a folder or a .zip"
    )
    parser.add_argument("--format", choices=REPORTS, default="text", help="default: %(default)s")
    add_package_flags(parser)


def run(args: argparse.Namespace, shell: Shell) -> int:
    """Prints the findings of all packages that are named."""
    noted = functools.cache(shell.note)  # the files are those of every package
    found = [(appdef, _findings(appdef, args, noted)) for appdef in args.appdef]
    problems = [problem for _, findings in found for problem in findings]
    if problems or args.format in ("json", "sarif"):
        shell.print(REPORTS[args.format](problems))
    for appdef, findings in found:
        shell.note(f"{appdef}: {_summary(findings)}")
    return ExitCode.BAD_CONFIGURATION if _errors(problems) else ExitCode.SUCCESS


def _findings(
    appdef: Path, args: argparse.Namespace, note: Callable[[str], None]
) -> tuple[Problem, ...]:
    from tfapp.package.load import load_package

    try:
        return load_package(
            appdef,
            template=args.template,
            resources=args.resources,
            overrides=overrides_of(args),
            user_files=user_files(args, note),
        ).problems
    except InvalidPackageError as error:  # what --files names
        return error.problems


def _summary(problems: tuple[Problem, ...]) -> str:
    errors = _errors(problems)
    if not problems:
        return "valid"
    return f"{_count(errors, 'error')}, {_count(len(problems) - errors, 'warning')}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _errors(problems: list[Problem] | tuple[Problem, ...]) -> int:
    return sum(problem.severity == ERROR for problem in problems)
