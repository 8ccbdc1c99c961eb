from __future__ import annotations

import dataclasses
import re

import pytest

import tfapp
from tests.cli.commands.call import call
from tests.cli.played_engine import shell
from tests.readme import README
from tfapp.engines import EngineOption, local
from tfapp.errors import UnavailableError, UsageError
from tfapp.launch.caller import Caller
from tfapp.launch.defaults import Defaults, InvalidDefaultsError, read_defaults
from tfapp.problems import text_report


def write(home, text: str):
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(text)
    return home


def test_a_user_who_has_set_nothing_has_the_local_engine(tmp_path):
    assert read_defaults(tmp_path / "none", {}) == Defaults("local", {})
    assert read_defaults(write(tmp_path, "# all of it is a remark\n"), {}) == Defaults("local", {})


def test_the_file_names_an_engine_and_flags_and_the_variable_counts_more(tmp_path):
    home = write(tmp_path, "engine: yarn\nyarn:\n  queue: research\nlocal:\n")
    assert read_defaults(home, {}) == Defaults("yarn", {"yarn": {"queue": "research"}})
    assert read_defaults(home, {"TFAPP_ENGINE": "local"}).engine == "local"
    assert read_defaults(home, {"TFAPP_ENGINE": ""}).engine == "yarn"


def test_the_file_of_the_manual(tmp_path):
    """docs/commands.md."""
    page = (README.parent / "docs" / "commands.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"(?ms)^```yaml\n(.*?)^```$", page)
    found = read_defaults(write(tmp_path, text), {})
    flags = {"kubernetes": {"namespace": "research"}, "yarn": {"queue": "research"}}
    assert found == Defaults("kubernetes", flags)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "engine: yran\n",
            "1:9: error: there is no engine 'yran' [unknown-engine]\n  Did you mean",
        ),
        ("engine: [yarn]\n", "1:9: error: there is no engine 'a list' [unknown-engine]"),
        ("\nengin: yarn\n", "2:1: error: unknown key 'engin' [unknown-key]\n  Did you mean eng"),
        ("yarn:\n  que: a\n", "2:3: error: unknown key 'que' of the engine yarn [unknown-key]"),
        ("yarn:\n  queue: [a]\n", "2:10: error: 'yarn.queue' is a text; put it in quotes"),
        ("yarn: research\n", "1:7: error: 'yarn' is a mapping of its flags to their values"),
        ("- yarn\n", "1:1: error: expected a mapping with the key 'engine'"),
        ("engine: yarn\nengine: local\n", "2:1: error:"),
        ("engine: {\n", "error:"),
    ],
)
def test_findings_have_their_place(tmp_path, text, told):
    with pytest.raises(InvalidDefaultsError) as caught:
        read_defaults(write(tmp_path, text), {})
    assert told in text_report(caught.value.problems)
    assert str(tmp_path / "config.yaml") in text_report(caught.value.problems)


def test_a_command_says_what_is_wrong_with_the_file(tmp_path):
    write(tmp_path / "home", "engine: yran\n")
    code, a_shell = call(tmp_path, None, "list")
    assert (code, a_shell.err.text) == (
        77,
        f"{tmp_path}/home/config.yaml:1:9: error: there is no engine 'yran' [unknown-engine]\n"
        "  Did you mean yarn?\nerror: 1 error in config.yaml\n",
    )


def test_an_engine_in_the_variable_that_there_is_none_of(tmp_path):
    with pytest.raises(UsageError, match="TFAPP_ENGINE: there is no engine 'moon'"):
        read_defaults(tmp_path, {"TFAPP_ENGINE": "moon"})


def test_a_folder_in_the_files_place(tmp_path):
    (tmp_path / "config.yaml").mkdir()
    with pytest.raises(UnavailableError, match="config.yaml cannot be read: Is a directory"):
        read_defaults(tmp_path, {})


def played_places(monkeypatch) -> list:
    """What the local engine is opened with, as if it had the flag --place."""
    opened = []

    def open_engine(home, environ, place):
        opened.append((place, environ.get("TFAPP_ENGINE")))
        return opened

    monkeypatch.setattr(local, "OPTIONS", (EngineOption("place", "", "where", True, "n"),), False)
    monkeypatch.setattr(local, "open_engine", open_engine)
    return opened


def test_where_an_engines_applications_are_is_said_by_flag_or_file(tmp_path, monkeypatch):
    opened = played_places(monkeypatch)
    values = vars(shell(tmp_path))
    caller = Caller(**{f.name: values[f.name] for f in dataclasses.fields(Caller)})
    caller.engine("local")
    caller.engine(places={"place": "here", "other": "x"})
    write(tmp_path / "home", "engine: yarn\nlocal:\n  place: there\n")
    again = dataclasses.replace(caller)
    again.engine("local")
    again.engine("local", {"place": "here"})
    assert opened == [("", None), ("here", None), ("there", "yarn"), ("here", "yarn")]


def test_the_python_call_has_the_same_default(tmp_path, monkeypatch):
    monkeypatch.setenv("TFAPP_ENGINE", "moon")
    for act in (
        lambda: tfapp.open("app"),
        lambda: tfapp.compile(lambda: 1),
        lambda: tfapp.submit(lambda: 1, show=False),
    ):
        with pytest.raises(UsageError, match="TFAPP_ENGINE: there is no engine 'moon'"):
            act()


def test_the_python_call_says_where_applications_are(monkeypatch):
    opened = []

    def open_engine(home, environ, namespace):
        opened.append(namespace)
        raise UnavailableError("enough")

    option = EngineOption("namespace", "", "where", place=True)
    monkeypatch.setattr(local, "OPTIONS", (option,), False)
    monkeypatch.setattr(local, "open_engine", open_engine)
    for act in (
        lambda: tfapp.open("app", namespace="mine"),
        lambda: tfapp.submit(lambda: 1, namespace="its", show=False),
    ):
        with pytest.raises(UnavailableError, match="enough"):
            act()
    assert opened == ["mine", "its"]
