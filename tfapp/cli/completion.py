"""Completion of command lines by the Tab key, by argcomplete: the shell calls `tfapp` with what has
been typed in environment variables, and `tfapp` answers with the words that fit.

What takes long is not known: an engine that does not answer within LIMIT gives no words.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

import argcomplete
from argcomplete.completers import SuppressCompleter
from argcomplete.lexers import split_line

from tfapp.cli.commands import COMMANDS
from tfapp.cli.shell import Shell
from tfapp.engines.base import Application, Engine

LIMIT = 5.0  # seconds until the words of an engine must be there

_NEW_NAMES = ("init", "create", "run")  # their NAME is not that of an application


def shell_code(shell: str) -> str:
    """The code that makes `shell` complete command lines of tfapp."""
    return argcomplete.shellcode(["tfapp"], shell=shell)  # type: ignore[attr-defined]


def answer(
    shell: Shell, output: TextIO | None = None, leave: Callable[[int], Any] = os._exit
) -> None:
    """Writes the words that fit what has been typed to `output`, by default to where the shell
    reads them, and calls `leave`, which ends this process."""
    line, point = os.environ.get("COMP_LINE", ""), os.environ.get("COMP_POINT", "0")
    words = split_line(line, int(point))[3][1:]  # without the one that is being typed
    argcomplete.autocomplete(parser_for(words, shell), output_stream=output, exit_method=leave)


def parser_for(words: Sequence[str], shell: Shell) -> argparse.ArgumentParser:
    """The parser of a line that begins with `words`. Of the commands, that one alone is loaded."""
    parser = argparse.ArgumentParser(prog="tfapp")
    parser.add_argument("--version", action="store_true")
    commands = parser.add_subparsers()
    for name, (module, summary) in COMMANDS.items():
        command = commands.add_parser(name, help=summary)
        if words and words[0] == name:
            importlib.import_module(module).add_arguments(command)
            for action in command._actions:
                completer = _completer(name, action, words, shell)
                if completer is not None:
                    action.completer = completer  # type: ignore[attr-defined]
    return parser


def _completer(
    command: str, action: argparse.Action, words: Sequence[str], shell: Shell
) -> Callable[..., Any] | None:
    """The function that finds the words for an argument, by its metavar. None for files, and for
    arguments that argcomplete can complete by itself."""
    metavar = action.metavar
    if isinstance(metavar, tuple):
        metavar = metavar[min(_behind(action.option_strings, words), len(metavar) - 1)]
    if metavar == "NAME" and command in _NEW_NAMES:
        return SuppressCompleter()
    find = _FINDERS.get((command, str(metavar))) or _FINDERS.get(("", str(metavar)))
    if find is None:
        return None
    found = find

    def complete(parsed_args: argparse.Namespace, **_: object) -> list[str]:
        with contextlib.suppress(Exception):  # a wrong setting is told by the command itself
            return sorted(set(found(parsed_args, action, shell)))
        return []

    return complete


def _behind(flags: Sequence[str], words: Sequence[str]) -> int:
    """How many of `words` stand behind the last of these flags."""
    places = [i for i, word in enumerate(words) if word in flags]
    return len(words) - 1 - places[-1] if places else 0


# ---- The words --------------------------------------------------------------------------------


def _names(args: argparse.Namespace, action: argparse.Action, shell: Shell) -> Iterable[str]:
    given = getattr(args, action.dest, None)
    before = given if isinstance(given, list) else []
    return (found.name for found in _applications(args, shell) if found.name not in before)


def _tags(args: argparse.Namespace, action: argparse.Action, shell: Shell) -> Iterable[str]:
    return (tag for found in _applications(args, shell) for tag in found.tags)


def _groups(args: argparse.Namespace, action: argparse.Action, shell: Shell) -> Iterable[str]:
    status = _application(args, shell).status
    return (group for instance in status.instances for group in instance.exports)


def _instances(args: argparse.Namespace, action: argparse.Action, shell: Shell) -> Iterable[str]:
    return (i.instance for i in _application(args, shell).status.instances)


def _log_names(args: argparse.Namespace, action: argparse.Action, shell: Shell) -> Iterable[str]:
    yield from _shares(args, action, shell)
    yield "coordinator"


def _shares(args: argparse.Namespace, action: argparse.Action, shell: Shell) -> Iterable[str]:
    for instance in _application(args, shell).status.instances:
        yield from (instance.component, instance.instance)


def _components(args: argparse.Namespace, action: argparse.Action, shell: Shell) -> Iterable[str]:
    """The components of the package on the command line, or else of the application."""
    if not hasattr(args, "appdef"):
        return (i.component for i in _application(args, shell).status.instances)
    from tfapp.package.load import load_package
    from tfapp.shipped import find_package

    appdef = args.appdef[-1] if isinstance(args.appdef, list) and args.appdef else args.appdef
    package = load_package(find_package(Path(appdef or "tensorflow"))).package
    return (component.name for component in package.components) if package else ()


def _keys(args: argparse.Namespace, action: argparse.Action, shell: Shell) -> Iterable[str]:
    """The keys that `action`, which is --option or a similar flag, can set."""
    kind = "appConfig" if action.dest in ("option", "compopt") else "resources"
    section = "global" if action.dest in ("option", "resopt") else "components.<component>"
    return _keys_of(kind, {"global", section})


def _all_keys(args: argparse.Namespace, action: argparse.Action, shell: Shell) -> Iterable[str]:
    from tfapp.schema import KINDS

    return (*KINDS, *(key for kind in KINDS for key in _keys_of(kind)))


def _keys_of(kind: str, sections: Iterable[str] = ()) -> Iterable[str]:
    """The keys that have an effect, in these sections or in all, without patterns."""
    from tfapp.schema import describe

    refused = {row.key for row in describe(kind) if row.section in sections and row.status}
    for row in describe(kind):
        known = not sections or (row.section in sections and row.key not in refused)
        if known and not row.status and "<" not in row.key:
            yield row.key


_FINDERS: dict[tuple[str, str], Callable[..., Iterable[str]]] = {
    ("", "NAME"): _names,
    ("", "T"): _tags,
    ("", "COMPONENT"): _components,
    ("", "KEY"): _keys,
    ("", "INSTANCE"): _instances,
    ("stacks", "COMPONENT[/I]"): _shares,
    ("profile", "COMPONENT[/I]"): _shares,
    ("logs", "WHAT"): _log_names,
    ("schema", "WHAT"): _all_keys,
    ("registry", "GROUP"): _groups,
}


# ---- The engine -------------------------------------------------------------------------------


def _applications(args: argparse.Namespace, shell: Shell) -> tuple[Application, ...]:
    return _in_time(lambda: _engine(args, shell).list())


def _application(args: argparse.Namespace, shell: Shell) -> Application:
    return _in_time(lambda: _engine(args, shell).find(args.name))


def _engine(args: argparse.Namespace, shell: Shell) -> Engine:
    from tfapp.cli.flags import engine_of

    if args.engine is None:
        args.engine = shell.defaults.engine
    return engine_of(args, shell)


def _in_time(ask: Callable[[], Any]) -> Any:
    """Calls `ask` in a daemon thread and returns its result. TimeoutError after LIMIT seconds."""
    found: list[Any] = []
    from tfapp import threads

    threads.start("tfapp-completion", lambda: found.append(ask())).join(LIMIT)
    if not found:
        raise TimeoutError("the engine does not answer")
    return found[0]
