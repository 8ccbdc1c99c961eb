"""What containers need of an interpreter is told once. How a pod's command and the archive's entry
point tell it: tests/engines/kubernetes/test_interpreter.py, tests/compiler/test_start_script.py."""

import configparser
import re
import sys
from pathlib import Path

import tfapp
from tests import programs
from tfapp.contract.needs import NEEDED, REQUIREMENTS, question, unfit


def test_it_is_what_setup_cfg_installs():
    config = configparser.ConfigParser()
    config.read(Path(tfapp.__file__).parents[1] / "setup.cfg", encoding="utf-8")
    installed = config["options"]["install_requires"].split("\n")
    assert set(REQUIREMENTS) <= set(installed)
    assert set(NEEDED.values()) <= {re.split(r"[>=]", line)[0] for line in REQUIREMENTS}
    assert config["options"]["python_requires"] == ">=3.9"


def test_an_interpreter_says_what_it_lacks():
    assert unfit(NEEDED) == ""
    assert unfit({"json": "a", "no.such": "b", "nothing": "c"}) == "lacks b, c, which tfapp needs"


def test_an_old_interpreter_says_so(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 8, 1, "final", 0))
    assert unfit({}) == "is Python 3.8.1, tfapp needs 3.9 or newer"


def test_the_question_is_a_program():
    program = question() + "print([problem])"
    done = programs.python("-c", program)
    assert (done.stdout, done.stderr) == ("['']\n", "")
