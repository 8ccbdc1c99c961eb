"""What an application's web pages show of its instances' exports."""

from __future__ import annotations

from collections.abc import Mapping


def page_route(instance: str) -> str:
    """Under which name the application's web pages show what an instance exports."""
    return instance.replace("/", "-")


def exported_pages(exports: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The web addresses among the exports of an instance, by group and name."""
    values = [own[name] for _, own in sorted(exports.items()) for name in sorted(own)]
    return [value for value in values if value.startswith(("http://", "https://"))]
