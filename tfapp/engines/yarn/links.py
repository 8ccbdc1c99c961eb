"""The web pages of a running application. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tfapp.contract.names import exported_pages, page_route
from tfapp.contract.status import ApplicationStatus
from tfapp.engines.base import Link
from tfapp.engines.yarn.cluster import Report
from tfapp.protocol.connection import ContainerReport


def links(
    report: Report, status: ApplicationStatus, containers: Sequence[ContainerReport]
) -> tuple[Link, ...]:
    """The pages that instances export, as the application's own pages show them through YARN,
    and the logs of all instances in `containers`, as their nodes show them."""
    found = {container.id: container for container in containers}
    pages = [
        Link(
            i.instance, "page", f"{report.tracking_url.rstrip('/')}/pages/{page_route(i.instance)}/"
        )
        for i in status.instances
        if report.tracking_url and exported_pages(i.exports)
    ]
    logs = [
        Link(i.instance, "log", _log(report, found[i.container]))
        for i in status.instances
        if i.container in found and found[i.container].yarn_id
    ]
    return (*pages, *logs)


def _log(report: Report, container: ContainerReport) -> str:
    scheme = report.tracking_url.partition("://")[0] or "http"
    return f"{scheme}://{container.node}/node/containerlogs/{container.yarn_id}/{report.user}"
