"""Checked documents -> AppPackage. Nothing is judged here: what is in them is put into types."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from tfapp.package.build_config import build_config
from tfapp.package.build_metainfo import (
    build_command_orders,
    build_components,
    build_exports,
    build_failure_policy,
)
from tfapp.package.build_resources import build_master, build_resources
from tfapp.package.model import AppPackage, Source
from tfapp.package.sheet import Sheet
from tfapp.problems import Position


@dataclasses.dataclass(frozen=True)
class Sheets:
    """The three documents of a package."""

    metainfo: Sheet
    app_config: Sheet
    resources: Sheet

    @property
    def sound(self) -> frozenset[str]:
        """The kinds of document from which something may be concluded."""
        kinds = {"metainfo": self.metainfo, "appConfig": self.app_config}
        kinds["resources"] = self.resources
        return frozenset(kind for kind, sheet in kinds.items() if sheet.sound)


def build_package(
    source: Source,
    sheets: Sheets,
    defaults: Mapping[str, str],
    user_files: Mapping[str, Path],
) -> AppPackage:
    """The package that `sheets` describe; of an unsound sheet nothing is in it. `defaults` are
    the schema's for appConfig, key -> text."""
    application = sheets.metainfo.section("application")
    exports = build_exports(sheets.metainfo)
    components = build_components(sheets.metainfo, exports)
    return AppPackage(
        source=source,
        name=application.get("name", ""),
        version=application.get("version", ""),
        comment=application.get("comment", ""),
        components=components,
        exports=exports,
        command_orders=build_command_orders(sheets.metainfo),
        success=tuple(
            sheets.metainfo.section("application", "successPolicy").get("components", ())
        ),
        config=build_config(sheets.app_config, tuple(c.name for c in components), defaults),
        resources=build_resources(sheets.resources),
        master=build_master(sheets.resources),
        user_files=dict(user_files),
        failure=build_failure_policy(sheets.metainfo),
        positions=_positions(sheets),
    )


def _positions(sheets: Sheets) -> dict[str, Position]:
    policy = ("application", "successPolicy")
    named = sheets.metainfo.section(*policy).get("components", ())
    return {
        "application": sheets.metainfo.at("application"),
        "resources": sheets.resources.key_at("components"),
        "successPolicy": sheets.metainfo.key_at(*policy),
        **{
            f"successPolicy.{index}": sheets.metainfo.at(*policy, "components", index)
            for index in range(len(named))
        },
        **_rule_positions(sheets.metainfo),
    }


def _rule_positions(metainfo: Sheet) -> dict[str, Position]:
    path = ("application", "failurePolicy")
    rules = metainfo.section(*path).get("rules", ())
    return {
        f"failurePolicy.{number}.{index}": metainfo.at(*path, "rules", number, "components", index)
        for number, rule in enumerate(rules)
        for index in range(len(rule.get("components", ())))
    }
