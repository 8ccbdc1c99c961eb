"""Rules for the failure policy."""

from __future__ import annotations

from collections.abc import Iterator

from tfapp.contract.job import IGNORE, RESTART_INSTANCE
from tfapp.package.model import AppPackage, setting
from tfapp.package.rules.rule import Found, component_names, rule


@rule("fed-restart", "metainfo", "appConfig")
def fed_restart(package: AppPackage) -> Iterator[Found]:
    """A failure rule starts one program again, or goes on without it, and that program is fed from
    Spark. The others hold rows of batches that it does not know.

    Programs with a feed port are fed. Of several rules for all failures of a component the first
    counts. Reported at the component in the rule, or at the rule.

        site.global.worker.feed.port set    {components: [ps], action: RestartInstance}        PASS
        site.global.worker.feed.port set    {components: [worker], action: RestartCluster}     PASS
        site.global.worker.feed.port set    {components: [worker], action: RestartInstance}    FAIL
        site.global.worker.feed.port set    {action: Ignore}                                   FAIL
    """
    fed = {name for name in component_names(package) if _is_fed(package, name)}
    for number, policy in enumerate(package.failure.rules):
        named = tuple(enumerate(policy.components)) or ((None, name) for name in sorted(fed))
        for index, name in named:
            if name in fed and policy.action in (RESTART_INSTANCE, IGNORE):
                place = f"failurePolicy.{number}" + (f".{index}" if index is not None else "")
                yield Found(
                    package.positions[place],
                    f"'{name}' is fed from Spark, and {policy.action} is for one program "
                    "alone: the others hold rows of batches that it does not know",
                    "programs that are fed begin again together: RestartCluster",
                )
        if not (policy.exit_codes or policy.reasons):
            fed -= set(policy.components or fed)


def _is_fed(package: AppPackage, name: str) -> bool:
    port = setting(package.config.components.get(name, {}), f"{name}.feed.port")
    return port is not None and port.text != ""
