"""The web pages of a running application. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tfapp.contract.names import PAGE_ROUTE, exported_pages, page_route
from tfapp.contract.status import ApplicationStatus, InstanceStatus
from tfapp.engines.base import Link
from tfapp.engines.yarn.cluster import Report
from tfapp.engines.yarn.nodes import log_page
from tfapp.protocol.connection import ContainerReport


def links(
    report: Report, status: ApplicationStatus, containers: Sequence[ContainerReport]
) -> tuple[Link, ...]:
    """The web pages of an application: its own page, the pages that instances export (through
    YARN's proxy), and the logs of all instances in `containers`, on their nodes."""
    found = {container.id: container for container in containers}
    routes = [("", PAGE_ROUTE)]
    routes += [(i.instance, page_route(i.instance)) for i in status.instances if _exports(i)]
    base = report.tracking_url.rstrip("/")
    pages = [Link(name, "page", f"{base}/pages/{route}/") for name, route in routes if base]
    logs = [
        Link(i.instance, "log", _log(report, found[i.container]))
        for i in status.instances
        if i.container in found and found[i.container].yarn_id
    ]
    return (*pages, *logs)


def _exports(instance: InstanceStatus) -> bool:
    return bool(exported_pages(instance.exports))


def _log(report: Report, container: ContainerReport) -> str:
    scheme = report.tracking_url.partition("://")[0] or "http"
    return f"{scheme}:{log_page(container.node, container.yarn_id, report.user)}"
