"""A port placeholder that does not say what its author meant.

Its form is `${<component>.ALLOCATED_PORT}{DEFAULT_<port>}{PER_CONTAINER}`, in this order; both
ends may be missing. `{DEFAULT_0}` is any port. Without `{PER_CONTAINER}`, Slider gave every
container the first one's number; here each container has a port of its own: a warning.

    "${ps.ALLOCATED_PORT}{DEFAULT_2222}{PER_CONTAINER}"     PASS
    "${ps.ALLOCATED_PORT}"                                  WARNING
    "${ps.ALLOCATED_PORT}{DEFAULT_99999}"                   FAIL
    "${ps.ALLOCATED_PORT}{PER_HOST}"                        FAIL
"""

from __future__ import annotations

from collections.abc import Iterator

from tfapp.package.model import AppPackage
from tfapp.package.rules.written import all_values
from tfapp.placeholders import PORT, Placeholder
from tfapp.problems import WARNING, Position, Problem

CODE = "port-placeholder"
NEEDS = ("appConfig",)
MAX_PORT = 65535


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports at the placeholder."""
    for _, value in all_values(package):
        for placeholder, at in value.placeholders():
            if placeholder.kind == PORT:
                yield from _check(placeholder, at, value.text[placeholder.end :])


def _check(placeholder: Placeholder, at: Position, rest: str) -> Iterator[Problem]:
    form = f"${{{placeholder.name}}}{{DEFAULT_<port>}}{{PER_CONTAINER}}"
    if rest.startswith("{"):
        found = rest.partition("}")[0] + "}"
        message = f"{found} cannot follow here"
        yield Problem(at, CODE, message, hint=f"the whole form is {form}")
    elif placeholder.default is not None and placeholder.default > MAX_PORT:
        message = f"{placeholder.default} is no port"
        yield Problem(at, CODE, message, hint=f"ports go up to {MAX_PORT}; 0 means any")
    elif not placeholder.per_container:
        message = f"{{PER_CONTAINER}} is missing: each '{placeholder.component}' container gets a "
        message += "port of its own all the same"
        hint = "add {PER_CONTAINER} at the end, which says so"
        yield Problem(at, CODE, message, WARNING, hint)
