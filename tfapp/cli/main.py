"""The `tfapp` command: finds the command's module, parses its flags, and holds the one boundary
where an exception becomes a message and an exit code."""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib
import os
import shlex
import sys
from collections.abc import Iterator, Sequence

import tfapp
from tfapp.cli.commands import COMMANDS
from tfapp.cli.parser import HelpFormatter, Parser, parse
from tfapp.cli.shell import Shell, current_shell, require_working_folder
from tfapp.close_match import close_match
from tfapp.errors import (
    ExitCode,
    InvalidPackageError,
    TfappError,
    UnavailableError,
    UsageError,
)
from tfapp.launch.caller import OutputClosedError


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command. `argv` is without the program's name. Returns the exit code."""
    try:
        shell = current_shell()
    except UnavailableError as error:  # then there is no shell to say it
        print(f"error: {error.message}\n  {error.hint}", file=sys.stderr)
        return error.exit_code
    if "_ARGCOMPLETE" in os.environ:
        from tfapp.cli.completion import answer

        answer(shell)  # ends this process
    # Before gRPC loads: with its fork handlers, one start of a process in twenty fails on
    # Python 3.9.
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
    arguments = list(sys.argv[1:] if argv is None else argv)
    outcome = Outcome()
    try:
        with error_boundary(shell, arguments, outcome):
            outcome.code = dispatch(arguments, shell)
    finally:  # also after --help, which is a SystemExit
        with error_boundary(shell, arguments, outcome):
            shell.flush()
    return outcome.code


def dispatch(arguments: list[str], shell: Shell) -> int:
    """Calls the command that `arguments` begins with. UsageError when there is no such command."""
    if not arguments or arguments[0].startswith("-"):
        command = next((word for word in arguments if word in COMMANDS), "")
        if command and arguments[0] not in ("-h", "--help", "--version"):
            flags = list(arguments)
            flags.remove(command)
            raise UsageError(
                "flags go after the command", f"Write `tfapp {command} {shlex.join(flags)}`."
            )
        main_parser().parse_args(arguments)
        main_parser().print_help(shell.err)
        return ExitCode.USAGE
    for word in arguments:
        if not _is_text(word):
            raise UsageError(
                f"the argument {word!r} is not UTF-8 text",
                "Rename the file, or set a locale such as LC_ALL=C.UTF-8.",
            )
    name, *rest = arguments
    if name == "help":
        return dispatch([*rest[:1], "--help"], shell)
    if name == "version":
        return dispatch(["--version"], shell)
    if name not in COMMANDS:
        raise UsageError(f"there is no command {name!r}", unknown_command_hint(name))
    module = importlib.import_module(COMMANDS[name][0])
    parser = Parser(
        prog=f"tfapp {name}",
        description=module.__doc__,
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    parser.words = rest
    module.add_arguments(parser)
    args = parse(parser, rest)
    require_working_folder()
    if getattr(args, "engine", "") is None:
        args.engine = shell.defaults.engine
    return int(module.run(args, shell))


def _is_text(word: str) -> bool:
    """Whether an argument is text. Python puts surrogates in place of bytes that the locale's
    encoding does not have."""
    return not any("\ud800" <= character <= "\udfff" for character in word)


def main_parser() -> argparse.ArgumentParser:
    """The parser of `tfapp --help` and `tfapp --version`."""
    width = max(map(len, COMMANDS))
    rows = [f"  {name:{width}}  {summary}" for name, (_, summary) in COMMANDS.items()]
    parser = argparse.ArgumentParser(
        prog="tfapp",
        usage="tfapp COMMAND ...",
        description=tfapp.__doc__,
        epilog="commands:\n" + "\n".join(rows) + "\n\n`tfapp COMMAND --help` says more.",
        formatter_class=HelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tfapp {tfapp.__version__}")
    return parser


def unknown_command_hint(name: str) -> str:
    """The hint for a command that does not exist."""
    from tfapp.cli.foreign import INSTEAD

    if name in INSTEAD:
        return INSTEAD[name]
    match = close_match(name, COMMANDS)
    return f"Did you mean `tfapp {match}`?" if match else "`tfapp --help` lists the commands."


class Outcome:
    """The exit code that a block of code arrives at."""

    code = int(ExitCode.SUCCESS)


@contextlib.contextmanager
def error_boundary(shell: Shell, arguments: list[str], outcome: Outcome) -> Iterator[None]:
    """Turns what the block raises into a message on standard error and `outcome.code`."""
    try:
        yield
    except InvalidPackageError as error:
        _print_findings(error, shell)
        outcome.code = error.exit_code
    except TfappError as error:
        _print_error(shell, error.message, error.hint)
        outcome.code = error.exit_code
    except KeyboardInterrupt:
        shell.note("interrupted")
        outcome.code = ExitCode.INTERRUPTED
    except OutputClosedError:
        outcome.code = ExitCode.SUCCESS
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            shell.reader_has_gone(shell.out)
            _print_error(shell, str(error), "Free some space and try again.")
            outcome.code = ExitCode.UNAVAILABLE
        else:
            outcome.code = _report_bug(error, arguments, shell)
    except Exception as error:
        outcome.code = _report_bug(error, arguments, shell)


def _report_bug(error: Exception, arguments: list[str], shell: Shell) -> int:
    from tfapp.cli.bug_report import write_bug_report

    report = write_bug_report(error, arguments, shell.home)
    _print_error(
        shell,
        f"this is a bug in tfapp ({type(error).__name__})",
        f"{report} holds what a bug report needs.",
    )
    return ExitCode.INTERNAL_ERROR


def _print_findings(error: InvalidPackageError, shell: Shell) -> None:
    from tfapp.problems import text_report

    shell.note(text_report(error.problems))
    shell.note(f"error: {error.message}")


def _print_error(shell: Shell, message: str, hint: str) -> None:
    from tfapp.cli.console import style

    shell.note(f"{style('error:', 'red', shell.err, shell.environ)} {message}")
    if hint:
        shell.note(f"  {hint}")
