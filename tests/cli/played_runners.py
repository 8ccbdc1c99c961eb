"""Connections to masters whose runners answer requests at once."""

from __future__ import annotations

import json
import queue
from collections.abc import Mapping
from typing import Any

from tfapp.contract.encoding import encode
from tfapp.contract.names import KEY_PROFILE, KEY_STACKS, PROFILED_PREFIX, STACKS_PREFIX
from tfapp.contract.profiles import InstanceProfile, ProfileRequest
from tfapp.contract.stacks import (
    Frame,
    InstanceStacks,
    ProcessStacks,
    StacksRequest,
    ThreadStack,
)
from tfapp.protocol.watch import Put


class PlayedRunners:
    """`lines`: instance -> the line of data.py in which its program is; 0 where it is no Python.
    An instance that is missing does not answer."""

    def __init__(self, lines: Mapping[str, int]):
        self.lines = lines
        self.requests: list[Any] = []
        self._events: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def watch(self, prefixes):
        assert prefixes == [STACKS_PREFIX]
        return self

    def put(self, key: str, value: bytes) -> None:
        assert key == KEY_STACKS
        request = StacksRequest.from_dict(json.loads(value))
        self.requests.append(request)
        self._tell("of another client", "worker/0", 3)
        self._tell(request.id, "worker/99", 3)
        for instance, line in self.lines.items():
            if not request.instances or instance in request.instances:
                self._tell(request.id, instance, line)

    def _tell(self, id: str, instance: str, line: int) -> None:
        frames = (Frame("load", "data.py", line, True),)
        process = ProcessStacks(
            7, "python train.py", "handler", "py-spy: none", threads=(ThreadStack(frames),)
        )
        told = InstanceStacks(id, instance, instance.replace("/", "_"), 1, (process,))
        if not line:
            told = InstanceStacks(id, instance, "c", 1, why="it runs no Python, but bash")
        self._events.put(Put(STACKS_PREFIX + instance, encode(told)))

    def get(self, timeout: float):
        try:
            return self._events.get(timeout=min(timeout, 0.1))
        except queue.Empty:
            return None


class PlayedTracers(PlayedRunners):
    """Answer requests for traces. `traced`: instance -> why it has no trace, "" if it has one."""

    def __init__(self, traced: Mapping[str, str]):
        super().__init__({})
        self.traced = traced

    def watch(self, prefixes):
        assert prefixes == [PROFILED_PREFIX]
        return self

    def put(self, key: str, value: bytes) -> None:
        assert key == KEY_PROFILE
        request = ProfileRequest.from_dict(json.loads(value))
        self.requests.append(request)
        for instance, why in self.traced.items():
            name = instance.replace("/", "_")
            files = () if why else (f"/c/plugins/profile/{request.run}/{name}.xplane.pb",)
            told = InstanceProfile(request.id, instance, files, 0 if why else 7, why)
            self._events.put(Put(PROFILED_PREFIX + instance, encode(told)))
