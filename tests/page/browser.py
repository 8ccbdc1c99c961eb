"""A real browser: Debian's Chromium without a display, told what to do by its driver over HTTP
(https://www.w3.org/TR/webdriver2/)."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from tests.debian import Packages, UnavailableError
from tests.waiting import wait

PACKAGES = ("chromium", "chromium-driver", "fonts-dejavu-core")
PROGRAMS = ("chromium", "chromedriver")
LIMIT = 120.0  # seconds for one step of the browser
STARTED = re.compile(r"started successfully on port (\d+)\.")  # in the driver's output

ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)

T = TypeVar("T")


class BrowserError(Exception):
    """The browser, or its driver, says no."""


class Browser:
    """One window. To be made by `browser`."""

    def __init__(self, driver: str, options: dict[str, Any]):
        self._driver = driver
        wanted = {"browserName": "chrome", "goog:chromeOptions": options}
        wanted["goog:loggingPrefs"] = {"browser": "ALL"}
        made = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{made['sessionId']}"

    def open(self, url: str) -> None:
        """Goes there and waits until the page is loaded."""
        self._ask("POST", f"{self._session}/url", {"url": url})

    def run(self, script: str, *values: Any) -> Any:
        """What the body of a JavaScript function returns; `values` are its `arguments`. The
        page's own policy does not apply to it."""
        body = {"script": script, "args": list(values)}
        return self._ask("POST", f"{self._session}/execute/sync", body)

    def text(self, selector: str = "body") -> str:
        """The text of the first element that a CSS selector finds, as it is seen; "" for none."""
        return self.run(
            "const e = document.querySelector(arguments[0]); return e ? e.innerText : ''", selector
        )

    def texts(self, selector: str) -> list[str]:
        """The texts of all elements that a CSS selector finds, also of those in a picture."""
        script = "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)"
        return self.run(script, selector)

    def size(self, width: int, height: int, dark: bool = False) -> None:
        """Makes the page so wide, in CSS pixels, as on a phone or a desk."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self._devtools("Emulation.setDeviceMetricsOverride", metrics)
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._devtools("Emulation.setEmulatedMedia", {"features": [feature]})

    def widths(self) -> tuple[int, int]:
        """The width of the page's content, and of the window: more means scrolling sideways."""
        page, window = self.run(
            "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        return page, window

    def complaints(self) -> list[str]:
        """What the browser has said of the page since the last call: errors of its script, what its
        policy forbids."""
        logged = self._ask("POST", f"{self._session}/se/log", {"type": "browser"})
        return [entry["message"] for entry in logged]

    def close(self) -> None:
        self._ask("DELETE", self._session)

    def _devtools(self, command: str, parameters: dict[str, Any]) -> Any:
        body = {"cmd": command, "params": parameters}
        return self._ask("POST", f"{self._session}/goog/cdp/execute", body)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._driver + path, data, method=method)
        try:
            with _DIRECT.open(request, timeout=LIMIT) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise BrowserError(error.read().decode(errors="replace")[:2000]) from error


_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def wait_for(look: Callable[[], T], what: str, limit: float = LIMIT) -> T:
    """What `look` finds, once that is something. AssertionError after `limit` seconds."""
    return wait(look, f"{what} did not come within {limit:g} s", limit)


@contextlib.contextmanager
def browser(cache: Path) -> Iterator[Browser]:
    """One that is gone afterwards, with all that it has kept. Where this machine has none, it comes
    from Debian's packages, which stay in `cache`. UnavailableError when it cannot be had."""
    packages = Packages(cache / "chromium", PACKAGES, PROGRAMS)
    packages.prepare()
    with contextlib.ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="tfapp-browser-")))
        environ = {**packages.environ(), "HOME": str(folder), "XDG_RUNTIME_DIR": str(folder)}
        if packages.root.is_dir():
            environ["FONTCONFIG_FILE"] = _fonts(folder, packages.root)
            # Libraries that are looked for in a folder of their own, as it is once installed.
            private = map(str, packages.root.glob("usr/lib/*-linux-gnu/pulseaudio"))
            environ["LD_LIBRARY_PATH"] = ":".join((environ["LD_LIBRARY_PATH"], *private))
        program, driver = (_program(packages, name) for name in PROGRAMS)
        address = held.enter_context(_driver(driver, environ, folder))
        arguments = [*ARGUMENTS, f"--user-data-dir={folder / 'profile'}"]
        made = Browser(address, {"binary": program, "args": arguments})
        held.callback(made.close)
        yield made


def _program(packages: Packages, name: str) -> str:
    """Its path. What Debian calls `chromium` is a script that looks below /usr."""
    unpacked = packages.root / "usr"
    for path in (unpacked / "lib" / "chromium" / name, unpacked / "bin" / name):
        if path.is_file():
            return str(path)
    found = shutil.which(name)
    if found is None:
        raise UnavailableError(f"there is no {name} in {unpacked}")
    return found


def _fonts(folder: Path, root: Path) -> str:
    """A configuration for the fonts that were unpacked."""
    path = folder / "fonts.conf"
    places = (root / "usr/share/fonts", Path("/usr/share/fonts"))
    folders = "".join(f"<dir>{place}</dir>" for place in places)
    cache = f"<cachedir>{folder / 'fonts'}</cachedir>"
    sans = "<prefer><family>DejaVu Sans</family></prefer>"
    alias = f"<alias><family>system-ui</family>{sans}</alias>"
    path.write_text(f'<?xml version="1.0"?><fontconfig>{folders}{cache}{alias}</fontconfig>')
    return str(path)


@contextlib.contextmanager
def _driver(program: str, environ: dict[str, str], folder: Path) -> Iterator[str]:
    """The address of a driver that runs."""
    log = folder / "driver.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [program, "--port=0"],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:

        def port() -> str:
            said = log.read_text(errors="replace")
            assert process.poll() is None, said
            found = STARTED.search(said)
            return found[1] if found else ""

        yield f"http://127.0.0.1:{wait_for(port, 'the driver')}"
    finally:
        process.terminate()
        try:
            process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
