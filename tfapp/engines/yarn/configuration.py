"""Hadoop's configuration files. HTTP to the cluster: direct, unless the user configures a proxy for
it."""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree
from collections.abc import Iterator, Mapping

PROXY = "TFAPP_YARN_PROXY"  # the variable with a proxy's URL

_OTHER_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")
_FILES = ("core-site.xml", "yarn-site.xml")
_FOLDER = "/etc/hadoop/conf"  # of Hadoop's commands where no variable names another
_CLASS_PATH = ",".join(  # YARN's own where the configuration has none
    (
        "$HADOOP_CONF_DIR",
        *(f"$HADOOP_COMMON_HOME/share/hadoop/common/{part}" for part in ("*", "lib/*")),
        *(f"$HADOOP_HDFS_HOME/share/hadoop/hdfs/{part}" for part in ("*", "lib/*")),
    )
)
_REFERENCE = re.compile(r"\$\{([^}$\s]+)\}")
_KILL_DELAY = 250  # milliseconds: YARN's default
_KILL_TIME = 100  # milliseconds
_DEPTH = 20  # of references in references, as in Hadoop


def folder(environ: Mapping[str, str]) -> str:
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


def application_class_path(values: Mapping[str, str]) -> str:
    """Hadoop's class path in containers, with variables of the node that runs them."""
    return values.get("yarn.application.classpath", _CLASS_PATH)


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


def container_grace(values: Mapping[str, str]) -> float:
    """Seconds that a container has from a NodeManager's SIGTERM on, less a moment in which its
    runner kills what the NodeManager does not know: programs have sessions of their own."""
    delay = values.get("yarn.nodemanager.sleep-delay-before-sigkill.ms", "")
    return max((int(delay) if delay.isdecimal() else _KILL_DELAY) - _KILL_TIME, 0) / 1000


def _filled(value: str, values: Mapping[str, str]) -> str:
    for _ in range(_DEPTH):
        filled = _REFERENCE.sub(lambda found: values.get(found[1], found[0]), value)
        if filled == value:
            break
        value = filled
    return value


def without_proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` without the proxy variables, which are for the internet."""
    return {name: value for name, value in environ.items() if name.lower() not in _OTHER_PROXIES}


def find_proxy(environ: Mapping[str, str]) -> str:
    """The URL of the proxy for the cluster; "" for none."""
    return environ.get(PROXY, "")


def proxy_hint(environ: Mapping[str, str]) -> str:
    """A hint for a host of the cluster that does not answer, if a proxy may be required; else
    ""."""
    if find_proxy(environ) or len(without_proxies(environ)) == len(environ):
        return ""
    return f" (hosts of the cluster are called directly; {PROXY} can name a proxy for them)"
