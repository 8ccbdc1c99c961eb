"""Flags and arguments in any order."""

import argparse
import importlib
from collections.abc import Iterator, Mapping

import pytest

from tfapp.cli.commands import COMMANDS
from tfapp.cli.parser import Parser, parse

COUNTS: Mapping[object, int] = {None: 1, "?": 1, "*": 2, "+": 2}
FLAGS = ("_StoreTrueAction", "_StoreAction")


def parser_of(command: str) -> Parser:
    parser = Parser(prog=f"tfapp {command}", allow_abbrev=False)
    importlib.import_module(COMMANDS[command][0]).add_arguments(parser)
    return parser


def word_for(action: argparse.Action) -> str:
    """A word that the action accepts."""
    if action.choices:
        return next(iter(action.choices))
    for word in ("2026-11-24T13:05", "7", "s3://bucket"):
        try:
            (action.type or str)(word)  # type: ignore[operator]
            return word
        except (ValueError, argparse.ArgumentTypeError):
            continue
    raise AssertionError(action)


def flags_of(parser: Parser) -> Iterator[list[str]]:
    """Those alone and those with a word. Of flags that exclude each other one is given already."""
    excluded = [a for group in parser._mutually_exclusive_groups for a in group._group_actions]
    for action in parser._actions:
        if action in excluded:
            continue
        if action.option_strings and type(action).__name__ in FLAGS and action.nargs in (0, None):
            words = [] if action.nargs == 0 else [word_for(action)]
            yield [action.option_strings[-1], *words]


def needed_by(parser: Parser) -> list[str]:
    """Flags that must be there."""
    found = []
    for action in parser._actions:
        if action.option_strings and action.required:
            count = action.nargs if isinstance(action.nargs, int) else 1
            found += [action.option_strings[0], *["7"] * count]
    groups = [group for group in parser._mutually_exclusive_groups if group.required]
    return [*found, *(group._group_actions[0].option_strings[0] for group in groups)]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_flag_stands_anywhere(command):
    parser = parser_of(command)
    slots = parser._get_positional_actions()
    arguments = [word_for(a) for a in slots for _ in range(COUNTS[a.nargs])]
    needed = needed_by(parser)
    for flag in flags_of(parser):
        if flag[0] in needed:
            continue
        expected = parse(parser, [*needed, *flag, *arguments])
        for place in range(len(arguments) + 1):
            words = [*arguments[:place], *flag, *arguments[place:]]
            assert parse(parser, [*words, *needed]) == expected, words


@pytest.mark.parametrize("flag", ["-w", "--workers"])
def test_the_words_of_a_program_stay_together(flag):
    words = ["train.py", flag, "3", "--", "--epochs", "4", "--", "-w"]
    args = parse(parser_of("run"), words)
    assert (args.workers, args.passed) == (3, ["--epochs", "4", "--", "-w"])


# Words -> the message.
WRONG = {
    ("logs", "app", "-f", "worker/0", "more"): "unrecognized arguments: more\n",
    ("logs", "app", "-f", "worker/0", "--frob"): "unrecognized arguments: --frob\n",
    (
        "logs",
        "app",
        "-f",
        "worker/0",
        "--tails",
        "3",
    ): "--tails 3\n  Did you mean --tail?",
    ("flex", "app", "-x", "--component", "a", "1"): "unrecognized arguments: -x\n",
    ("logs", "-f", "--frob"): "error: the following arguments are required: NAME\n",
}


@pytest.mark.parametrize("words", WRONG, ids=" ".join)
def test_what_is_left_is_an_error(words, capsys):
    command, *rest = words
    with pytest.raises(SystemExit) as ended:
        parse(parser_of(command), rest)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert WRONG[words] in said
    assert len(said.splitlines()) <= 4  # the short usage
