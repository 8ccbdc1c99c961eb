"""The application's deadlines, from the `site.global.*` keys that set them."""

from __future__ import annotations

from tfapp.compiler.settings import effective
from tfapp.contract.job import Limits, Settings
from tfapp.package.amounts import seconds
from tfapp.package.model import AppPackage, Component, setting

_BUSY_ROLES = ("chief", "worker")  # the others may have nothing to show for long


def read_limits(settings: Settings, settle: float) -> Limits:
    """Deadlines of the whole application, by the settings of one of its components: they are
    equal for all."""
    return Limits(
        gang=seconds(settings.text("gang.timeout")),
        lifetime=seconds(settings.text("application.lifetime")),
        evaluator=seconds(settings.text("evaluator.timeout")),
        stop_grace=seconds(settings.text("stop.grace")),
        settle=settle,
    )


def progress_timeout(package: AppPackage, component: Component) -> float:
    """The seconds in which a program of `component` must show progress; 0 for no limit."""
    own = setting(effective(package, component.name), "progress.timeout")
    shared = setting(package.config.global_, "progress.timeout")
    inherited = own is None or own.is_default or (shared is not None and own.at == shared.at)
    if own is None or (inherited and component.role not in _BUSY_ROLES):
        return 0.0
    return seconds(own.text)
