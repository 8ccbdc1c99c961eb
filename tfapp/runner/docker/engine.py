"""Calls to the Docker engine. The only module that imports the Docker SDK."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import socket
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from tfapp.errors import causes
from tfapp.frozen import frozen

T = TypeVar("T")

CALL_LIMIT = 60.0  # seconds that a call may take; a busy disk makes the creation slow

_COMMAND = "run a command in a container"
_LOOK_EVERY = 0.2  # seconds between looks at whether it is back
_DEFAULT = "unix:///var/run/docker.sock"


class EngineError(Exception):
    """The engine refuses, or fails; the text is a sentence for the user."""


class GoneError(EngineError):
    """The engine does not answer."""


class MissingError(EngineError):
    """There is no such image or container."""


def load() -> None:
    """Imports the SDK, as `Engine` does otherwise; see `load` in
    tfapp.protocol.connection. EngineError when there is none."""
    try:
        import docker  # noqa: F401
    except ImportError as error:
        raise EngineError(
            f"run mode docker needs the Docker SDK for Python, and {sys.executable} cannot "
            f"import it ({error}); install the package docker there"
        ) from error


class DockerEngine:
    """The engine that `environ` names (DOCKER_HOST, DOCKER_TLS_VERIFY, DOCKER_CERT_PATH), or
    this machine's. Each stream takes a connection of its own."""

    def __init__(self, environ: Mapping[str, str], limit: float = CALL_LIMIT):
        """GoneError when it does not answer, EngineError without the SDK."""
        load()
        import docker
        from docker.utils import kwargs_from_env

        self._address = environ.get("DOCKER_HOST") or _DEFAULT
        with self._calling("be asked for its version"):
            settings = kwargs_from_env(environment=dict(environ))
            self._api = docker.APIClient(version="auto", timeout=limit, **settings)

    def close(self) -> None:
        self._api.close()

    def info(self) -> Mapping[str, Any]:
        """The engine's report of itself and its machine."""
        with self._calling("describe itself"):
            return self._api.info()

    def has_image(self, name: str) -> bool:
        """Whether the image is on the engine's machine."""
        try:
            with self._calling(f"look for image {name}"):
                self._api.inspect_image(name)
        except MissingError:
            return False
        return True

    def image(self, name: str) -> Image:
        """What the image says about its programs."""
        with self._calling(f"look into image {name}"):
            config = self._api.inspect_image(name)["Config"]
        return Image(
            environ=dict(line.partition("=")[::2] for line in config.get("Env") or ()),
            entry_point=tuple(config.get("Entrypoint") or ()),
            arguments=tuple(config.get("Cmd") or ()),
            folder=config.get("WorkingDir") or "/",
        )

    def pull(self, name: str, login: Mapping[str, str] | None) -> Iterator[Mapping[str, Any]]:
        """Pulls an image and yields the engine's reports. `login`: {"username", "password"};
        None leaves it to the user's own Docker configuration. EngineError when it fails; a
        failure in the middle is the last report's "error"."""
        from docker.utils import parse_repository_tag

        repository, tag = parse_repository_tag(name)
        with self._calling(f"pull image {name}"):
            yield from self._api.pull(
                repository, tag or "latest", stream=True, decode=True, auth_config=login
            )

    def ping(self) -> None:
        """GoneError when it does not answer."""
        with self._calling("be asked whether it is there"):
            self._api.ping()

    def create(self, config: Mapping[str, Any]) -> str:
        """Makes a container of `config`, the body of the API's request. Its id."""
        with self._calling("create a container"):
            return self._api.create_container_from_config(dict(config))["Id"]

    def start(self, id: str) -> None:
        with self._calling("start a container"):
            self._api.start(id)

    def unpause(self, id: str) -> None:
        """Lets a container go on that was paused. EngineError when it was not."""
        with self._calling("let a container go on"):
            self._api.unpause(id)

    def output(self, id: str) -> Output:
        """The output of a container from now on."""
        with self._calling("attach to a container"):
            chunks = self._api.attach(id, stdout=True, stderr=True, stream=True, demux=True)
        return Output(chunks, self._stream(chunks, "send a container's output"))

    def events(self, id: str) -> Generator[Mapping[str, Any], None, None]:
        """The past and future events of a container. Ends, or raises GoneError, when the engine
        does."""
        with self._calling("watch a container"):
            found = self._api.events(
                since=1, filters={"container": id, "type": "container"}, decode=True
            )
        return self._stream(found, "watch a container")

    def state(self, id: str) -> Mapping[str, Any]:
        """The `State` of a container. MissingError when it is gone."""
        with self._calling("inspect a container"):
            return self._api.inspect_container(id)["State"]

    def remove(self, id: str) -> None:
        """Kills and removes a container. Nothing happens when it is gone, or on its way."""
        with contextlib.suppress(MissingError), self._calling("remove a container"):
            try:
                self._api.remove_container(id, force=True, v=True)
            except self._errors.APIError as error:
                if error.status_code != 409:  # it is being removed already
                    raise

    def prepare_command(
        self, id: str, argv: Sequence[str], env: Mapping[str, str], terminal: bool
    ) -> str:
        """Makes a command for a container that runs, as its user, in its folder, with its
        environment and `env`. The engine's id of it."""
        # The end of its input is that of half a connection, which TLS does not have.
        if self._api.base_url.startswith(("https:", "http+docker://ssh")):
            raise EngineError(
                f"the Docker engine at {self._address} is reached by TLS or SSH, by which no "
                "command can run beside a program; see site.global.docker.host"
            )
        try:
            "".join(argv).encode()
        except UnicodeEncodeError as error:
            words = "it has bytes that are no UTF-8, which the Docker engine does not take"
            raise EngineError(words) from error
        with self._calling(_COMMAND):
            made = self._api.exec_create(
                id, list(argv), stdin=True, tty=terminal, environment=dict(env)
            )
        return made["Id"]

    def start_command(self, command: str, terminal: bool) -> tuple[socket.socket, bytes]:
        """A connection to its standard streams, which does not block, and what has come from it
        already. Of a terminal, its output is bare; else see `Demultiplexer`."""
        with self._calling(_COMMAND):
            found = self._api.exec_start(command, tty=terminal, socket=True)
        connection = socket.socket(fileno=os.dup(found.fileno()))
        connection.setblocking(False)
        found._sock.setblocking(False)
        early = found._response.raw._fp.fp.peek()  # which the SDK forgets
        found.close()
        return connection, early

    def resize_command(self, command: str, rows: int, columns: int) -> None:
        with self._calling(_COMMAND):
            self._api.exec_resize(command, rows, columns)

    def command_state(self, command: str) -> Mapping[str, Any]:
        """With "Pid" on the engine's machine, 0 before its start, and "ExitCode", None before its
        end. MissingError when its container is gone."""
        with self._calling(_COMMAND):
            return self._api.exec_inspect(command)

    def labelled(self, *labels: str) -> Mapping[str, Mapping[str, str]]:
        """id -> labels of all containers, of any state, that have all of `labels` ("name" or
        "name=value")."""
        with self._calling("list containers"):
            found = self._api.containers(all=True, filters={"label": list(labels)})
        return {container["Id"]: container["Labels"] for container in found}

    @property
    def _errors(self) -> Any:
        from docker import errors

        return errors

    def _stream(self, items: Any, task: str) -> Generator[Any, None, None]:
        try:
            with self._calling(task):
                yield from items
        finally:
            with contextlib.suppress(OSError):  # the other side was faster
                items.close()
            items._response.close()  # which the SDK leaves to chance

    @contextlib.contextmanager
    def _calling(self, task: str) -> Iterator[None]:
        import requests
        import urllib3

        try:
            yield
        except self._errors.NotFound as error:
            raise MissingError(f"the Docker engine cannot {task}: {_words(error)}") from error
        except self._errors.APIError as error:
            raise EngineError(f"the Docker engine cannot {task}: {_words(error)}") from error
        except (
            self._errors.DockerException,
            requests.RequestException,
            urllib3.exceptions.HTTPError,
            OSError,
            ValueError,  # a stream that is cut in the middle of a message
        ) as error:
            raise GoneError(self._unreachable(error)) from error

    def _unreachable(self, error: BaseException) -> str:
        # The system's own, below those of the libraries.
        found = (each for each in causes(error) if isinstance(each, OSError))
        cause = next((each for each in found if isinstance(each.errno, int)), None)
        number = cause.errno if cause is not None else None
        if number == errno.ENOENT:
            return (
                f"there is no Docker engine at {self._address}; start it, or name another with "
                "site.global.docker.host or DOCKER_HOST"
            )
        if number in (errno.EACCES, errno.EPERM):
            return (
                f"this user may not use the Docker engine at {self._address}: permission denied; "
                "an administrator can add the user to the group that owns the socket"
            )
        detail = cause.strerror if cause is not None and cause.strerror else str(error)
        return f"the Docker engine at {self._address} does not answer: {detail}"


@frozen
class Image:
    """An image's own variables, ENTRYPOINT, CMD and WORKDIR."""

    environ: Mapping[str, str] = dataclasses.field(default_factory=dict)
    entry_point: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    folder: str = "/"


class Output:
    """(standard output, standard error) of a container until its end; an error of the stream ends
    it too."""

    def __init__(self, source: Any, chunks: Iterator[tuple[bytes | None, bytes | None]]):
        self._source = source
        self._chunks = chunks

    def __iter__(self) -> Iterator[tuple[bytes | None, bytes | None]]:
        with contextlib.suppress(EngineError):
            yield from self._chunks

    def close(self) -> None:
        """Ends it, for whoever reads it in another thread: the engine does not end that of a
        container that never started."""
        with contextlib.suppress(OSError):  # it has ended
            self._source.close()


def patiently(call: Callable[[], T], limit: float) -> T:
    """The result of `call`, repeated for as long as the engine does not answer: it may be
    restarting. GoneError after `limit` seconds."""
    end = time.monotonic() + limit
    while True:
        try:
            return call()
        except GoneError:
            if time.monotonic() >= end:
                raise
        time.sleep(_LOOK_EVERY)


def _words(error: Any) -> str:
    return str(error.explanation or error).strip()
