"""An engine's module for the coordinator (Job.nodes) that keeps the record of an application in a
folder, as YARN's does in HDFS."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from tfapp.coordinator import record
from tfapp.disk import write_atomically
from tfapp.errors import UnavailableError

ENV_ATTEMPT, ENV_FOLDER = "TEST_ATTEMPT", "TEST_FOLDER"


record.READ_LIMIT = 2.0


class Attempt:
    def __init__(self, environ: Mapping[str, str]):
        self.number = int(environ[ENV_ATTEMPT])
        self._folder = Path(environ[ENV_FOLDER])

    def read(self) -> bytes | None:
        if (self._folder / "away").exists():
            raise UnavailableError("the folder is away")
        file = self._folder / "record"
        return file.read_bytes() if file.exists() else None

    def write(self, record: bytes) -> None:
        write_atomically(self._folder / "record", record)

    def end(self, state: str, diagnostics: str) -> None:
        told = {"state": state, "diagnostics": diagnostics, "by": os.getpid()}
        write_atomically(self._folder / "end", json.dumps(told).encode())

    def why_lost(self) -> str:
        why = self._folder / "why"
        if not why.exists():
            raise UnavailableError("nobody knows")
        return why.read_text()

    def end_master(self) -> None:
        (self._folder / "unreached").touch()


def attempt(environ: Mapping[str, str], class_path: str) -> Attempt:
    assert class_path == "/hadoop"
    return Attempt(environ)


def reason_of(message: str) -> str:
    return ""


def read_end(node: str, container: str, file: str, length: int = 0) -> str:
    return ""


def log_page(node: str, container: str, user: str) -> str:
    return ""
