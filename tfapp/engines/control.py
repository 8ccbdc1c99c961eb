"""What a running application is asked, or told, on any engine."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import TypeVar
from urllib.parse import urlsplit

from tfapp.close_match import did_you_mean
from tfapp.contract.channel import (
    CHUNK,
    ERRORS,
    EXIT,
    INPUT,
    OUTPUT,
    READY,
    START,
    Channel,
    GoneError,
)
from tfapp.contract.encoding import encode
from tfapp.contract.messages import FlexReply, FlexRequest
from tfapp.contract.names import (
    CLUSTER_ROLES,
    FLEXED_PREFIX,
    KEY_EXEC,
    KEY_FEED,
    KEY_FLEX,
    KEY_PROFILE,
    KEY_STACKS,
    OFFER_PREFIX,
    PROFILED_PREFIX,
    RUNNING,
    STACKS_PREFIX,
    STOPPING,
)
from tfapp.contract.profiles import (
    MAX_SECONDS,
    SECONDS,
    WRITE_LIMIT,
    InstanceProfile,
    Profile,
    ProfileRequest,
)
from tfapp.contract.sessions import ASK_LIMIT as SESSION_LIMIT
from tfapp.contract.sessions import Command, SessionOffer, SessionRequest
from tfapp.contract.stacks import ASK_LIMIT, InstanceStacks, Stacks, StacksRequest, grouped
from tfapp.contract.status import FeedStatus
from tfapp.engines.base import Engine
from tfapp.engines.owner import owner_file
from tfapp.errors import (
    BadStateError,
    NotFoundError,
    TfappError,
    TimedOutError,
    UnavailableError,
    UnreachableError,
    UsageError,
)
from tfapp.protocol.connection import Connection
from tfapp.protocol.watch import Broken, Put, Watch

REPLY_LIMIT = 30.0  # seconds until the coordinator has decided
MAX_OUTPUT = 64 << 20  # bytes of a command's output that are kept in memory

_Answer = TypeVar("_Answer", InstanceStacks, InstanceProfile)


def flex(engine: Engine, name: str, component: str, count: str) -> str:
    """Requests `count` instances of a component ("3", "+1" or "-1"). Returns the effect as a
    sentence. BadStateError if it is not possible, UnreachableError if there is no answer."""
    request = FlexRequest(uuid.uuid4().hex, component, count)
    key = FLEXED_PREFIX + request.id
    with engine.connect(name) as connection:
        replied = _reply(connection, key, lambda: connection.put(KEY_FLEX, encode(request)))
        if replied is None:
            raise UnreachableError(
                f"the coordinator of {name} has not answered",
                f"`tfapp status {name}` says whether it did so later.",
            )
        connection.discard(key)
    reply = FlexReply.from_dict(json.loads(replied))
    if not reply.accepted:
        raise BadStateError(reply.text)
    return reply.text


def _reply(connection: Connection, key: str, ask: Callable[[], None]) -> bytes | None:
    """What is written at `key` after `ask`, which is called once: where the master is lost
    meanwhile, the next one has the request, or the reply. None if there is no reply."""
    end, asked = time.monotonic() + REPLY_LIMIT, False
    while time.monotonic() < end:
        with connection.watch(keys=[key]) as watch:
            if not asked:
                ask()
            elif found := watch.read().get(key):
                return found
            asked = True
            event = watch.get(end - time.monotonic())
            if isinstance(event, Put):
                return event.value
    return None


def stacks(engine: Engine, name: str, which: str = "", limit: float = ASK_LIMIT) -> Stacks:
    """The stacks of the programs that run: of all, of a component, or of an instance ("worker/1"),
    by their runners. `limit`: seconds for all of them. NotFoundError if there is nothing of that
    name, BadStateError if no program runs."""
    waiting = _that_run(engine, name, [which] if which else [])
    asked = tuple(waiting) if which else ()
    request = StacksRequest(uuid.uuid4().hex, asked)
    told = _told(engine, name, KEY_STACKS, request, STACKS_PREFIX, InstanceStacks, waiting, limit)
    instances = tuple(told[i] for i in waiting if i in told)
    missing = tuple(i for i in waiting if i not in told)
    peers = (i for i in engine.find(name).status.instances if i.role in CLUSTER_ROLES)
    ended = tuple(f"{i.instance} has ended: {i.exit.text}" for i in peers if i.exit)
    return Stacks(grouped((i.instance, i.place) for i in instances), instances, missing, ended)


def profile(
    engine: Engine,
    name: str,
    which: Sequence[str] = (),
    seconds: float = SECONDS,
    limit: float = WRITE_LIMIT + ASK_LIMIT,
) -> Profile:
    """Lets the programs that run trace the same `seconds` seconds, at most MAX_SECONDS: all, or
    those of the components and instances in `which`. `limit`: seconds in which they have written
    the traces. UsageError for other seconds, NotFoundError if there is nothing of a name,
    BadStateError if no program runs."""
    if not 0 < seconds <= MAX_SECONDS:
        raise UsageError(f"a profile of {seconds:g} s: it is more than 0 and at most 60 s")
    waiting = _that_run(engine, name, which)
    run = time.strftime("%Y_%m_%d_%H_%M_%S")  # as TensorFlow names runs
    request = ProfileRequest(uuid.uuid4().hex, run, seconds, tuple(waiting) if which else ())
    limit += seconds
    told = _told(
        engine, name, KEY_PROFILE, request, PROFILED_PREFIX, InstanceProfile, waiting, limit
    )
    instances = tuple(told[i] for i in waiting if i in told)
    return Profile(run, instances, tuple(i for i in waiting if i not in told))


@contextlib.contextmanager
def session(engine: Engine, name: str, instance: str, home: Path) -> Iterator[Channel]:
    """A context manager: a session in the container of `instance`, whose program runs, for the
    owner of the application, whose key is in `home` (TFAPP_HOME). NotFoundError if there is no such
    instance, BadStateError if it has no program, or no session for this user. UnreachableError when
    the session is cut off in the block."""
    if _that_run(engine, name, [instance]) != [instance]:
        hint = f"Name one instance, such as {instance}/0."
        raise UsageError(f"{instance} is a component: a session is in one instance", hint)
    request = SessionRequest(uuid.uuid4().hex, instance)
    key = OFFER_PREFIX + instance
    with engine.connect(name) as connection, connection.watch(keys=[key]) as watch:
        connection.put(KEY_EXEC, encode(request))
        offer, certificate = _offer(watch, request), connection.certificate
    if offer is None:
        raise UnreachableError(
            f"the runner of {instance} has not answered",
            f"`tfapp status {name}` says what it does.",
        )
    if offer.why:
        raise BadStateError(f"there is no session in {instance}: {offer.why}")
    host = f"[{offer.host}]" if ":" in offer.host else offer.host
    tls = _tls(certificate, owner_file(home))
    with engine.reach(name, instance, f"https://{host}:{offer.port}") as url:
        place = urlsplit(url)
        try:
            plain = socket.create_connection((place.hostname or "", place.port or 0), SESSION_LIMIT)
        except OSError as error:
            raise UnreachableError(
                f"{instance} waits at {host}:{offer.port}, which cannot be reached from here: "
                f"{error.strerror or error}",
                "A session needs a way to the ports of its machine; see SECURITY.md.",
            ) from error
        with plain, contextlib.ExitStack() as held:
            channel = _admitted(plain, tls, certificate, instance, held)
            try:
                yield channel
            except GoneError as error:
                raise UnreachableError(
                    f"the session in {instance} was cut off",
                    f"`tfapp status {name}` says whether its program still runs.",
                ) from error


def execute(
    channel: Channel, argv: Sequence[str], given: bytes, timeout: float | None
) -> CompletedProcess[bytes]:
    """Runs a command in a session to its end, with `given` as its standard input. TimedOutError
    after `timeout` seconds; TfappError for more output than MAX_OUTPUT bytes. Either ends the
    command, once the session is left."""
    channel.put(START, Command(tuple(argv)).encoded())
    end = None if timeout is None else time.monotonic() + timeout
    found, ends = {OUTPUT: bytearray(), ERRORS: bytearray()}, False
    while True:
        while not (ends or channel.full):
            piece, given = given[:CHUNK], given[CHUNK:]
            channel.put(INPUT, piece)
            ends = not piece
        left = None if end is None else max(end - time.monotonic(), 0.0)
        channel.wait({}, left)
        for kind, data in channel.take():
            if kind in found:
                found[kind] += data
            elif kind == EXIT and data:
                return CompletedProcess(argv, data[0], *map(bytes, found.values()))
        if sum(map(len, found.values())) > MAX_OUTPUT:
            raise TfappError(
                f"the command has written more than {MAX_OUTPUT >> 20} MiB", "Let it write a file."
            )
        if left == 0:
            raise TimedOutError(f"the command has not ended after {timeout:g} s; it is ended")


def _offer(watch: Watch, request: SessionRequest) -> SessionOffer | None:
    end = time.monotonic() + SESSION_LIMIT
    while time.monotonic() < end:
        event = watch.get(end - time.monotonic())
        if isinstance(event, Broken):
            return None
        if isinstance(event, Put):
            offer = SessionOffer.from_dict(json.loads(event.value))
            if offer.id == request.id:
                return offer
    return None


def _tls(certificate: bytes, owner: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False  # all of an application have this one certificate
    context.load_verify_locations(cadata=certificate.decode())
    try:
        context.load_cert_chain(owner)
    except OSError as error:
        hint = "Remove it: a new one is made, for applications that are created from then on."
        raise UnavailableError(f"{owner} is damaged: {error}", hint) from error
    return context


def _admitted(
    plain: socket.socket,
    tls: ssl.SSLContext,
    certificate: bytes,
    instance: str,
    held: contextlib.ExitStack,
) -> Channel:
    """The channel, once the other side has taken the key. `held`: closes it."""
    try:
        connection = held.enter_context(tls.wrap_socket(plain))
        shown = connection.getpeercert(binary_form=True)
        if shown == ssl.PEM_cert_to_DER_cert(certificate.decode()):
            channel = Channel(connection)
            end = time.monotonic() + SESSION_LIMIT
            while time.monotonic() < end:
                channel.wait({}, end - time.monotonic())
                for kind, _ in channel.take():
                    if kind == READY:
                        return channel
    except (OSError, GoneError):
        pass
    raise BadStateError(
        f"{instance} does not let this user in",
        "A session is for the one alone whose TFAPP_HOME has created the application.",
    )


def _that_run(engine: Engine, name: str, which: Sequence[str]) -> list[str]:
    """The instances whose programs run: of all, or of the components and instances in `which`."""
    found = engine.find(name).status.instances
    known = [*(i.instance for i in found), *(i.component for i in found)]
    for one in which:
        if one not in known:
            raise NotFoundError(
                f"{name} has no instance or component {one!r}",
                did_you_mean(one, known, f"`tfapp status {name}` lists them."),
            )
    chosen = [i for i in found if not which or i.component in which or i.instance in which]
    running = [i.instance for i in chosen if i.state in (RUNNING, STOPPING)]
    if not running:
        with engine.connect(name):  # which says so if it has ended
            raise BadStateError(
                f"no program of {' or '.join(which) or name} runs",
                f"`tfapp status {name}` says what they do.",
            )
    return running


def _told(
    engine: Engine,
    name: str,
    key: str,
    request: StacksRequest | ProfileRequest,
    prefix: str,
    kind: type[_Answer],
    waiting: Sequence[str],
    limit: float,
) -> dict[str, _Answer]:
    """Puts a request to the runners at `key`, and returns what those `waiting` for it tell below
    `prefix`, by instance. `limit`: seconds for all of them."""
    told: dict[str, _Answer] = {}
    with engine.connect(name) as connection, connection.watch(prefixes=[prefix]) as watch:
        connection.put(key, encode(request))
        end = time.monotonic() + limit
        while len(told) < len(waiting) and time.monotonic() < end:
            event = watch.get(end - time.monotonic())
            if isinstance(event, Broken):
                break
            if isinstance(event, Put):
                one = kind.from_dict(json.loads(event.value))
                if one.id == request.id and one.instance in waiting:
                    told[one.instance] = one
    return told


def kill_container(engine: Engine, name: str, which: str) -> str:
    """Kills a container with all its processes: that of an instance ("worker/1"), or the one with
    this id. Returns its id. NotFoundError if there is no such container."""
    containers: dict[str, str] = {}
    for instance in engine.find(name).status.instances:
        if instance.container:
            containers[instance.instance] = instance.container
            containers[instance.container] = instance.container
    if which not in containers:
        raise NotFoundError(
            f"{name} has no instance or container {which!r}",
            did_you_mean(which, containers, f"`tfapp status {name}` lists them."),
        )
    with engine.connect(name) as connection:
        connection.kill_container(containers[which])
    return containers[which]


class FeedCounters:
    """Tells the coordinator of an application what a feed has done: see
    tfapp.feed.driver.counters.Board. While the master does not answer, it is not told."""

    def __init__(self, engine: Engine, name: str):
        self._engine, self._name = engine, name
        self._connection: Connection | None = None

    def show(self, feed: FeedStatus) -> None:
        """Writes newer ones to the key-value store."""
        with contextlib.suppress(TfappError):
            if self._connection is None:
                self._connection = self._engine.connect(self._name)
            self._connection.put(KEY_FEED, encode(feed))
            return
        self.close()  # the next time, to where the master is then

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
