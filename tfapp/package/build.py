"""Checked documents -> AppPackage. Gives the data of the documents its types; no rule is checked
here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from tfapp.frozen import frozen
from tfapp.package.build_metainfo import (
    build_command_orders,
    build_components,
    build_exports,
    build_failure_policy,
)
from tfapp.package.build_resources import build_master, build_resources
from tfapp.package.checked import CheckedDocument
from tfapp.package.model import AppPackage, Config, ConfigValue, Source
from tfapp.problems import Position


@frozen
class CheckedDocuments:
    metainfo: CheckedDocument
    app_config: CheckedDocument
    resources: CheckedDocument

    @property
    def by_kind(self) -> dict[str, CheckedDocument]:
        return {
            "metainfo": self.metainfo,
            "appConfig": self.app_config,
            "resources": self.resources,
        }

    @property
    def sound(self) -> frozenset[str]:
        """The kinds of document that rules may use."""
        return frozenset(kind for kind, document in self.by_kind.items() if document.sound)


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
        success=tuple(name for _, _, name in _deciding(documents.metainfo)),
        config=build_config(documents.app_config, tuple(c.name for c in components), defaults),
        resources=build_resources(documents.resources),
        master=build_master(documents.resources),
        user_files=dict(user_files),
        failure=build_failure_policy(documents.metainfo.section("application", "failurePolicy")),
        positions=_positions(documents),
    )


def _positions(documents: CheckedDocuments) -> dict[str, Position]:
    policy = ("application", "successPolicy")
    return {
        "application": documents.metainfo.at("application"),
        "resources": documents.resources.key_at("components"),
        "successPolicy": documents.metainfo.key_at(*policy),
        **{
            f"successPolicy.{number}": documents.metainfo.at(*policy, key, index)
            for number, (key, index, _) in enumerate(_deciding(documents.metainfo))
        },
        **_rule_positions(documents.metainfo),
    }


def _deciding(metainfo: CheckedDocument) -> tuple[tuple[str, int, str], ...]:
    """The components and the instances that decide about success: key, index and name of each."""
    policy = metainfo.section("application", "successPolicy")
    keys = ("components", "instances")
    return tuple((key, at, name) for key in keys for at, name in enumerate(policy.get(key, ())))


def _rule_positions(metainfo: CheckedDocument) -> dict[str, Position]:
    path = ("application", "failurePolicy")
    found = {}
    for number, rule in enumerate(metainfo.section(*path).get("rules", ())):
        place = (*path, "rules", number)
        found[f"failurePolicy.{number}"] = metainfo.at(*place)
        for index in range(len(rule.get("components", ()))):
            found[f"failurePolicy.{number}.{index}"] = metainfo.at(*place, "components", index)
    return found


def build_config(
    app_config: CheckedDocument, components: Iterable[str], defaults: Mapping[str, ConfigValue]
) -> Config:
    """The configuration. Each of `components` has the schema's defaults, over them `global`,
    over that its own values."""
    global_ = _values(app_config, "global")
    shared = {**defaults, **global_} if app_config.sound else {}
    return Config(
        global_=global_,
        components={
            name: {**shared, **_values(app_config, "components", name)} for name in components
        },
        credentials=_values(app_config, "credentials"),
        metadata=app_config.section("metadata"),
        positions={
            name: app_config.key_at("components", name) for name in app_config.section("components")
        },
    )


def _values(app_config: CheckedDocument, *path: str) -> dict[str, ConfigValue]:
    found = {}
    for key, value in app_config.section(*path).items():
        key_at = app_config.key_at(*path, key)
        if key_at not in app_config.ignored and not isinstance(value, (Mapping, list)):
            found[key] = _value(app_config, (*path, key), key_at)
    return found


def _value(app_config: CheckedDocument, path: tuple[str, ...], key_at: Position) -> ConfigValue:
    at, text = app_config.at(*path), app_config.text(*path)
    return ConfigValue(text, at, key_at, app_config.locator.placeholders(at, text))
