"""HTTP to the cluster: direct, unless the user configures a proxy for it."""

from __future__ import annotations

from collections.abc import Mapping

PROXY = "TFAPP_YARN_PROXY"  # the variable with a proxy's URL

_OTHERS = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")


def without_proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` without the proxy variables, which are for the internet."""
    return {name: value for name, value in environ.items() if name.lower() not in _OTHERS}


def find_proxy(environ: Mapping[str, str]) -> str:
    """The URL of the proxy for the cluster; "" for none."""
    return environ.get(PROXY, "")


def hint(environ: Mapping[str, str]) -> str:
    """A hint for a host of the cluster that does not answer, if a proxy may be required; else
    ""."""
    if find_proxy(environ) or len(without_proxies(environ)) == len(environ):
        return ""
    return f" (hosts of the cluster are called directly; {PROXY} can name a proxy for them)"
