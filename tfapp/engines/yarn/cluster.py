"""The cluster as seen through Skein's driver: applications, queues and nodes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tfapp.contract.encoding import Coded
from tfapp.engines.yarn import kerberos
from tfapp.engines.yarn.driver import CALL_LIMIT, forget, open_driver, touch
from tfapp.engines.yarn.layout import YarnHome
from tfapp.errors import ForbiddenError, UnavailableError, UnknownApplicationError
from tfapp.frozen import frozen

if TYPE_CHECKING:
    import skein

# YARN's states of an application that has not ended; the others are FINISHED, FAILED, KILLED.
WAITING_STATES = ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED")
FORGOTTEN = "FORGOTTEN"  # tfapp's own: the ResourceManager knew it and does not any more
_ALL_STATES = (*WAITING_STATES, "RUNNING", "FINISHED", "FAILED", "KILLED")

ANY_LABEL = "*"

# The ResourceManager's refusals: for a queue's rights, and by the fair scheduler's rules.
_EXCEPTION = re.compile(r"\A[\w.$]*Exception: ")
_FORBIDDEN = ("AccessControlException", "rejected by placement rules")


class YarnRefusedError(ForbiddenError):
    """The ResourceManager refuses something for its rules. `reason`: its own words."""

    def __init__(self, what: str, reason: str):
        super().__init__(f"{what}: {reason}")
        self.reason = _EXCEPTION.sub("", reason)


@frozen
class YarnReport(Coded):
    """The ResourceManager's report on an application. Times are seconds since 1970, 0 for an event
    that has not happened. `address`: that of its master; "" if there is none. `outage`: why this is
    what it has said before."""

    id: str
    name: str
    user: str
    tags: tuple[str, ...]
    state: str
    final_status: str
    diagnostics: str
    address: str
    tracking_url: str
    started: float
    finished: float
    outage: str = ""

    @property
    def ended(self) -> bool:
        return self.state in ("FINISHED", "FAILED", "KILLED", FORGOTTEN)


@frozen
class Queue:
    """A queue. `labels`: the node labels that its applications may use; "*" for all.
    `default_label`: the label of requests without one; "" for none."""

    name: str
    running: bool
    labels: frozenset[str]
    default_label: str = ""


@frozen
class YarnNode:
    """A node in service. `memory`: the total in MiB. `pages`: the address of its web pages,
    host:port."""

    host: str
    labels: frozenset[str]
    memory: int
    vcores: int
    gpus: int
    pages: str = ""
    rack: str = "/default-rack"  # YARN's own where the cluster tells of none


class YarnCluster:
    """Methods raise UnavailableError if the cluster does not answer in time or refuses, and
    ForbiddenError if the user lacks the permission. `environ` selects the cluster. `clock`: seconds
    since 1970."""

    def __init__(
        self, home: YarnHome, environ: Mapping[str, str], clock: Callable[[], float] = time.time
    ):
        self._home = home
        self._environ = environ
        self._clock = clock
        self._client: Any = None

    def submit(self, spec: skein.ApplicationSpec) -> str:
        return self._ask("take the application", lambda client: client.submit(spec))

    def applications(self, user: str, name: str | None = None) -> tuple[YarnReport, ...]:
        """The Skein applications of `user` that YARN knows, oldest first."""
        found = self._ask(
            "list applications",
            lambda client: client.get_applications(states=_ALL_STATES, name=name, user=user),
        )
        return tuple(sorted(map(_report, found), key=lambda report: age(report.id)))

    def application(self, application: str) -> YarnReport:
        """The report on an application. UnknownApplicationError if YARN does not know it (any
        more)."""
        return _report(self._ask("report", lambda client: client.application_report(application)))

    def kill(self, application: str) -> None:
        """Kills an application if it runs, and deletes its staging folder."""
        self._ask("kill the application", lambda client: client.kill_application(application))

    def queues(self) -> tuple[Queue, ...]:
        found = self._ask("list queues", lambda client: client.get_all_queues())
        return tuple(
            Queue(
                name=queue.name,
                running=str(queue.state) == "RUNNING",
                labels=frozenset(queue.node_labels),
                default_label=queue.default_node_label,
            )
            for queue in found
        )

    def nodes(self) -> tuple[YarnNode, ...]:
        found = self._ask("list nodes", lambda client: client.get_nodes(states=("RUNNING",)))
        return tuple(
            YarnNode(
                host=node.host,
                rack=node.rack_name,
                labels=frozenset(node.labels),
                memory=node.total_resources.memory,
                vcores=node.total_resources.vcores,
                gpus=node.total_resources.gpus,
                pages=node.http_address,
            )
            for node in found
        )

    def lost_hosts(self) -> frozenset[str]:
        """The hosts that YARN has lost contact with."""
        found = self._ask("list nodes", lambda client: client.get_nodes(states=("LOST",)))
        return frozenset(node.host for node in found)

    def keep(self) -> None:
        """Keeps the driver alive for further commands."""
        touch(self._home, self._environ)

    def _ask(self, what: str, question: Callable[[Any], Any]) -> Any:
        """Calls the driver; if it has ended since the last call, a new one."""
        from tfapp.skein_library import skein

        try:
            try:
                return question(self._driver())
            except skein.exceptions.ConnectionError:
                self._client = None
                return question(self._driver())
        except skein.exceptions.TimeoutError as error:
            self._require_login()
            raise UnavailableError(
                f"YARN did not {what} within {CALL_LIMIT:g} s",
                f"{self._who_is_down()} {self._where()}",
            ) from error
        except (KeyError, ValueError, skein.exceptions.SkeinError) as error:
            detail = str(error.args[0] if error.args else error)
            if "doesn't exist" in detail or "Unknown application" in detail:
                raise UnknownApplicationError(first_line(detail)) from error
            if kerberos.complaint(detail):
                self._require_login()
                forget(self._home, self._environ)  # it would not notice another ticket
                raise kerberos.refused(self._environ, detail) from error
            if any(words in detail for words in _FORBIDDEN):
                raise YarnRefusedError(f"YARN did not {what}", _reason(detail)) from error
            raise UnavailableError(f"YARN did not {what}: {_reason(detail)}", self._where()) from (
                error
            )

    def _driver(self) -> Any:
        if self._client is None:
            self._require_login()
            self._client = open_driver(self._home, self._environ, self._clock())
        else:
            self.keep()
        return self._client

    def _require_login(self) -> None:
        """UnavailableError if Kerberos is required and the user has neither a ticket nor a
        keytab."""
        kerberos.require(self._environ, self._clock())

    def _who_is_down(self) -> str:
        if kerberos.is_asked(self._environ):
            return "Are the ResourceManager that the configuration names and Kerberos' KDC up?"
        return "Is the ResourceManager up that the configuration names?"

    def _where(self) -> str:
        folder = self._environ.get("HADOOP_CONF_DIR")
        return f"HADOOP_CONF_DIR is {folder}." if folder else "HADOOP_CONF_DIR is not set."


def forgotten(id: str, name: str, user: str, tags: tuple[str, ...], started: float) -> YarnReport:
    """A report on an application that the ResourceManager does not know any more."""
    return YarnReport(id, name, user, tags, FORGOTTEN, "UNDEFINED", "", "", "", started, started)


def first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _reason(detail: str) -> str:
    """An error message without the first line of Skein and without the stack of Java."""
    lines = [line.strip() for line in detail.splitlines() if line.strip()]
    words = [line for line in lines if not line.startswith("at ")]
    if len(words) > 1 and words[0].endswith(("exception:", "Exception:")):
        words = words[1:]
    return words[0] if words else "it gave no reason"


def age(application: str) -> tuple[int, int]:
    """A sort key: "application_1700000000000_0007" -> (1700000000000, 7)."""
    _, cluster, number = application.split("_")
    return int(cluster), int(number)


def _report(found: Any) -> YarnReport:
    return YarnReport(
        id=found.id,
        name=found.name,
        user=found.user,
        tags=tuple(sorted(found.tags)),
        state=str(found.state),
        final_status=str(found.final_status),
        diagnostics=found.diagnostics or "",
        address=f"{found.host}:{found.port}" if found.host and (found.port or 0) > 0 else "",
        tracking_url=found.tracking_url or "",
        started=found.start_time.timestamp() if found.start_time else 0.0,
        finished=found.finish_time.timestamp() if found.finish_time else 0.0,
    )
