"""What must hold across the documents of a package: one module for each rule.

A rule's docstring is its manual page. `CODE` is the code of its findings, `NEEDS` the documents
that must have passed their schema for it to run ("metainfo", "appConfig", "resources"), and
`check` finds. A new rule is a module, a line in RULES and a folder of fixtures in
tests/package/rules.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Protocol

from tfapp.package.model import AppPackage
from tfapp.package.rules import (
    allowed_ports,
    cluster_layout,
    component_name,
    dangling_export,
    docker_container,
    docker_credential,
    docker_image,
    docker_pull_timeout,
    duplicate_component,
    export_name,
    foreign_export,
    instance_count,
    misplaced_placeholder,
    missing_entry,
    missing_script,
    node_label,
    placeholder_component,
    placement,
    port_placeholder,
    python_environment,
    reference_cycle,
    reserved_env,
    resource_range,
    role_priority,
    script_syntax,
    start_order_cycle,
    storage_url,
    success_policy,
    unclosed_quote,
    unfed_export,
    unknown_component,
    unknown_placeholder,
    unknown_reference,
    unsafe_path,
)
from tfapp.problems import Problem


class Rule(Protocol):
    """What a module of this folder has: CODE, NEEDS, and `check`, which yields what is wrong in
    a package, in any order."""

    @property
    def CODE(self) -> str: ...
    @property
    def NEEDS(self) -> tuple[str, ...]: ...
    @property
    def check(self) -> Callable[[AppPackage], Iterator[Problem]]: ...


RULES: tuple[Rule, ...] = (
    allowed_ports,
    cluster_layout,
    component_name,
    dangling_export,
    docker_container,
    docker_credential,
    docker_image,
    docker_pull_timeout,
    duplicate_component,
    export_name,
    foreign_export,
    instance_count,
    misplaced_placeholder,
    missing_entry,
    missing_script,
    node_label,
    placeholder_component,
    placement,
    port_placeholder,
    python_environment,
    reference_cycle,
    reserved_env,
    resource_range,
    role_priority,
    script_syntax,
    start_order_cycle,
    storage_url,
    success_policy,
    unclosed_quote,
    unfed_export,
    unknown_component,
    unknown_placeholder,
    unknown_reference,
    unsafe_path,
)


def check_rules(package: AppPackage, sound: Collection[str]) -> set[Problem]:
    """The findings of every rule whose documents are among the `sound` ones. What two components
    inherit from one place is found once."""
    return {
        problem
        for rule in RULES
        if set(rule.NEEDS) <= set(sound)
        for problem in rule.check(package)
    }
