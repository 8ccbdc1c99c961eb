from __future__ import annotations

import pytest

from tests.cli.played_engine import PlayedEngine, instance, shell, status
from tfapp.cli.log_printer import LIST_EVERY, LogPrinter


class Scene:
    """A printer of all logs, its clock, and how often the engine was asked which there are."""

    def __init__(self, folder):
        self.now, self.asked = 100.0, 0
        self.engine = PlayedEngine(folder, [status("RUNNING", instance("worker/0", "RUNNING"))])
        self.shell = shell(folder)
        list_logs = self.engine.logs

        def counted(name, run=None):
            self.asked += 1
            return list_logs(name, run)

        self.engine.logs = counted
        self.printer = LogPrinter(
            self.shell, self.engine, self.engine.find("app"), "", clock=lambda: self.now
        )


@pytest.fixture
def scene(tmp_path):
    scene = Scene(tmp_path)
    yield scene
    scene.printer.close()


def test_as_long_as_there_are_no_logs_it_asks_each_time(scene):
    for _ in range(3):
        scene.printer.print_new()
    assert scene.asked == 3


def test_a_growing_log_is_printed_without_asking_again(scene):
    for text in ("one\n", "two\n", "three\n"):
        scene.engine.write_log("worker/0", text)
        scene.printer.print_new()
    assert scene.shell.out.text == "worker/0 | one\nworker/0 | two\nworker/0 | three\n"
    assert scene.asked == 1


@pytest.mark.parametrize(("later", "final"), [(LIST_EVERY, False), (0.0, True)])
def test_a_log_that_comes_later_is_found(scene, later, final):
    scene.engine.write_log("worker/0", "one\n")
    scene.printer.print_new()
    scene.engine.write_log("worker/1", "two\n")
    scene.printer.print_new()
    assert scene.shell.out.text == "worker/0 | one\n"
    scene.now += later
    scene.printer.print_new(final)
    assert scene.shell.out.text == "worker/0 | one\nworker/1 | two\n"
