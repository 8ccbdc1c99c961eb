import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.debian import UnavailableError
from tests.lacking import lacking
from tests.page.browser import Browser, browser


@pytest.fixture(scope="session")
def session_browser() -> Iterator[Browser]:
    cache = Path(os.environ.get("TFAPP_TEST_CACHE") or "~/.cache/tfapp").expanduser()
    with contextlib.ExitStack() as held:
        try:
            found = held.enter_context(browser(cache))
        except UnavailableError as error:
            lacking(f"this machine has no Chromium: {error}")
        yield found


@pytest.fixture
def window(session_browser) -> Browser:
    """The browser's window, as on a desk. Nothing is loaded, and no page complains."""
    session_browser.size(1280, 900)
    session_browser.open("about:blank")
    session_browser.complaints()
    return session_browser
