"""Commands that act on one application, or on several at the same time."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from tfapp.cli.flags import add_engine_flag
from tfapp.cli.shell import Shell
from tfapp.close_match import did_you_mean
from tfapp.engines.base import Application, Engine
from tfapp.errors import ExitCode, TfappError, UnknownApplicationError, UsageError

AT_ONCE = 16  # applications that are acted on at the same time


def add_names_or_tag(parser: argparse.ArgumentParser) -> None:
    """`NAME ...` or `--tag`, and `--engine`."""
    parser.add_argument("names", metavar="NAME", nargs="*", help="the applications")
    parser.add_argument("--tag", metavar="T", help="all applications with this tag")
    add_engine_flag(parser)


def named(args: argparse.Namespace, engine: Engine) -> tuple[str, ...]:
    """The applications that the words name, each once, or those with the tag, sorted. UsageError
    when both are given, or neither; UnknownApplicationError when no application has the tag."""
    if bool(args.names) == (args.tag is not None):
        raise UsageError("expected either NAME or --tag", "`tfapp list` shows names and tags.")
    if args.tag is None:
        return tuple(dict.fromkeys(args.names))
    return tuple(sorted(found.name for found in tagged(engine, args.tag)))


def act_on_each(names: Sequence[str], shell: Shell, act: Callable[[str], str]) -> int:
    """Calls `act` for all applications at the same time, and notes what each call returns, in the
    order of the applications. One that fails does not stop the others. Returns the exit code of the
    first that fails, or 0."""
    if len(names) == 1:
        shell.note(act(names[0]))
        return ExitCode.SUCCESS
    code = int(ExitCode.SUCCESS)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for name, future in [(name, pool.submit(act, name)) for name in names]:
            try:
                shell.note(future.result())
            except TfappError as error:
                hint = f"\n  {error.hint}" if error.hint else ""
                shell.note(f"error: {name}: {error.message}{hint}")
                code = code or int(error.exit_code)
    return code


def tagged(engine: Engine, tag: str) -> tuple[Application, ...]:
    """The applications that have the tag. UnknownApplicationError when there are none."""
    applications = engine.list()
    found = tuple(each for each in applications if tag in each.tags)
    if found:
        return found
    tags = sorted({other for each in applications for other in each.tags})
    hint = did_you_mean(tag, tags, "`tfapp list` shows the tags.")
    raise UnknownApplicationError(f"no application has the tag {tag}", hint)
