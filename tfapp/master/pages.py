"""The list of web pages that an application announces. Pure.

A master serves no web pages: a page is reachable at its own target, and what is kept
here is only the list that `get_pages` gives back.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from tfapp.frozen import frozen
from tfapp.master.store import RequestError

PREFIX = "/pages"
NO_PAGES = "http://127.0.0.1:0/"


@frozen
class Page:
    """`route` and `link_name` are unique; `link_name` may be ""."""

    route: str
    target: str
    link_name: str = ""


class Pages:
    """The pages of one application."""

    def __init__(self) -> None:
        self._pages: dict[str, Page] = {}

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

    def remove(self, route: str) -> None:
        """RequestError when there is none."""
        if self._pages.pop(route, None) is None:
            raise RequestError(
                f"A proxied page with route '{route}' doesn't exist", "FAILED_PRECONDITION"
            )

    def all(self) -> tuple[Page, ...]:
        """In the order they were added."""
        return tuple(self._pages.values())


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False
