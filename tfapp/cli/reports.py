"""Findings as text: for people, for programs, for GitHub's annotations, for SARIF viewers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote

import tfapp
from tfapp.cli.json_output import document
from tfapp.problems import Problem, text_report


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
