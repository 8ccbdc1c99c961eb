"""Programs that are started again, and programs that stand still, with real processes."""

from __future__ import annotations

import os
import signal
import socket

from tfapp.contract.exit import Exit
from tfapp.runner.process_tree import Process, stopped
from tfapp.runner.standstill import Standstill

# Serves its own port, as TensorFlow does, and ends with the number of a file that it counts in.
COUNTING = """
import json, os, pathlib, socket, sys
config = json.loads(os.environ["TF_CONFIG"])
port = int(config["cluster"]["worker"][0].rpartition(":")[2])
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
server.bind(("", port))
server.listen()
print("generation", os.environ["TFAPP_GENERATION"], "port", port)
file = pathlib.Path("count")
count = int(file.read_text()) if file.exists() else 3
file.write_text(str(count - 1))
sys.exit(count)
"""
SLEEPING = "import os, time\nprint('pid', os.getpid())\nwhile True: time.sleep(600)"


def test_a_program_starts_again_with_its_port(application):
    application.write_program(COUNTING)
    application.start()
    port = application.rendezvous().ports["site.global.port"]
    for attempt in range(3):
        report = application.exit_report(attempt=attempt)
        assert (report.exit.code, report.last_lines) == (3 - attempt, f"generation 1 port {port}")
        with socket.socket() as thief:
            assert thief.connect_ex(("127.0.0.1", port)) != 0
        application.order("restart", attempt=attempt + 1)
    assert application.exit_report(attempt=3).exit.code == 0
    assert application.dismissed() == 0


def test_a_reported_runner_takes_part_in_the_next_generation(application):
    application.write_program(COUNTING)
    application.start()
    first = application.rendezvous().ports["site.global.port"]
    assert application.exit_report().exit.code == 3
    application.announce(2)
    second = application.answer(2)
    assert second.ports["site.global.port"] != first
    application.form(second)
    assert application.exit_report(generation=2).exit.code == 2


def test_a_stopped_program_is_noticed_and_ended(application):
    application.write_program(SLEEPING)
    application.start()
    application.rendezvous()
    pid = application.program_pid()
    os.kill(pid, signal.SIGSTOP)
    exit = application.exit_report().exit
    assert (exit.code, exit.signal, exit.reason) == (None, None, "hang")
    assert exit.text.startswith(f"process {pid} was stopped (SIGSTOP) and did not go on within ")


def test_what_was_stopped_only_for_a_moment_is_none():
    now = [0.0]
    standstill = Standstill(lambda: now[0])
    halted, running = Process(7, 1, 1, "T"), Process(7, 1, 1, "S")
    looks = []
    for process in (halted, running, halted, halted):
        now[0] += 5.0
        looks.append(standstill.look(stopped([process])))
    text = "process 7 was stopped (SIGSTOP) and did not go on within 5.0 s"
    assert looks == [None, None, None, Exit(None, None, "hang", text)]
