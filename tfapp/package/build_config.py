"""appConfig's part of an AppPackage: every value as text, and what each component inherits.

Keys that have no effect are left out, so that no rule judges their values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tfapp.package.checked import CheckedDocument
from tfapp.package.model import Config, ConfigValue
from tfapp.problems import Position


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
