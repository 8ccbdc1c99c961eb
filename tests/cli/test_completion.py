"""Completion by the Tab key, as the shell asks for it."""

import io
import os
import sys
from pathlib import Path

import pytest

from tests import programs
from tests.cli.commands.call import call
from tests.cli.played_engine import PlayedEngine, instance, shell, status
from tfapp.cli import completion
from tfapp.cli.commands import COMMANDS

WORKER = instance("worker/0", "RUNNING", exports={"hosts": {"host_port": "n1:1"}})
RUNNING = status("RUNNING", WORKER, instance("ps/0", "RUNNING"))
# What bash does for `tfapp diagn` and the Tab key: what it offers, and what it has registered.
BASH = """
eval "$(tfapp completion bash)"
COMP_LINE="tfapp diagn" COMP_POINT=11 COMP_TYPE=9
_python_argcomplete tfapp diagn tfapp
printf '%s\\n' "${COMPREPLY[@]}"
complete -p tfapp
"""
PACKAGE = Path(__file__).parents[2] / "app-packages" / "tensorflow"


def words(tmp_path, monkeypatch, line: str) -> set[str]:
    """What is offered behind `line`, without flags unless one is being typed."""
    engine = PlayedEngine(tmp_path, [RUNNING], tags=("exp",))
    monkeypatch.setenv("_ARGCOMPLETE", "1")
    monkeypatch.setenv("_ARGCOMPLETE_SUPPRESS_SPACE", "1")
    monkeypatch.setenv("COMP_LINE", line)
    monkeypatch.setenv("COMP_POINT", str(len(line)))
    monkeypatch.setattr("argcomplete.finders.CompletionFinder._init_debug_stream", lambda _: None)
    ended: list[int] = []
    output = io.StringIO()
    completion.answer(shell(tmp_path, engine), output, ended.append)
    assert ended == [0]
    found = output.getvalue().split("\v")
    typed = line.rpartition(" ")[2]
    return {word for word in found if word and (typed.startswith("-") or not word.startswith("-"))}


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("tfapp sta", {"start", "status", "stacks"}),
        ("tfapp status a", {"app"}),
        ("tfapp stop ", {"app"}),
        ("tfapp stop app ", set()),
        ("tfapp stop --tag ", {"exp"}),
        ("tfapp stop --fo", {"--force", "--format"}),
        ("tfapp list --format ", {"text", "json"}),
        ("tfapp create ", set()),
        ("tfapp logs app ", {"worker", "worker/0", "ps", "ps/0", "coordinator"}),
        ("tfapp stacks app w", {"worker", "worker/0"}),
        ("tfapp profile app w", {"worker", "worker/0"}),
        ("tfapp kill-container app w", {"worker/0"}),
        ("tfapp exec app w", {"worker/0"}),
        ("tfapp flex app --component ", {"worker", "ps"}),
        ("tfapp registry --name app --getexp ", {"hosts"}),
        (f"tfapp create x --appdef {PACKAGE} --component e", {"evaluator"}),
        (f"tfapp create x --appdef {PACKAGE} --compopt ch", {"chief"}),
        ("tfapp run x.py --option site.global.stop.g", {"site.global.stop.grace"}),
        ("tfapp run x.py --rescompopt worker yarn.v", {"yarn.vcores"}),
        ("tfapp run x.py --compopt worker site.global.gang", set()),
        ("tfapp schema met", {"metainfo", "metadata"}),
        ("tfapp schema yarn.gpu", {"yarn.gpus"}),
    ],
)
def test_what_is_offered(tmp_path, monkeypatch, line, offered):
    assert words(tmp_path, monkeypatch, line) == offered


def test_all_commands_are_offered(tmp_path, monkeypatch):
    assert words(tmp_path, monkeypatch, "tfapp ") == set(COMMANDS)


def test_an_engine_that_does_not_answer_gives_nothing(tmp_path, monkeypatch):
    def fail(self):
        raise ConnectionError("no cluster")

    monkeypatch.setattr(PlayedEngine, "list", fail)
    monkeypatch.setattr("threading.excepthook", lambda _: None)
    assert words(tmp_path, monkeypatch, "tfapp status ") == set()


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_every_shell_has_its_code(tmp_path, name):
    code, a_shell = call(tmp_path, None, "completion", name)
    assert (code, a_shell.err.text) == (0, "")
    assert "tfapp" in a_shell.out.text
    code, a_shell = call(tmp_path, None, "completion", "zsh")
    assert "#compdef tfapp" in a_shell.out.text


def test_bash_itself_completes(tmp_path):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = programs.run("bash", "-c", BASH, cwd=tmp_path, environ={"PATH": path})
    offered, registered = done.stdout.splitlines()
    assert offered.strip() == "diagnostics", done.stderr
    assert registered.endswith("-F _python_argcomplete tfapp")
