"""What the pages say that kubectl does, with kubectl itself where the machine has it."""

import os
import re
import shlex
import shutil
import subprocess

import pytest

from tests.clusters.kubernetes.command import FRUGAL, seeing
from tests.clusters.kubernetes.namespace import wait_for
from tests.readme import README

PROGRAM = """
import pathlib, time
while not pathlib.Path("{go}").exists():
    time.sleep(0.05)
"""


def commands(page: str) -> list[list[str]]:
    text = (README.parent / "docs" / page).read_text(encoding="utf-8")
    return [shlex.split(line) for line in re.findall(r"(?m)^\$ (kubectl .*)$", text)]


@pytest.mark.weekly
def test_the_commands_of_the_pages(tfapp, namespace, cluster):
    if shutil.which("kubectl") is None:
        pytest.skip("this machine has no kubectl")

    def kubectl(words):
        command = [words[0], "--namespace", namespace.name, *words[1:]]
        environ = {**os.environ, **cluster.variables()}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    describe, until_running, until_complete = commands("kubernetes.md")
    delete, get_all = commands("clean-up.md")
    go = tfapp.work / "go"
    program = tfapp.program(PROGRAM.format(go=go))
    tfapp.ok("run", program, "--name", "digits", *FRUGAL, *seeing(tfapp.work), "--detach")
    assert kubectl(until_running) == "configmap/tfapp-digits condition met\n"
    assert tfapp.status("digits")["status"]["state"] == "RUNNING"
    go.touch()
    assert kubectl(until_complete) == "job.batch/tfapp-digits-1 condition met\n"
    assert re.findall(r"(?m)^  \w+ +(Formed|Succeeded) ", kubectl(describe)) == [
        "Formed",
        "Succeeded",
    ]
    assert "job.batch/tfapp-digits-1" in kubectl(get_all)
    kubectl(delete)
    wait_for(lambda: kubectl(get_all) == "", "end of all objects")
    assert tfapp.names() == []
