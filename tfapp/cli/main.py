"""The `tfapp` command: finds the command's module, parses its flags, and holds the one boundary
where an exception becomes a message and an exit code."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import tfapp
from tfapp.cli.commands import COMMANDS, HEADINGS, INSTEAD
from tfapp.cli.parser import HelpFormatter, Parser, parse
from tfapp.cli.shell import Shell, current_shell
from tfapp.close_match import did_you_mean
from tfapp.errors import ExitCode, InvalidPackageError, TfappError, UnavailableError, UsageError
from tfapp.launch.caller import OutputClosedError, OutputFullError, require_working_folder


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command. `argv` is without the program's name. Returns the exit code."""
    _never_ignore_ctrl_c()
    try:
        shell = current_shell()
    except UnavailableError as error:  # then there is no shell to say it
        print(f"error: {error.message}\n  {error.hint}", file=sys.stderr)
        return error.exit_code
    if "_ARGCOMPLETE" in os.environ:
        from tfapp.cli.completion import answer

        answer(shell)  # ends this process
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
        if "version" in main_parser().parse_args(arguments):
            shell.print(versions())
            return ExitCode.SUCCESS
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
    return module.run(args, shell) or ExitCode.SUCCESS


def _is_text(word: str) -> bool:
    """Whether an argument is text. Python puts surrogates in place of bytes that the locale's
    encoding does not have."""
    return not any("\ud800" <= character <= "\udfff" for character in word)


def main_parser() -> argparse.ArgumentParser:
    """The parser of `tfapp --help` and `tfapp --version`."""
    width = max(map(len, COMMANDS))
    rows = []
    for name, (_, summary) in COMMANDS.items():
        if name in HEADINGS:
            rows += ["", f"{HEADINGS[name]}:"]
        rows.append(f"  {name:{width}}  {summary}")
    parser = Parser(
        prog="tfapp",
        usage="tfapp COMMAND ...",
        description=tfapp.__doc__,
        epilog="\n".join(rows[1:]) + "\n\n`tfapp COMMAND --help` says more.",
        formatter_class=HelpFormatter,
    )
    told = "show the versions of tfapp, Python and TensorFlow, and the engines found"
    parser.add_argument("--version", action="store_true", default=argparse.SUPPRESS, help=told)
    return parser


def versions() -> str:
    """The versions of tfapp, Python and TensorFlow, and which engines this machine has. It loads no
    library."""
    from tfapp.engines import ENGINES, require
    from tfapp.engines.diagnosis import tensorflow_version

    lines = [
        f"tfapp {tfapp.__version__}",
        f"Python {'.'.join(map(str, sys.version_info[:3]))}",
        f"TensorFlow {tensorflow_version() or 'not installed beside tfapp'}",
    ]
    for name in ENGINES:
        try:
            require(name, os.environ)
            lines.append(f"engine {name}: found")
        except UnavailableError as error:
            lines.append(f"engine {name}: {error.message}. {error.hint}")
    return "\n".join(lines)


def unknown_command_hint(name: str) -> str:
    """The hint for a command that does not exist."""
    if name in INSTEAD:
        return INSTEAD[name]
    listed = "`tfapp --help` lists the commands."
    return did_you_mean(name, COMMANDS, listed, "Did you mean `tfapp {}`?")


def _never_ignore_ctrl_c() -> None:
    """Repeats a KeyboardInterrupt that Python ignores because it came in a callback of an import or
    in a destructor, a moment later: else the command would go on."""
    shown = sys.unraisablehook

    def repeat(ignored: sys.UnraisableHookArgs) -> None:
        if not issubclass(ignored.exc_type, KeyboardInterrupt):
            shown(ignored)
            return
        import signal

        from tfapp import threads

        # A real signal, which also ends a wait of the main thread.
        threads.after(0.05, "tfapp-ctrl-c", lambda: os.kill(os.getpid(), signal.SIGINT))

    sys.unraisablehook = repeat


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
    except OutputFullError:
        outcome.code = ExitCode.UNAVAILABLE
    except OutputClosedError:
        outcome.code = ExitCode.SUCCESS
    except OSError as error:
        from tfapp.disk import FULL, in_words  # Windows cannot import it

        if error.errno in FULL:
            shell.reader_has_gone(shell.out)
        known = in_words(error, shell.home)
        if known is not None:
            _print_error(shell, known.message, known.hint)
        outcome.code = known.exit_code if known else _report_bug(error, arguments, shell)
    except Exception as error:
        outcome.code = _report_bug(error, arguments, shell)


def _report_bug(error: Exception, arguments: list[str], shell: Shell) -> int:
    report = _write_bug_report(error, arguments, shell.home)
    _print_error(
        shell,
        f"this is a bug in tfapp ({type(error).__name__})",
        f"{report} holds what a bug report needs.",
    )
    return ExitCode.INTERNAL_ERROR


def _write_bug_report(error: BaseException, arguments: list[str], home: Path) -> Path:
    """Writes what a bug report needs to a file under `home`, or, if that cannot be written, under
    the system's folder for temporary files. Returns its path.

    Of the command line only the command and the flags' names are kept: values may be secret.
    """
    import datetime
    import tempfile

    text = _report_text(error, arguments)
    now = datetime.datetime.now(datetime.timezone.utc)
    name = f"bug-{now:%Y%m%d-%H%M%S}-{os.getpid()}.txt"
    try:
        folder = home / "bug-reports"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _write_private(folder / name, text)
    except OSError:
        return _write_private(Path(tempfile.mkdtemp(prefix="tfapp-")) / name, text)


def _report_text(error: BaseException, arguments: list[str]) -> str:
    """Versions and the command, one fact a line, then the traceback."""
    import platform
    import traceback

    words = arguments[:1] + [word.partition("=")[0] for word in arguments[1:] if word[:1] == "-"]
    return "\n".join(
        (
            f"tfapp {tfapp.__version__}",
            f"Python {sys.version}",
            platform.platform(),
            f"command: tfapp {' '.join(words)}",
            "",
            "".join(traceback.format_exception(type(error), error, error.__traceback__)),
        )
    )


def _write_private(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return path


def _print_findings(error: InvalidPackageError, shell: Shell) -> None:
    from tfapp.problems import text_report

    shell.note(text_report(error.problems))
    shell.note(f"error: {error.message}")


def _print_error(shell: Shell, message: str, hint: str) -> None:
    from tfapp.cli.console import style

    shell.note(f"{style('error:', 'red', shell.err, shell.environ)} {message}")
    if hint:
        shell.note(f"  {hint}")
