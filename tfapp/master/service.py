"""Skein's AppMaster service: all its calls, on the values of this engine.

The event loop is the lock: no handler awaits between reading and changing the store.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Iterable
from typing import Any
from urllib.parse import urlsplit

import grpc

from tfapp.frozen import frozen
from tfapp.master import messages as convert
from tfapp.master.lifecycle import Lifecycle
from tfapp.master.store import Delete, Get, KeyValueStore, RequestError
from tfapp.master.watches import Watches, WatchStream
from tfapp.protocol.definition import messages

PREFIX = "/pages"
NO_PAGES = "http://127.0.0.1:0/"


@frozen
class Page:
    """`route` and `link_name` are unique; `link_name` may be ""."""

    route: str
    target: str
    link_name: str = ""


class MasterPages:
    """The web pages that an application announces, as `get_pages` gives them back. `changed` is
    called with a route and its new page. `pages`: those that are there already."""

    def __init__(
        self,
        changed: Callable[[str, Page | None], None] = lambda route, page: None,
        pages: Iterable[Page] = (),
    ) -> None:
        self._changed = changed
        self._pages = {page.route: page for page in pages}

    def add(self, page: Page) -> None:
        """RequestError when it cannot be a page or there is one like it."""
        if "/" in page.route:
            raise RequestError("Page page routes must not contain '/'")
        if not _is_url(page.target):
            raise RequestError(f"Page target address '{page.target}' is an invalid URL")
        if page.route in self._pages:
            raise RequestError(
                f"A proxied page with route '{page.route}' already exists", "ALREADY_EXISTS"
            )
        names = {other.link_name for other in self._pages.values()}
        if page.link_name and page.link_name in names:
            raise RequestError(
                f"A proxied page with link name '{page.link_name}' already exists",
                "ALREADY_EXISTS",
            )
        self._pages[page.route] = page
        self._changed(page.route, page)

    def remove(self, route: str) -> None:
        """RequestError when there is none."""
        if self._pages.pop(route, None) is None:
            raise RequestError(
                f"A proxied page with route '{route}' doesn't exist", "FAILED_PRECONDITION"
            )
        self._changed(route, None)

    def all(self) -> tuple[Page, ...]:
        """In the order they were added."""
        return tuple(self._pages.values())


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False


def _unary(handler: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """A call with one answer, before which its changes are kept; RequestError becomes its gRPC
    status."""

    @functools.wraps(handler)
    async def call(self: Any, request: Any, context: Any) -> Any:
        try:
            answer = handler(self, request)
            kept = self.commit()
            if kept is not None:
                await asyncio.shield(kept)
            return answer
        except RequestError as error:  # it has changed nothing
            await context.abort(grpc.StatusCode[error.code], str(error))

    return call


class AppMaster:
    """The service of a master. Its methods are the calls of tfapp.protocol.definition.
    `end(status, message)` is called when a client shuts the application down; it returns at
    once. `commit` is called before each answer, which waits for what it returns."""

    def __init__(
        self,
        spec: Any,
        store: KeyValueStore,
        watches: Watches,
        lifecycle: Lifecycle,
        end: Callable[[str, str], None],
        pages: MasterPages,
        commit: Callable[[], Awaitable[None] | None],
    ):
        self._spec = spec
        self._store = store
        self._watches = watches
        self._lifecycle = lifecycle
        self._end = end
        self._pages = pages
        self.commit = commit
        self._streams: set[WatchStream] = set()
        self.progress = 0.1  # Skein's own until a program says otherwise

    def end_streams(self, reason: str) -> None:
        """Breaks all Watch streams once what is queued has been sent."""
        for stream in tuple(self._streams):
            stream.end(reason)

    # -- the key-value store --
    @_unary
    def GetRange(self, request: Any) -> Any:
        found = self._store.apply(Get(convert.read_range(request)))
        return convert.range_response(request, found)

    @_unary
    def DeleteRange(self, request: Any) -> Any:
        found = self._store.apply(Delete(convert.read_range(request)))
        return convert.range_response(request, found)

    @_unary
    def PutKey(self, request: Any) -> Any:
        return convert.put_response(request, self._store.apply(convert.read_put(request)))

    @_unary
    def Transaction(self, request: Any) -> Any:
        conditions = [convert.read_condition(condition) for condition in request.condition]
        on_success = [op for op in request.on_success if op.WhichOneof("request")]
        on_failure = [op for op in request.on_failure if op.WhichOneof("request")]
        succeeded, results = self._store.transaction(
            conditions,
            [convert.read_operation(op) for op in on_success],
            [convert.read_operation(op) for op in on_failure],
        )
        taken = on_success if succeeded else on_failure
        answers = [convert.operation_response(op, res) for op, res in zip(taken, results)]
        return messages.TransactionResponse(succeeded=succeeded, result=answers)

    async def Watch(self, requests: Any, context: Any) -> None:
        stream = WatchStream(self._watches)
        self._streams.add(stream)
        try:
            await stream.serve(requests, context)
        finally:
            self._streams.discard(stream)

    # -- containers --
    @_unary
    def getContainers(self, request: Any) -> Any:
        states = [messages.Container.State.Name(state) for state in request.states]
        return self._containers(self._lifecycle.containers(request.services, states))

    @_unary
    def addContainer(self, request: Any) -> Any:
        container = self._lifecycle.add(request.service_name, request.env)
        return convert.container_message(container)

    @_unary
    def killContainer(self, request: Any) -> Any:
        self._lifecycle.kill(convert.read_owner(request))
        return messages.Empty()

    @_unary
    def scale(self, request: Any) -> Any:
        return self._containers(
            self._lifecycle.scale(request.service_name, request.count, request.delta)
        )

    def _containers(self, containers: Any) -> Any:
        found = [convert.container_message(c) for c in containers]
        return messages.ContainersResponse(containers=found)

    # -- the application --
    @_unary
    def shutdown(self, request: Any) -> Any:
        status = messages.FinalStatus.Type.Name(request.final_status)
        self._end(status, request.diagnostics or "Shutdown requested by user.")
        return messages.Empty()

    @_unary
    def getApplicationSpec(self, request: Any) -> Any:
        return self._spec

    @_unary
    def SetProgress(self, request: Any) -> Any:
        if not 0 <= request.progress <= 1:
            raise RequestError(f"progress must be between 0 and 1, got {request.progress:g}")
        self.progress = request.progress
        return messages.Empty()

    # -- web pages --
    @_unary
    def AddProxy(self, request: Any) -> Any:
        self._pages.add(Page(request.route, request.target, request.link_name))
        return messages.Empty()

    @_unary
    def RemoveProxy(self, request: Any) -> Any:
        self._pages.remove(request.route)
        return messages.Empty()

    @_unary
    def UiInfo(self, request: Any) -> Any:
        # A master serves no web pages: each is at its own target.
        return messages.UIInfoResponse(ui_address=[NO_PAGES], proxy_prefix=PREFIX)

    @_unary
    def GetProxies(self, request: Any) -> Any:
        found = [
            messages.Proxy(route=p.route, target=p.target, link_name=p.link_name)
            for p in self._pages.all()
        ]
        return messages.GetProxiesResponse(proxy=found)
