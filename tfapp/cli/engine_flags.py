"""The flags that name an engine, an application, or one run of it."""

from __future__ import annotations

import argparse

from tfapp.engines import DEFAULT_ENGINE, ENGINES


def add_engine_flag(parser: argparse.ArgumentParser) -> None:
    """`--engine`: where the application runs."""
    parser.add_argument(
        "--engine",
        choices=sorted(ENGINES),
        default=DEFAULT_ENGINE,
        help="where the application runs (default: %(default)s)",
    )


def add_name(parser: argparse.ArgumentParser) -> None:
    """`NAME` and `--engine`."""
    parser.add_argument("name", metavar="NAME", help="the application")
    add_engine_flag(parser)


def add_run_flag(parser: argparse.ArgumentParser) -> None:
    """`--run`: which of an application's runs."""
    parser.add_argument("--run", metavar="N", type=int, help="run number N (default: the newest)")


def add_follow_flags(parser: argparse.ArgumentParser) -> None:
    """`--detach` and `--wait`: how long a command that launches something stays with it."""
    parser.add_argument(
        "--detach", action="store_true", help="return once it is submitted (with --wait: runs)"
    )
    parser.add_argument(
        "--wait",
        metavar="S",
        type=seconds,
        help="exit with 67 when it is not running after S seconds; it goes on",
    )


def add_format_flag(parser: argparse.ArgumentParser, *formats: str) -> None:
    """`--format`, the first of `formats` being the default."""
    formats = formats or ("text", "json")
    parser.add_argument(
        "--format", choices=formats, default=formats[0], help="default: %(default)s"
    )


def seconds(text: str) -> float:
    """A flag's value as seconds. argparse turns the error into a usage message."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, 0 or more")
    return value


def application_name(text: str) -> str:
    """`text`, if an application can be named so; asked before anything is loaded. UsageError
    otherwise."""
    from tfapp.compiler.options import check_name

    check_name(text)
    return text
