"""What follows the verdict of an application: its place in the history, and telling its end. None
of it changes the verdict; what fails is told in the timeline."""

from __future__ import annotations

import http.client
import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from tfapp import threads
from tfapp.contract.encoding import encode
from tfapp.contract.job import Job, Private
from tfapp.contract.names import ENV_STORAGE_SCHEMES, PRIVATE_FILE, STORAGE_DIR
from tfapp.contract.on_end import COMMAND, OnEnd, message
from tfapp.contract.status import ApplicationStatus
from tfapp.errors import UnavailableError

HISTORY_LIMIT = 20.0  # seconds
# The end of the application is seen after all that: whoever is silent must not hold it up for long.
TELL_LIMIT = 5.0  # seconds for all attempts
CALL_LIMIT = 3.0  # seconds in which the receiver must say something
PAUSE = 0.5  # seconds between two attempts; the next pause is twice as long

Steps = list[tuple[str, float, Callable[[], None]]]  # what fails in words, its limit, the call


def follow_up(
    job: Job,
    status: ApplicationStatus,
    logs: Mapping[str, str],
    environ: Mapping[str, str],
    root: Path = Path(),
) -> Callable[[], list[str]]:
    """Begins what follows the end of `job` with `status`, and returns at once. The call that it
    returns waits until that is done, or its time is over, and says in sentences what has failed.
    `logs`: instance -> last lines. `root`: the folder of the master's files."""
    settings = job.components[0].settings
    steps: Steps = []
    id = environ.get("SKEIN_APPLICATION_ID", "")
    where, on_end = settings.text("history.dir"), OnEnd.of(settings.text("on.end"))
    if where:
        failed = f"the history at {where}"
        steps.append(
            (failed, HISTORY_LIMIT, lambda: _keep(job, status, logs, id, where, environ, root))
        )
    if on_end is not None and on_end.form != COMMAND:
        failed = "the receiver of site.global.on.end was not told"
        steps.append((failed, TELL_LIMIT, lambda: _tell(on_end, status, id, job, root)))
    begun = time.monotonic()
    outcomes: list[list[str]] = [[] for _ in steps]
    working = [
        threads.start_surely("tfapp-after-end", _run, call, outcome)
        for (_, _, call), outcome in zip(steps, outcomes)
    ]

    def wait() -> list[str]:
        found = []
        for (failed, limit, _), outcome, thread in zip(steps, outcomes, working):
            thread.join(max(begun + limit - time.monotonic(), 0.0))
            why = outcome[0] if outcome else f"no answer within {limit:g} s"
            if why:
                found.append(f"{failed}: {why}")
        return found

    return wait


def _run(call: Callable[[], None], outcome: list[str]) -> None:
    """Adds why the call has failed, "" if it has not."""
    try:
        call()
        outcome.append("")
    except UnavailableError as error:
        outcome.append(error.message)
    except Exception as error:  # also a bug: the verdict stands
        outcome.append(f"{type(error).__name__}: {error}")


def _keep(
    job: Job,
    status: ApplicationStatus,
    logs: Mapping[str, str],
    id: str,
    where: str,
    environ: Mapping[str, str],
    root: Path,
) -> None:
    from tfapp.coordinator.history import Limits, keep
    from tfapp.storage.place import place_at

    settings = job.components[0].settings
    packages = root / STORAGE_DIR
    if packages.is_dir():
        sys.path.append(str(packages.resolve()))
    environ = {
        **environ,
        **_variables(job, root),
        ENV_STORAGE_SCHEMES: settings.text("storage.schemes"),
    }
    limits = Limits(job.history_age, int(settings.text("history.max.mb") or 0) << 20)
    keep(place_at(where, environ), job, status, logs, id, limits)


def _variables(job: Job, root: Path) -> Mapping[str, str]:
    """The variables of the first component's programs, with all credentials."""
    private = Private.from_dict(json.loads((root / PRIVATE_FILE).read_bytes()))
    return private.env.get(job.components[0].name, {})


def _tell(on_end: OnEnd, status: ApplicationStatus, id: str, job: Job, root: Path) -> None:
    """Sends the verdict. UnavailableError without the URL, which may be a secret."""
    alias = on_end.credential
    url = _variables(job, root).get(alias, "").strip() if alias else on_end.target
    if not url.startswith(("http://", "https://")):
        raise UnavailableError(f"the credential {alias} is no http:// or https:// URL")
    body = encode(message(on_end.form, status, id))
    until, pause = time.monotonic() + TELL_LIMIT, PAUSE
    while True:
        again, why = _send(url, body)
        if not why:
            return
        if not again or time.monotonic() + pause >= until:
            raise UnavailableError(why)
        time.sleep(pause)
        pause *= 2


def _send(url: str, body: bytes) -> tuple[bool, str]:
    """Whether another attempt may help, and why this one has failed; "" if it has not."""
    headers = {"Content-Type": "application/json", "User-Agent": "tfapp"}
    try:
        request = urllib.request.Request(url, body, headers, method="POST")
        with _OPENER.open(request, timeout=CALL_LIMIT):
            return False, ""
    except urllib.error.HTTPError as error:
        error.close()
        return error.code == 429 or error.code >= 500, f"it answers {error.code} {error.reason}"
    except urllib.error.URLError as error:
        return True, str(getattr(error.reason, "strerror", None) or error.reason)
    except ValueError:  # whose words have the URL
        return False, "it is no URL"
    except (OSError, http.client.HTTPException) as error:
        return True, str(error) or type(error).__name__


class _Stays(urllib.request.HTTPRedirectHandler):
    """Where it is led elsewhere, a POST would become a GET, which tells nothing."""

    def redirect_request(self, *_: object) -> None:
        return None


_OPENER = urllib.request.build_opener(_Stays)
