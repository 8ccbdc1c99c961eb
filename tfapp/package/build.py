"""Checked documents -> AppPackage. Gives the data of the documents its types; no rule is checked
here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tfapp.frozen import frozen
from tfapp.package.build_config import build_config
from tfapp.package.build_metainfo import (
    build_command_orders,
    build_components,
    build_exports,
    build_failure_policy,
)
from tfapp.package.build_resources import build_master, build_resources
from tfapp.package.checked import CheckedDocument
from tfapp.package.model import AppPackage, ConfigValue, Source
from tfapp.problems import Position


@frozen
class CheckedDocuments:
    """The three documents of a package."""

    metainfo: CheckedDocument
    app_config: CheckedDocument
    resources: CheckedDocument

    @property
    def sound(self) -> frozenset[str]:
        """The kinds of document that rules may use."""
        kinds = {"metainfo": self.metainfo, "appConfig": self.app_config}
        kinds["resources"] = self.resources
        return frozenset(kind for kind, document in kinds.items() if document.sound)


def build_package(
    source: Source,
    documents: CheckedDocuments,
    defaults: Mapping[str, ConfigValue],
    user_files: Mapping[str, Path],
) -> AppPackage:
    """The package that `documents` describe. Unsound documents contribute nothing. `defaults`:
    those of appConfig's schema."""
    application = documents.metainfo.section("application")
    exports = build_exports(documents.metainfo)
    components = build_components(documents.metainfo, exports)
    return AppPackage(
        source=source,
        name=application.get("name", ""),
        version=application.get("version", ""),
        comment=application.get("comment", ""),
        components=components,
        exports=exports,
        command_orders=build_command_orders(documents.metainfo),
        success=tuple(
            documents.metainfo.section("application", "successPolicy").get("components", ())
        ),
        config=build_config(documents.app_config, tuple(c.name for c in components), defaults),
        resources=build_resources(documents.resources),
        master=build_master(documents.resources),
        user_files=dict(user_files),
        failure=build_failure_policy(documents.metainfo.section("application", "failurePolicy")),
        positions=_positions(documents),
    )


def _positions(documents: CheckedDocuments) -> dict[str, Position]:
    policy = ("application", "successPolicy")
    named = documents.metainfo.section(*policy).get("components", ())
    return {
        "application": documents.metainfo.at("application"),
        "resources": documents.resources.key_at("components"),
        "successPolicy": documents.metainfo.key_at(*policy),
        **{
            f"successPolicy.{index}": documents.metainfo.at(*policy, "components", index)
            for index in range(len(named))
        },
        **_rule_positions(documents.metainfo),
    }


def _rule_positions(metainfo: CheckedDocument) -> dict[str, Position]:
    path = ("application", "failurePolicy")
    found = {}
    for number, rule in enumerate(metainfo.section(*path).get("rules", ())):
        place = (*path, "rules", number)
        found[f"failurePolicy.{number}"] = metainfo.at(*place)
        for index in range(len(rule.get("components", ()))):
            found[f"failurePolicy.{number}.{index}"] = metainfo.at(*place, "components", index)
    return found
