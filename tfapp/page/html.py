"""The HTML of a page: one self-contained file with its style, its script and a document.

The script shows the document, as text and never as markup. The Content-Security-Policy forbids all
other scripts, and all requests but those for newer documents, to the page's own server.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import pkgutil
import re
from collections.abc import Mapping
from typing import Any

from tfapp.page.document import encoded

_PLACE = re.compile(r"\{\{(\w+)\}\}")


def page(document: Mapping[str, Any]) -> str:
    """The HTML of the page of a document."""
    parts = {
        "title": html.escape(f"{document['name']} · tfapp"),
        "words": html.escape(str(document.get("words", ""))),
        "policy": html.escape(policy(in_page=True)),
        "style": _file("page.css"),
        "script": _file("page.js"),
        "data": _within_script(encoded(document).decode()),
    }
    return _PLACE.sub(lambda found: parts[found[1]], _file("page.html"))


@functools.cache
def policy(in_page: bool = False) -> str:
    """The Content-Security-Policy of pages. `in_page`: only the rules that a page's own <meta>
    element may set."""
    rules = [
        "default-src 'none'",
        f"script-src '{_hash('page.js')}'",
        f"style-src '{_hash('page.css')}'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join(rules if in_page else [*rules, "frame-ancestors 'none'"])


def _within_script(text: str) -> str:
    """JSON text with `<`, `>` and `&` escaped, so that it cannot end its script element."""
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _hash(name: str) -> str:
    digest = hashlib.sha256(_file(name).encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


@functools.cache
def _file(name: str) -> str:
    data = pkgutil.get_data("tfapp.page", name)  # in a container, tfapp may be in an archive
    assert data is not None
    return data.decode()
