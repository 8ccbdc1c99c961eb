"""A master and runners in memory, with the interface of `protocol.connection.Connection`."""

from __future__ import annotations

import json
import queue
from collections.abc import Iterable, Mapping

from tfapp.contract.encoding import encode
from tfapp.contract.exit import Exit
from tfapp.contract.messages import Answer, Beat, ExitReport
from tfapp.contract.names import (
    ALIVE_PREFIX,
    ANSWER_PREFIX,
    BEAT_PREFIX,
    ENV_INSTANCE,
    EXIT_PREFIX,
    KEY_CLUSTER,
    ORDER_PREFIX,
    initial_container,
)
from tfapp.errors import RefusedError, UnreachableError
from tfapp.protocol.connection import LIVE_STATES, ContainerReport
from tfapp.protocol.watch import Broken, Deleted, Put

EXIT_0 = Exit(0, None, "exit", "exit code 0")


class PretendMaster:
    """Runners answer as soon as their container is there, and their programs end at once with
    the exit that `exits` has for them; without one they run until they are stopped."""

    deadline = 30.0

    def __init__(self, exits: Mapping[str, Exit]):
        self.exits = exits
        self.store: dict[str, tuple[bytes, str | None]] = {}
        self.calls: list[str] = []
        self.streams: list[queue.SimpleQueue] = []
        self.states: dict[str, str] = {}  # container -> state
        self.instances: dict[str, str] = {}  # container -> instance
        self.dead_on_arrival: set[str] = set()  # instances whose first container has ended
        self.refused: set[str] = set()  # instances
        self.answer_lost: set[str] = set()  # instances whose add_container is not answered
        self.unreachable = False
        self.generation = 1
        self.failing_adds = 0  # calls of add_container that do not arrive
        self.on_call = lambda call: None

    def begin(self, instances: Iterable[str]) -> None:
        """Has the containers that the services begin with."""
        for instance in instances:
            container = initial_container(instance)
            self.instances[container] = instance
            self.states[container] = "FAILED" if instance in self.dead_on_arrival else "RUNNING"

    def called(self, call: str) -> None:
        self.calls.append(call)
        self.on_call(call)

    # -- what the coordinator calls --
    def get(self, key: str) -> bytes | None:
        self.called(f"get {key}")
        return self.store.get(key, (None, None))[0]

    def put(self, key: str, value: bytes, owner: str | None = None) -> None:
        self.called(f"put {key}")
        self.write(key, value, owner)

    def update(self, values: Mapping[str, bytes], owners: Mapping[str, str] | None = None) -> None:
        if not values:
            return
        self.called(f"update {' '.join(sorted(values))}")
        owners = owners or {}
        for owner in owners.values():
            if self.states[owner] not in LIVE_STATES:
                raise RefusedError(f"Container '{owner}' has already completed")
        for key, value in values.items():
            self.write(key, value, owners.get(key))

    def watch(self, prefixes: tuple[str, ...], into: queue.SimpleQueue) -> PretendMaster:
        self.called(f"watch {' '.join(prefixes)}")
        if self.unreachable:
            raise UnreachableError("no master")
        self.prefixes = prefixes
        self.streams.append(into)
        return self

    def read(self) -> dict[str, bytes]:
        self.called("read")
        return {k: v for k, (v, _) in self.store.items() if k.startswith(self.prefixes)}

    def close(self) -> None:
        self.streams.clear()

    def containers(self, states: tuple[str, ...]) -> tuple[ContainerReport, ...]:
        self.called("containers")
        return tuple(
            ContainerReport(name, name.rpartition("_")[0], state, "127.0.0.1", "")
            for name, state in self.states.items()
            if state in states
        )

    def add_container(self, service: str, env: Mapping[str, str]) -> str:
        instance = env[ENV_INSTANCE]
        self.called(f"add_container {instance}")
        if self.failing_adds:
            self.failing_adds -= 1
            raise UnreachableError("UNKNOWN Stream removed")
        if instance in self.refused:
            raise RefusedError("too big")
        before = sum(known.startswith(f"{service}_") for known in self.states)
        container = f"{service}_{before}"
        self.instances[container] = instance
        self.states[container] = "RUNNING"
        if instance in self.answer_lost:
            raise UnreachableError("the answer was lost")
        return container

    def kill_container(self, container: str) -> None:
        self.called(f"kill_container {container}")
        self.end(container)

    def set_progress(self, progress: float) -> None:
        self.called(f"set_progress {progress:.2f}")

    def add_page(self, route: str, target: str, title: str) -> str:
        self.called(f"add_page {route} {target} {title}")
        return f"/pages/{route}"

    def remove_page(self, route: str) -> None:
        self.called(f"remove_page {route}")

    # -- what the store does --
    def write(self, key: str, value: bytes, owner: str | None) -> None:
        self.store[key] = (value, owner)
        for stream in self.streams:
            if key.startswith(self.prefixes):
                stream.put(Put(key, value, owner))
        self.react(key, value)

    def end(self, container: str) -> None:
        self.states[container] = "SUCCEEDED"
        for key in [k for k, (_, owner) in self.store.items() if owner == container]:
            del self.store[key]
            for stream in self.streams:
                stream.put(Deleted(key))

    def break_streams(self) -> None:
        for stream in self.streams:
            stream.put(Broken("cut"))
        self.streams.clear()

    # -- what the runners do --
    def react(self, key: str, value: bytes) -> None:
        if key.startswith(ALIVE_PREFIX):
            container = self.store[key][1]
            assert container is not None
            instance = self.instances[container]
            answer = Answer(
                self.generation, instance, "127.0.0.1", container, {"g": {"n": instance}}
            )
            self.write(ANSWER_PREFIX + instance, encode(answer), container)
        elif key == KEY_CLUSTER:
            for member in json.loads(value)["members"]:
                self.start(member["instance"])
        elif key.startswith(ORDER_PREFIX):
            instance = key[len(ORDER_PREFIX) :]
            if json.loads(value)["action"] == "exit":
                self.end(self.container(instance))
            else:
                self.report(instance, Exit(None, 15, "signal", "killed by SIGTERM (15)"), True)

    def container(self, instance: str) -> str:
        return [c for c, name in self.instances.items() if name == instance][-1]

    def start(self, instance: str) -> None:
        container = self.container(instance)
        self.write(BEAT_PREFIX + instance, encode(Beat(1, self.generation, "running")), container)
        if instance in self.exits:
            self.report(instance, self.exits[instance], False)

    def report(self, instance: str, exit: Exit, stopped: bool) -> None:
        container = self.container(instance)
        report = ExitReport(
            self.generation, instance, container, "127.0.0.1", exit, stopped, "", 1.0
        )
        self.write(EXIT_PREFIX + instance, encode(report), None)
