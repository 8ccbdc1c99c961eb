"""Configuration values that refer to each other in a ring, or grow beyond all measure.

site.global.a: "${site.global.b}"    site.global.b: "x"                    PASS
site.global.a: "${site.global.b}"    site.global.b: "${site.global.a}"     FAIL
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tfapp import placeholders
from tfapp.package.model import AppPackage, ConfigValue
from tfapp.package.rules.written import SITE
from tfapp.problems import Problem

CODE = "reference-cycle"
NEEDS = ("appConfig",)


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports each ring once, at the reference with which its first key (in alphabetical order)
    leads into it."""
    for values in package.config.components.values():
        yield from _check_values(values)


def _check_values(values: Mapping[str, ConfigValue]) -> Iterator[Problem]:
    texts = {key: value.text for key, value in values.items() if key.startswith(SITE)}
    while True:
        try:
            placeholders.resolve(texts)
        except placeholders.ReferenceCycleError as error:
            yield _ring(values, error.trail)
            texts = {key: text for key, text in texts.items() if key not in error.trail}
        except ValueError as error:
            first = min(values.values(), key=lambda value: value.at)
            yield Problem(first.at, CODE, str(error), hint="write the value out")
            return
        else:
            return


def _ring(values: Mapping[str, ConfigValue], trail: tuple[str, ...]) -> Problem:
    ring = trail[:-1]
    start = ring.index(min(ring))
    ring = ring[start:] + ring[:start]
    following = (*ring, ring[0])[1]
    first = values[ring[0]]
    at = next(at for found, at in first.placeholders() if found.name == following)
    if len(ring) == 1:
        message = f"{ring[0]} refers to itself"
    else:
        message = f"these values refer to each other: {' -> '.join((*ring, ring[0]))}"
    return Problem(at, CODE, message, hint="give one of them a value of its own")
