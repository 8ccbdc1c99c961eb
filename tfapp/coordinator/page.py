"""The page of the application, where the master leads browsers to it: on YARN through the manager's
proxy and Skein's own, which let in those that acl.ui.users names."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from tfapp.contract.names import FINAL_STATES, PAGE_ROUTE
from tfapp.contract.status import ApplicationStatus
from tfapp.errors import RefusedError, UnreachableError
from tfapp.page import document, registry, server
from tfapp.page.server import Answer, Request
from tfapp.protocol.connection import Connection


@contextlib.contextmanager
def shown(newest: Callable[[], ApplicationStatus], connection: Connection) -> Iterator[None]:
    """The page of what `newest` gives is there as long as this is open. Nothing depends on it:
    where it cannot be served, or the master does not take it, there is none."""
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError, RefusedError, UnreachableError):
            pages = server.PageServer(lambda asked: answer(asked, newest()), proxied=True)
            held.enter_context(pages.serving())
            connection.add_page(PAGE_ROUTE, pages.address, "tfapp")
        yield


def answer(request: Request, status: ApplicationStatus) -> Answer:
    """The page at "", its document at "data.json", and what Slider's registry served. Logs are with
    the nodes, which have pages of their own."""
    about = document.About(status.name, live=status.state not in FINAL_STATES)
    if request.path in ("", "data.json"):
        made = document.of_application(about, status, has_logs=False)
        return server.news(made, request, time.time()) if request.path else server.shown(made)
    if f"{request.path}/".startswith(f"{registry.PUBLISHER}/"):
        found = registry.published(request.path, status, "")
        return server.NOT_FOUND if found is None else server.data(found)
    return server.NOT_FOUND
