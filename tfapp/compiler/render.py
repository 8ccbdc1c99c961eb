"""A compiled application as text: what `tfapp compile` prints and the golden tests compare."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    import skein


class _SpecDumper(yaml.SafeDumper):
    """Scripts as blocks; no aliases, as each file of a spec reads better where it is used."""

    def ignore_aliases(self, data: object) -> bool:
        return True


# PyYAML takes these for line breaks when it reads, and does not bring them back.
_FOREIGN_LINE_BREAKS = re.compile("[\x85\u2028\u2029]")


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if _FOREIGN_LINE_BREAKS.search(text) else "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_SpecDumper.add_representer(str, _represent_text)


def render_spec(spec: skein.ApplicationSpec) -> str:
    """YAML that `skein.ApplicationSpec.from_yaml` reads back equal, and that
    `skein application submit` takes. Never with credentials: `master.security` is left out."""
    data = spec.to_dict()
    data["master"].pop("security", None)
    data["tags"] = sorted(data["tags"])
    first = ("name", "queue", "user", "node_label", "tags", "max_attempts", "acls", "file_systems")
    return _dump({key: data[key] for key in (*first, "master", "services")})


def render_objects(objects: Iterable[Mapping[str, Any]]) -> str:
    """Objects of Kubernetes, each a document of YAML."""
    return "".join(f"---\n{_dump(body)}" for body in objects)


def _dump(data: Mapping[str, Any]) -> str:
    return yaml.dump(
        data,
        Dumper=_SpecDumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=sys.maxsize,
    )
