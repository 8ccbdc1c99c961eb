"""The exports of an application as Apache Slider's registry served them, in its JSON shapes,
read-only: the paths below `/ws/v1/slider/publisher` of PublisherResource.java."""

from __future__ import annotations

import datetime
from typing import Any

from tfapp.contract.names import parse_instance
from tfapp.contract.status import ApplicationStatus

Entries = dict[str, list[dict[str, str]]]

PUBLISHER = "ws/v1/slider/publisher"


def export_groups(status: ApplicationStatus) -> dict[str, Entries]:
    """group -> export -> entries, one for each instance that exports it."""
    updated = _date(status.updated)
    groups: dict[str, Entries] = {}
    for instance in status.instances:
        for group, exports in instance.exports.items():
            for name, value in exports.items():
                entry = {
                    "value": value,
                    "containerId": instance.container,
                    "tag": str(parse_instance(instance.instance)[1]),
                    "level": "component",
                    "updatedTime": updated,
                }
                groups.setdefault(group, {}).setdefault(name, []).append(entry)
    return dict(sorted(groups.items()))


def published(path: str, status: ApplicationStatus, address: str) -> Any:
    """The answer of Slider's application master to `path`; None for "not found", as for all that is
    not PUBLISHER or below it. `address`: the URL above PUBLISHER, for links; "" makes them relative
    to the request. Names of groups are in lower case, as in Slider."""
    if not f"{path}/".startswith(f"{PUBLISHER}/"):
        return None
    parts = path.strip("/").removeprefix(PUBLISHER).strip("/").split("/")
    groups = {name.lower(): (name, found) for name, found in export_groups(status).items()}
    if parts == [""]:
        base = f"{address.rstrip('/')}/{PUBLISHER}" if address else "publisher"
        return {"uris": {"slider": f"{base}/slider", "exports": f"{base}/exports"}}
    if parts[0] == "exports" and len(parts) == 1:
        return {"exports": {key: _group(*found, status) for key, found in groups.items()}}
    if parts[0] == "exports" and len(parts) == 2 and parts[1] in groups:
        return _group(*groups[parts[1]], status)
    if parts[0] == "slider" and len(parts) == 1:
        configurations = {key: _heading(name, status) for key, (name, _) in groups.items()}
        return {"configurations": configurations}
    if parts[0] == "slider" and len(parts) in (2, 3):
        key = parts[1].removesuffix(".json")
        if key not in groups:
            return None
        name, entries = groups[key]
        first = {export: own[0]["value"] for export, own in entries.items()}
        if len(parts) == 3:
            return {parts[2]: first[parts[2]]} if parts[2] in first else None
        return {**_heading(name, status), "entries": first}
    return None


def _group(name: str, entries: Entries, status: ApplicationStatus) -> dict[str, Any]:
    return {**_heading(name, status), "entries": entries}


def _heading(name: str, status: ApplicationStatus) -> dict[str, Any]:
    return {
        "description": name,
        "updated": int(status.updated * 1000),
        "updatedTime": _date(status.updated),
    }


def _date(seconds: float) -> str:
    """The date in the format of Java's Date.toString, in UTC."""
    date = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return f"{date:%a %b %d %H:%M:%S UTC %Y}"
