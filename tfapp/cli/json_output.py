"""The JSON documents that commands print. `schemas/output.schema.json` describes them, and
docs/json.md says which command prints which.

Each is an object with a `version`. What is not there, or not known, is null.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping
from typing import Any

from tfapp.cli.console import ended, to_json
from tfapp.cli.shell import Shell
from tfapp.engines.base import Application

VERSION = 1  # one more when a key goes, or gets another meaning; keys may come without that


def document(**parts: Any) -> str:
    return to_json({"version": VERSION, **parts})


def show(args: argparse.Namespace, shell: Shell, text: str, **parts: Any) -> None:
    """Prints a result in the form that `--format` asks for: `text`, or `parts` as a document."""
    shell.print(document(**parts) if args.format == "json" else text)


def data(value: Any) -> Any:
    """A value of the contract as plain JSON data: an empty text is null. Mappings, which have what
    programs and packages say, stay as they are."""
    if dataclasses.is_dataclass(value):
        named = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
        return {name: None if found == "" else data(found) for name, found in named}
    if isinstance(value, tuple):
        return [data(item) for item in value]
    if isinstance(value, Mapping):
        return {key: data(item) for key, item in value.items()}
    return value


def application(found: Application, package: str) -> str:
    """All that is known of one application. `package`: see sources.package_of."""
    told = {**data(found), "package": package or None}
    told["run"] = found.run or None
    told["status"]["started"] = found.status.started or None
    del told["status"]["record"]  # which is for the next coordinator alone
    return document(**told)


def row(found: Application) -> dict[str, Any]:
    return {
        "name": found.name,
        "engine": found.engine,
        "id": found.id or None,
        "run": found.run or None,
        "live": found.live,
        "state": found.status.state,
        "started": found.status.started or None,
        "ended": ended(found),
        "tags": list(found.tags),
    }
