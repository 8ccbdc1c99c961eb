"""The sessions in a container."""

import os
import queue
import signal
import socket
import time

import pytest

from tests.waiting import wait
from tfapp.contract.sessions import Welcome
from tfapp.engines.credentials import new_credentials
from tfapp.runner.sessions import MOST, SessionError, Sessions

LIMIT = 60.0  # seconds


def welcome(ports: str = "") -> Welcome:
    certificate, key = (text.decode() for text in new_credentials(time.time()))
    return Welcome(certificate, key, certificate, "127.0.0.1", ports)


def end(sessions: Sessions) -> None:
    for pid in sessions.pids():
        os.kill(pid, signal.SIGKILL)
    wait(lambda: sessions.pids() == (), "they end", LIMIT)


def test_few_are_open_at_once_and_each_end_is_told():
    over: queue.SimpleQueue[Welcome] = queue.SimpleQueue()
    sessions, given = Sessions(over=over.put), welcome()
    ports = {sessions.begin(given) for _ in range(MOST)}
    assert len(ports) == len(set(sessions.pids())) == MOST
    with pytest.raises(SessionError, match="4 sessions are open in it"):
        sessions.begin(given)
    end(sessions)
    assert [over.get(timeout=LIMIT) for _ in range(MOST)] == [given] * MOST
    sessions.begin(given)
    end(sessions)


def test_without_a_port_there_is_none_and_it_says_why():
    sessions = Sessions()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        allowed = str(taken.getsockname()[1])
        with pytest.raises(SessionError, match="no port is free in site.global.slider.allowed"):
            sessions.begin(welcome(allowed))
    end(sessions)


def test_the_process_has_the_environment_that_is_given_for_it():
    sessions = Sessions({**os.environ, "PYTHONPATH": "", "GIVEN": "yes"})
    sessions.begin(welcome())
    (pid,) = sessions.pids()
    with open(f"/proc/{pid}/environ", "rb") as file:
        assert b"GIVEN=yes" in file.read().split(b"\0")
    end(sessions)


def test_an_end_that_fails_holds_no_place(caplog):
    def over(_: Welcome) -> None:
        raise OSError("the engine is away")

    sessions = Sessions(over=over)
    sessions.begin(welcome())
    end(sessions)
    wait(lambda: "the engine is away" in caplog.text, "nobody says why", LIMIT)
