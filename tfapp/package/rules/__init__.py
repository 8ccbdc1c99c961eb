"""The rules that hold across the documents of a package.

A rule is a function under `@rule`, whose docstring is its manual page, in the file of its subject,
and a folder of mistakes in tests/package/mistakes. A new file is a line below. A rule for one value
alone belongs into its schema."""

from __future__ import annotations

from collections.abc import Collection

from tfapp.package.model import AppPackage
from tfapp.package.rules import (  # noqa: F401 - each lists its rules
    components,
    docker,
    environment,
    exports,
    failures,
    instances,
    placeholders,
    references,
    resources,
    scripts,
    values,
)
from tfapp.package.rules.rule import RULES
from tfapp.problems import Problem


def check_rules(package: AppPackage, sound: Collection[str]) -> set[Problem]:
    """The findings of every rule whose documents are among the `sound` ones. What two components
    inherit from one place is found once."""
    return {
        problem
        for rule in RULES
        if rule.needs.issubset(sound)
        for problem in rule.problems(package)
    }
