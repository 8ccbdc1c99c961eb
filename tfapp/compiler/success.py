"""The components whose success is that of the application."""

from __future__ import annotations

from tfapp.package.model import AppPackage

# The first of these roles that has an instance decides. `ps` and `tensorboard` are not among
# them: they never end by themselves.
DECIDING_ROLES = ("chief", "worker", "evaluator", "other")


def success_components(package: AppPackage) -> tuple[str, ...]:
    """Names of the components whose instances must all exit 0. `successPolicy` names them;
    components without instances are left out. By default it is the chief; without one, the workers;
    without those, the evaluator, then components of role `other`; and if only `ps` and
    `tensorboard` run, all of them."""
    running = [c for c in package.components if package.instances(c.name) > 0]
    if package.success:
        return tuple(c.name for c in running if c.name in package.success)
    for role in DECIDING_ROLES:
        names = tuple(c.name for c in running if c.role == role)
        if names:
            return names
    return tuple(c.name for c in running)
