"""The parser of a command's flags. Its messages say what to write instead, where that is known."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from tfapp.close_match import close_match
from tfapp.errors import ExitCode

# The flag for one component, by the flag for all of them.
_OF_COMPONENT = {"--option": "--compopt", "-O": "--compopt", "--resopt": "--rescompopt"}


_ROW = re.compile(r"( +\S+ {2,})(?=\S)")  # the first column of a table


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Fits descriptions into a terminal that is narrower than they are: paragraphs and the second
    column of tables are wrapped. Other indented lines are examples, and stay as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if max(map(len, text.splitlines()), default=0) > width:
            text = "\n\n".join(_wrapped(part, width) for part in text.split("\n\n"))
        return super()._fill_text(text, width, indent)


def _wrapped(paragraph: str, width: int) -> str:
    import textwrap

    lines = paragraph.splitlines()
    if not any(line.startswith(" ") for line in lines):
        return textwrap.fill(paragraph, width, break_long_words=False, break_on_hyphens=False)
    for index, line in enumerate(lines):
        if len(line) > width and (row := _ROW.match(line)):
            indent = " " * row.end()
            lines[index] = textwrap.fill(
                line,
                width,
                subsequent_indent=indent,
                break_long_words=False,
                break_on_hyphens=False,
            )
    return "\n".join(lines)


class Parser(argparse.ArgumentParser):
    """The parser of one command."""

    words: Sequence[str] = ()  # what it parses
    _without_positionals = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse, and flags and arguments may be mixed: argparse takes `NAME -f` for all
        arguments that there are if those that follow may be left out. Its own
        parse_intermixed_args prints another usage."""
        words = list(args)
        found, unknown = super().parse_known_args(words, namespace)
        if not unknown:
            return found, unknown
        with self._requiring(flags=True):
            self._without_positionals = True
            try:
                found, arguments = super().parse_known_args(words, namespace)
            finally:
                self._without_positionals = False
        for action in super()._get_positional_actions():
            delattr(found, action.dest)
        with self._requiring(flags=False):
            return super().parse_known_args(arguments, found)

    def _get_positional_actions(self) -> list[argparse.Action]:
        return [] if self._without_positionals else super()._get_positional_actions()

    @contextlib.contextmanager
    def _requiring(self, flags: bool) -> Iterator[None]:
        """Only flags, or only arguments, are required."""
        every: list[Any] = [*self._actions, *self._mutually_exclusive_groups]
        needed = [each for each in every if each.required]
        dropped = [a for a in needed if flags != bool(getattr(a, "option_strings", True))]
        for each in dropped:
            each.required = False
        try:
            yield
        finally:
            for each in dropped:
                each.required = True

    def print_help(self, file: Any = None) -> None:
        """Also for a reader that goes away, as of `--help | head`: from Python 3.11 on, argparse
        sees to that."""
        with contextlib.suppress(OSError):
            super().print_help(file)

    def error(self, message: str) -> NoReturn:
        """Ends the process with exit code 2. The usage that it prints has the required words
        only."""
        text = f"{self.prog}: error: {message}{self._instead(message)}\n"
        self.exit(ExitCode.USAGE, f"{self._short_usage()}{text}")

    def _short_usage(self) -> str:
        if self.usage:
            return self.format_usage()
        groups = [group for group in self._mutually_exclusive_groups if group.required]
        one_of = [action for group in groups for action in group._group_actions]
        needed = [a for a in self._actions if a.required or a in one_of or not a.option_strings]
        formatter = argparse.HelpFormatter(self.prog)
        formatter.add_usage(None, needed, groups)
        shown = formatter.format_help().rstrip()
        return f"{shown} [options]\n  `{self.prog} --help` lists the options.\n"

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            match = close_match(str(value), map(str, action.choices or ()))
            if not match:
                raise
            message = f"{error.message}\n  Did you mean {match}?"
            raise argparse.ArgumentError(action, message) from None

    def _instead(self, message: str) -> str:
        words = list(self.words)
        if ": expected " in message:
            for flag, word in zip(words, words[1:]):
                name, equals, value = word.partition("=")
                if flag.startswith("-") and f"{flag}" in message.split(":")[0] and equals:
                    return f"\n  Write {shlex.join([flag, name, value])}, without the '='."
        plain = [word for word in words if not word.startswith("-")]
        if "required: --appdef" in message and len(plain) > 1 and os.path.exists(plain[1]):
            return f"\n  Did you mean --appdef {shlex.quote(plain[1])}?"
        if "required: --component" in message and len(plain) == 3:
            return f"\n  Did you mean --component {shlex.join(plain[1:])}?"
        if "required: --name" in message and plain:
            return f"\n  Did you mean --name {shlex.quote(plain[0])}?"
        if message.startswith("unrecognized arguments: --appdef"):
            package = [*words[words.index("--appdef") + 1 :], "APPDEF"][0]
            return f"\n  The package needs no flag: {self.prog} {shlex.quote(package)}"
        return ""


def parse(parser: argparse.ArgumentParser, words: list[str]) -> argparse.Namespace:
    """Parses `words`. If the parser has a default for `passed`, this is set to the words behind
    `--`: argparse would not accept such words after a flag."""
    passes = parser.get_default("passed") is not None
    end = words.index("--") if passes and "--" in words else len(words)
    args, unknown = parser.parse_known_args(words[:end])
    if unknown:
        hint = _unknown_words_hint(parser, words, unknown)
        parser.error(f"unrecognized arguments: {shlex.join(unknown)}{hint}")
    if end < len(words):
        args.passed = words[end + 1 :]
    return args


def _unknown_words_hint(
    parser: argparse.ArgumentParser, words: list[str], unknown: list[str]
) -> str:
    flag = next((word.partition("=")[0] for word in unknown if word.startswith("-")), "")
    match = close_match(flag, parser._option_string_actions) if flag else ""
    if match:
        return f"\n  Did you mean {match}?"
    for index, word in enumerate(words):
        values = words[index + 1 : index + 4]
        of_all = word in _OF_COMPONENT and values[2:] == unknown[:1]
        if of_all and not any(value.startswith("-") for value in values):
            return f"\n  Did you mean {shlex.join([_OF_COMPONENT[word], *values])}?"
    if parser.get_default("passed") is not None:
        given = shlex.join(unknown)
        return f"\n  Arguments of the program go at the end, after `--`: -- {given}"
    return ""
