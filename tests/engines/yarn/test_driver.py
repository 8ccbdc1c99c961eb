"""Skein's driver as commands share it. In its place a program that answers as it does, started by
Skein's own client."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.waiting import wait
from tfapp.engines.yarn import driver
from tfapp.engines.yarn.driver_daemon import DriverRecord
from tfapp.engines.yarn.layout import YarnHome
from tfapp.errors import UnavailableError
from tfapp.processes import identify

# Says in "starts" that it was started; "broken" has it end with Java's words.
JAVA = f"""#!{sys.executable}
import os, pathlib, socket, struct, sys
from concurrent.futures import ThreadPoolExecutor
base = pathlib.Path(__file__).parents[1]
with open(base / "starts", "a") as starts:
    print(os.getpid(), file=starts)
if (base / "broken").exists():
    sys.exit("java.lang.IllegalStateException: no such cluster")
from tfapp.skein_library import skein
import grpc
from skein.proto import skein_pb2_grpc
class Driver(skein_pb2_grpc.DriverServicer):
    def ping(self, request, context):
        return skein.proto.Empty()
server = grpc.server(ThreadPoolExecutor(2))
skein_pb2_grpc.add_DriverServicer_to_server(Driver(), server)
key, certificate = (os.environb[name] for name in (b"SKEIN_KEY", b"SKEIN_CERTIFICATE"))
trust = grpc.ssl_server_credentials([(key, certificate)], certificate, True)
port = server.add_secure_port("127.0.0.1:0", trust)
server.start()
with socket.create_connection(("127.0.0.1", int(os.environ["SKEIN_CALLBACK_PORT"]))) as back:
    back.sendall(struct.pack("!i", port))
sys.stdin.read()
"""
LIMIT = 60.0  # seconds


class Machine:
    """A machine with that Java; `environ` is a command's."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.home = YarnHome(folder / "home" / "yarn")
        conf, binaries = folder / "conf", folder / "bin"
        for path in (conf, binaries):
            path.mkdir()
        (conf / "yarn-site.xml").touch()
        for name, text in (("java", JAVA), ("yarn", f"#!/bin/sh\necho {conf}\n")):
            (binaries / name).write_text(text)
            (binaries / name).chmod(0o755)
        path = f"{binaries}{os.pathsep}{os.environ['PATH']}"
        self.environ = {**os.environ, "PATH": path, "HADOOP_CONF_DIR": str(conf)}
        self.environ.pop("JAVA_HOME", None)

    def open(self):
        return driver.open_driver(self.home, self.environ, time.time())

    def starts(self) -> list[int]:
        """The drivers that were started, by their process ids."""
        path = self.folder / "starts"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def running(self) -> list[int]:
        return [pid for pid in self.starts() if identify(pid) is not None]

    def record(self) -> DriverRecord | None:
        (path,) = self.home.path.glob("drivers/*/driver.json")
        return DriverRecord.read(path)


@pytest.fixture
def machine(tmp_path):
    machine = Machine(tmp_path)
    yield machine
    for path in machine.home.path.glob("drivers/*/driver.json"):
        found = DriverRecord.read(path)
        if found is not None:
            os.kill(found.daemon, signal.SIGTERM)
    wait(lambda: not machine.running(), "a driver has outlived its daemon", LIMIT)


def test_commands_at_the_same_time_share_one(machine):
    found = []
    commands = [
        threading.Thread(target=lambda: found.append(machine.open()), daemon=True) for _ in range(3)
    ]
    for command in commands:
        command.start()
    for command in commands:
        command.join(LIMIT)
    record = machine.record()
    assert [client.address for client in found] == [record.address] * 3
    assert len(machine.starts()) == 1


def test_it_is_called_past_any_proxy(machine, monkeypatch):
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
        machine.environ[name] = "http://127.0.0.1:9"
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        machine.environ.pop(name, None)
    address = machine.open().address
    assert machine.open().address == address
    assert len(machine.starts()) == 1


def test_another_is_started_when_it_has_ended(machine):
    first = machine.open().address
    os.kill(machine.starts()[0], signal.SIGKILL)
    assert machine.open().address != first
    assert len(machine.starts()) == 2


def test_why_it_does_not_start(machine):
    (machine.folder / "broken").touch()
    with pytest.raises(UnavailableError) as raised:
        machine.open()
    assert raised.value.message == "Skein's driver did not start: no such cluster"
    assert raised.value.hint.endswith("driver.log says more.")


def test_a_command_does_not_wait_for_ever_for_another(machine, monkeypatch):
    monkeypatch.setattr(driver, "LOCK_LIMIT", 0.01)
    folder = driver._folder(machine.home, machine.environ)
    with driver._starting(folder), pytest.raises(UnavailableError, match="another command has"):
        machine.open()
    assert machine.starts() == []
