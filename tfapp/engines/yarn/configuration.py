"""Reads Hadoop's configuration files."""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree
from collections.abc import Iterator, Mapping

_FILES = ("core-site.xml", "yarn-site.xml")
_FOLDER = "/etc/hadoop/conf"  # of Hadoop's commands where no variable names another
_REFERENCE = re.compile(r"\$\{([^}$\s]+)\}")
_DEPTH = 20  # of references in references, as in Hadoop


def folder(environ: Mapping[str, str]) -> str:
    """The folder of the configuration."""
    return environ.get("HADOOP_CONF_DIR") or environ.get("YARN_CONF_DIR") or _FOLDER


def read_configuration(environ: Mapping[str, str]) -> dict[str, str]:
    """The properties of the cluster, with references resolved. Missing and malformed files are
    ignored: Hadoop's own programs read them too, and report errors."""
    values: dict[str, str] = {}
    for name in _FILES:
        try:
            tree = xml.etree.ElementTree.parse(os.path.join(folder(environ), name))
        except (OSError, xml.etree.ElementTree.ParseError):
            continue
        for entry in tree.iter("property"):
            key, value = entry.findtext("name"), entry.findtext("value")
            if key is not None and value is not None:
                values[key.strip()] = value.strip()
    return {key: _filled(value, values) for key, value in values.items()}


def scheme(values: Mapping[str, str]) -> str:
    """The scheme of the daemons' web pages: "http" or "https"."""
    return "https" if values.get("yarn.http.policy") == "HTTPS_ONLY" else "http"


def manager_addresses(values: Mapping[str, str]) -> Iterator[str]:
    """The URLs of the ResourceManager's web service. With high availability there are several, one
    of which is active."""
    by = scheme(values)
    kind, port = ("webapp.https", 8090) if by == "https" else ("webapp", 8088)
    ids = [f".{i.strip()}" for i in values.get("yarn.resourcemanager.ha.rm-ids", "").split(",")]
    for suffix in ids if ids != ["."] else [""]:
        host = values.get(f"yarn.resourcemanager.hostname{suffix}")
        address = values.get(f"yarn.resourcemanager.{kind}.address{suffix}")
        if address or host:
            yield f"{by}://{address or f'{host}:{port}'}"


def _filled(value: str, values: Mapping[str, str]) -> str:
    for _ in range(_DEPTH):
        filled = _REFERENCE.sub(lambda found: values.get(found[1], found[0]), value)
        if filled == value:
            break
        value = filled
    return value
