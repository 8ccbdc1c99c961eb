"""The user name on the cluster for a Kerberos principal, by its rules
(hadoop.security.auth_to_local). Hadoop's own program is called once for each principal."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import Any

from tfapp import tools
from tfapp.disk import make_private, write_json
from tfapp.engines.refusals import read_if_whole
from tfapp.engines.yarn.configuration import read_configuration
from tfapp.engines.yarn.hadoop_client import fingerprint
from tfapp.engines.yarn.hadoop_fs import java
from tfapp.engines.yarn.kerberos import first_part
from tfapp.engines.yarn.layout import YarnHome
from tfapp.errors import UnavailableError

LIMIT = 30.0  # seconds

_TOLD = re.compile(r"^Name: \S+ to (\S+)$", re.MULTILINE)


def name_of(home: YarnHome, environ: Mapping[str, str], principal: str) -> str:
    """The first part of the principal if the cluster has no rules, or they cannot be evaluated."""
    rules = read_configuration(environ).get("hadoop.security.auth_to_local", "")
    if rules in ("", "DEFAULT"):
        return first_part(principal)
    path = home.users(fingerprint(environ))
    known = read_if_whole(path, _names) or {}
    name = known.get(principal) or _ask(environ, principal)
    if name and principal not in known:
        with contextlib.suppress(OSError):  # it is asked for again
            make_private(path.parent)
            write_json(path, {**known, principal: name})
    return name or first_part(principal)


def _names(data: Mapping[str, Any]) -> Mapping[str, Any]:
    if not all(isinstance(name, str) for name in data.values()):
        raise ValueError("expected the names of users")
    return data


def _ask(environ: Mapping[str, str], principal: str) -> str:
    try:
        words = [*java(environ), "org.apache.hadoop.security.HadoopKerberosName", principal]
        found = _TOLD.search(tools.run(words, environ, LIMIT).text)
    except (UnavailableError, tools.ToolError):
        return ""  # what is asked of the cluster next says why
    return found[1] if found else ""
