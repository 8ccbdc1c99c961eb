"""The page for those who come from TF-Spawner has a row for each of its flags."""

import argparse
import re
from pathlib import Path

from tests.readme import README
from tfapp.cli.commands import COMMANDS, run
from tfapp.engines import kubernetes

PAGE = README.parent / "docs" / "tf-spawner.md"
# Of `tf-spawner --help`.
FLAGS = {
    *("-h", "--help", "-d", "--delete", "-w", "--workers", "-n", "--namespace", "-p", "--port"),
    *("-c", "--command", "--pod-file", "-t", "--tag", "-r", "--randomize-tag", "-e", "--env-file"),
    *("-i", "--image"),
}


def flags(cell: str) -> set[str]:
    """The flags that a cell begins to name in code."""
    return {word for code in re.findall(r"`(-[^`]*)`", cell) for word in code.split()[:1]}


def rows() -> list[list[str]]:
    section = PAGE.read_text(encoding="utf-8").split("\n## Flags\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_every_flag_has_its_row():
    assert set().union(*(flags(row[0]) for row in rows())) == FLAGS


def test_the_flags_of_tfapp_are_there():
    parser = argparse.ArgumentParser()
    run.add_arguments(parser)
    known = set(parser._option_string_actions)
    for option in kubernetes.OPTIONS:
        known |= {f"--{option.name}", f"-{option.short}"}
    named = set().union(*(flags(row[1]) for row in rows()))
    assert named <= known
    commands = re.findall(r"`tfapp ([a-z-]+)", PAGE.read_text(encoding="utf-8"))
    assert set(commands) <= set(COMMANDS)


def test_a_flag_that_is_called_the_same_is_the_same_letter_here():
    for row in rows():
        if row[2].startswith("same"):
            assert flags(row[0]) == flags(row[1]), row


def test_the_page_is_found():
    assert f"(docs/{PAGE.name})" in Path(README).read_text(encoding="utf-8")
