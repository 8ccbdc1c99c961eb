"""Bad input gets one clear message, the right exit code, no traceback but the user's own, no
process and no half-made application left."""

import re
import shutil
import socket
from pathlib import Path

import pytest

from tests.end_to_end.command_line import LIMIT, PLAIN_PACKAGE, CommandLine
from tests.waiting import wait

NOTE = re.compile(r"checkpoints go to .* \(site\.global\.user\.checkpoint\.prefix is not set\)\n")


@pytest.fixture
def package(tfapp) -> Path:
    """The plain package, to be spoilt."""
    return shutil.copytree(PLAIN_PACKAGE, tfapp.work / "package")


def create(tfapp: CommandLine, *words: object):
    return tfapp("create", "app", "--appdef", "package", *words)


def option(key: str, value: object) -> tuple[str, str, str]:
    return "--option", f"site.global.{key}", str(value)


REFUSED = [
    # flags of `create`, the whole message, the exit code
    (
        ("--option", "site.global.gang.timeuot", "5", "--resopt", "yarn.memory", "lots"),
        "--option site.global.gang.timeuot: error: unknown key 'site.global.gang.timeuot' "
        "[unknown-key]\n"
        "  did you mean 'site.global.gang.timeout'?\n"
        "--resopt yarn.memory: error: yarn.memory: expected a whole number of MiB, a number with a "
        "unit (MiB, GiB, MB, GB, ...), or 'max', found 'lots' [wrong-value]\n"
        "error: 2 errors in the package\n",
        77,
    ),
    (
        ("--resopt", "yarn.gpus", "500"),
        "error: the application asks for 1000 GPUs and this machine has none\n"
        "  Ask for fewer with yarn.gpus or yarn.component.instances in resources.\n",
        53,
    ),
]


@pytest.mark.parametrize(("flags", "message", "code"), REFUSED, ids=lambda value: str(value)[:30])
def test_what_is_refused_before_anything_is_made(tfapp, package, monkeypatch, flags, message, code):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    ended = tfapp.here("create", "app", "--appdef", "package", *flags)
    assert (ended.code, ended.out, NOTE.sub("", ended.err)) == (code, "", message)
    assert tfapp.names() == []
    wait(lambda: not tfapp.living(), tfapp.living, LIMIT)  # a master that was made ready ends


def failed(tfapp: CommandLine, summary: str, *words: object, code: int = 65) -> str:
    """Checks how `create` ends an application that fails, and its `status` afterwards. `summary`
    is a regular expression. Returns all that was written."""
    ended = create(tfapp, *words)
    assert ended.code == code, ended.err
    assert re.fullmatch(f"app: {summary}", ended.err.splitlines()[-1]), ended.err
    assert tfapp.living() == []
    after = tfapp.status("app")
    assert (after["live"], after["status"]["state"]) == (False, "FAILED")
    verdict = after["status"]["verdict"]
    assert re.fullmatch(summary, verdict["summary"])
    assert verdict["exit_code"] == code
    return ended.out + ended.err


IN_1 = r"in generation 1, [0-9.]+ s after its start: no data\."


@pytest.mark.slow
def test_a_program_that_exits_3(tfapp, package):
    (package / "files" / "program.py").write_text(
        "import os, signal, sys\n"
        "if os.environ['TFAPP_INSTANCE'] == 'worker/0':\n    signal.pause()\n"
        "print('no data')\nsys.exit(3)\n"
    )
    seen = failed(tfapp, rf"Failed: worker/1 on 127\.0\.0\.1 ended with exit code 3 {IN_1}")
    assert "last lines of worker/1:\n  no data\n" in seen
    assert "Traceback" not in seen


SCRIPT = "scripts/plain.py"
SCRIPTS = [
    # the script, what the verdict says of worker/0, where its traceback leads
    (
        "import nothing_of_this_name\n",
        f"failed in the package's script in generation 1: {SCRIPT}: its import raised "
        "ModuleNotFoundError: No module named 'nothing_of_this_name'",
        f'{SCRIPT}", line 1, in <module>\n',
    ),
    (
        "from tfapp.script import Script\n"
        "class A(Script):\n    def start(self, c):\n        1 / 0\n",
        f"failed in the package's script in generation 1: {SCRIPT}: start() raised "
        "ZeroDivisionError: division by zero",
        f'{SCRIPT}", line 4, in start\n',
    ),
    (
        "from tfapp.script import Script, ScriptError\nclass A(Script):\n"
        "    def prepare(self, context):\n        raise ScriptError('no GPU driver here')\n",
        "could not be started in generation 1: no GPU driver here",
        "",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("script", "summary", "place"), SCRIPTS, ids=range(len(SCRIPTS)))
def test_a_script_that_fails(tfapp, package, script, summary, place):
    (package / SCRIPT).write_text(script)
    said = re.escape(f"Failed: worker/0 on 127.0.0.1 {summary}.")
    seen = failed(tfapp, said, "--component", "worker", 1)
    assert place in seen
    assert ("  File " in seen) == bool(place)
    assert "runner/" not in seen


@pytest.mark.slow
def test_a_port_range_that_is_full(tfapp, package):
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        summary = (
            "Failed: worker/0 on 127.0.0.1 could not be started in generation 1: no port is free "
            f"in site.global.slider.allowed.ports: {port} (1 port, all in use on this machine); "
            "widen the range (on 127.0.0.1)."
        )
        flags = ("--component", "worker", 1, *option("slider.allowed.ports", port))
        seen = failed(tfapp, re.escape(summary), *flags)
    assert "Traceback" not in seen
