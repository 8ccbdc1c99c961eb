"""Reports all errors in a package: checks its documents against their schemas and against each
other, and the syntax of its Python scripts.

Each finding is printed as `file:line:column: error: message [code]`, with a hint below. The exit
code is 77 if there are errors, else 0; warnings do not count.

  tfapp validate my-app --template production.yaml --component worker 8
"""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import tfapp
from tfapp.cli.flags import PACKAGE_HELP, add_package_flags, app_package, overrides_of, user_files
from tfapp.cli.json_output import document
from tfapp.cli.shell import Shell
from tfapp.errors import ExitCode, InvalidPackageError
from tfapp.problems import ERROR, Problem, text_report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("appdef", metavar="APPDEF", type=app_package, nargs="+", help=PACKAGE_HELP)
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


def json_report(problems: Sequence[Problem]) -> str:
    """A JSON document with one object for each finding."""
    rows = [
        {
            "file": problem.position.file,
            "line": problem.position.line or None,
            "column": problem.position.column or None,
            "severity": problem.severity,
            "code": problem.code,
            "message": problem.message,
            "hint": problem.hint or None,
        }
        for problem in problems
    ]
    return document(findings=rows)


def github_report(problems: Sequence[Problem]) -> str:
    """Workflow commands that GitHub shows as annotations.

    https://docs.github.com/actions/reference/workflow-commands-for-github-actions
    """
    return "\n".join(map(_github_line, problems))


def _github_line(problem: Problem) -> str:
    position = problem.position
    where = {"file": position.file}
    if position.line:
        where.update(line=str(position.line), col=str(position.column))
    where["title"] = problem.code
    properties = ",".join(f"{key}={_github_property(value)}" for key, value in where.items())
    message = _github_data(" ".join(filter(None, (problem.message, problem.hint))))
    return f"::{problem.severity} {properties}::{message}"


def _github_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _github_property(text: str) -> str:
    return _github_data(text).replace(":", "%3A").replace(",", "%2C")


def sarif_report(problems: Sequence[Problem]) -> str:
    """A SARIF 2.1.0 log. https://docs.oasis-open.org/sarif/sarif/v2.1.0/"""
    driver = {
        "name": "tfapp",
        "version": tfapp.__version__,
        "rules": [{"id": code} for code in sorted({problem.code for problem in problems})],
    }
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": list(map(_sarif_result, problems))}],
    }
    return json.dumps(log, indent=2)


def _sarif_result(problem: Problem) -> dict[str, Any]:
    position = problem.position
    location: dict[str, Any] = {"artifactLocation": {"uri": quote(position.file)}}
    if position.line:
        location["region"] = {"startLine": position.line, "startColumn": position.column}
    return {
        "ruleId": problem.code,
        "level": problem.severity,
        "message": {"text": " ".join(filter(None, (problem.message, problem.hint)))},
        "locations": [{"physicalLocation": location}],
    }


REPORTS: dict[str, Callable[[Sequence[Problem]], str]] = {
    "text": text_report,
    "json": json_report,
    "github": github_report,
    "sarif": sarif_report,
}
