"""The application's deadlines, from the `site.global.*` keys that set them."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tfapp.compiler.settings import effective
from tfapp.contract.limits import Limits
from tfapp.package.model import AppPackage, Component
from tfapp.problems import Problem

# Key -> field of Limits, whose defaults are the schema's; seconds.
KEYS = {
    "site.global.gang.timeout": "gang",
    "site.global.application.lifetime": "lifetime",
    "site.global.evaluator.timeout": "evaluator",
    "site.global.stop.grace": "stop_grace",
}
_MUST_BE_POSITIVE = ("gang",)

_PROGRESS = "site.global.progress.timeout"
_BUSY_ROLES = ("chief", "worker")  # the others may have nothing to show for long


def read_limits(package: AppPackage) -> Limits:
    """Deadlines of the whole application. ValueError for what `check_limits` reports."""
    values = package.config.global_
    return Limits(**{KEYS[key]: float(values[key].text) for key in KEYS if key in values})


def progress_timeout(package: AppPackage, component: Component) -> float:
    """Seconds in which a program of `component` must show progress; 0 when it need not."""
    own = effective(package, component.name).get(_PROGRESS)
    shared = package.config.global_.get(_PROGRESS)
    inherited = own is None or (shared is not None and own.at == shared.at)
    if own is None or (inherited and component.role not in _BUSY_ROLES):
        return 0.0
    return float(own.text)


def check_limits(package: AppPackage) -> Iterator[Problem]:
    """Deadlines that are no number of seconds, or that one component sets for itself alone."""
    shared = package.config.global_
    for key, field in KEYS.items():
        if key in shared and not _is_limit(shared[key].text, field in _MUST_BE_POSITIVE):
            least = "above 0" if field in _MUST_BE_POSITIVE else "0 or more"
            message = f"{key} is {shared[key].text!r}, expected a number of seconds, {least}"
            yield Problem(shared[key].at, "duration", message)
        else:
            seconds = float(shared[key].text) if key in shared else getattr(Limits(), field)
            yield from _check_components(package, key, seconds)


def _check_components(package: AppPackage, key: str, seconds: float) -> Iterator[Problem]:
    for component in package.components:
        own = effective(package, component.name).get(key)
        if own and _seconds(own.text) != seconds:
            message = f"{key} holds for the whole application, not for {component.name} alone"
            yield Problem(own.key_at, "application-wide", message, hint="Set it in global.")


def _is_limit(text: str, positive: bool) -> bool:
    seconds = _seconds(text)
    return seconds > 0 if positive else seconds >= 0


def _seconds(text: str) -> float:
    """NaN, which is above and below nothing, for a text that is no number of seconds."""
    try:
        seconds = float(text)
    except ValueError:
        return math.nan
    return seconds if math.isfinite(seconds) else math.nan
