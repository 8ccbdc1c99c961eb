"""The flags that several commands have: those that name an engine, an application or one run of it,
and those that name a package and change it on the way in, which are Slider's own."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfapp.engines import DEFAULT_ENGINE, ENGINE_VARIABLE, ENGINES, EngineOption, engine_options
from tfapp.shipped import find_package

if TYPE_CHECKING:
    from tfapp.cli.shell import Shell
    from tfapp.contract.status import ApplicationStatus
    from tfapp.engines.base import Engine
    from tfapp.launch.submission import Request
    from tfapp.package.overrides import Overrides


PACKAGE_HELP = "a package: a folder, a .zip, or the name of one that `tfapp packages` lists"


def add_engine_flag(parser: argparse.ArgumentParser) -> None:
    """Adds `--engine`, and the flags of engines that say where their applications are. After
    parsing, `engine` is never None: see tfapp.cli.main."""
    parser.add_argument(
        "--engine",
        choices=sorted(ENGINES),
        help=f"where the application runs (default: {ENGINE_VARIABLE}, `engine` in "
        f"TFAPP_HOME/config.yaml, {DEFAULT_ENGINE})",
    )
    _add_options(parser, places=True)


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """Adds `--engine`, and all flags of engines, for commands that compile, launch or examine."""
    add_engine_flag(parser)
    _add_options(parser, places=False)


def _add_options(parser: argparse.ArgumentParser, places: bool) -> None:
    for name, owners in _options(places).items():
        texts = dict.fromkeys(
            f"{option.help} (default: {option.default})" if option.default else option.help
            for option in owners
        )
        short = (f"-{owners[0].short}",) if owners[0].short else ()
        parser.add_argument(*short, f"--{name}", dest=name, help="; ".join(texts))


def _options(places: bool) -> dict[str, list[EngineOption]]:
    """name -> the options of this name, one for each engine that has one."""
    found: dict[str, list[EngineOption]] = {}
    for option in engine_options():
        if option.place == places:
            found.setdefault(option.name, []).append(option)
    return found


def engine_of(args: argparse.Namespace, shell: Shell) -> Engine:
    given = {name: getattr(args, name) for name in _options(places=True)}
    _note_unused(args, shell, given)
    places = {name: value for name, value in given.items() if value is not None}
    return shell.engine(args.engine, places)


def status_of(args: argparse.Namespace, shell: Shell) -> ApplicationStatus:
    """That of the run which the flags name."""
    return engine_of(args, shell).find(args.name, args.run).status


def engine_options_of(args: argparse.Namespace, shell: Shell) -> dict[str, str]:
    """The values of the engines' flags, by name: the given one, else the user's default, else that
    of the engine in use."""
    own = {option.name: option for option in engine_options(args.engine)}
    found = {}
    for name, owners in _options(places=False).items():
        given = getattr(args, name)
        if given is None:
            given = shell.defaults.of(args.engine).get(name, own.get(name, owners[0]).default)
        found[name] = given
    return found


def note_unused_options(args: argparse.Namespace, shell: Shell) -> None:
    """Notes each given flag that the engine does not have. It is no error, so that one command line
    works with every engine."""
    _note_unused(args, shell, _options(places=False))


def _note_unused(args: argparse.Namespace, shell: Shell, names: Iterable[str]) -> None:
    own = {option.name for option in engine_options(args.engine)}
    for name in names:
        if name not in own and getattr(args, name) is not None:
            shell.note(f"--{name} is ignored: the engine {args.engine} does not have it")


def add_name(parser: argparse.ArgumentParser) -> None:
    """`NAME` and `--engine`."""
    parser.add_argument("name", metavar="NAME", help="the application")
    add_engine_flag(parser)


def add_run_flag(parser: argparse.ArgumentParser) -> None:
    """`--run`: which of an application's runs."""
    parser.add_argument("--run", metavar="N", type=int, help="run number N (default: the newest)")


def add_shown(parser: argparse.ArgumentParser) -> None:
    """`NAME`, `--engine`, `--run` and `--format`: which run a command shows, and in which form."""
    add_name(parser)
    add_run_flag(parser)
    add_format_flag(parser)


def add_follow_flags(parser: argparse.ArgumentParser) -> None:
    """`--detach` and `--wait`: how long a command that launches something stays with it."""
    parser.add_argument(
        "--detach",
        action="store_true",
        help="return once the application is submitted (with --wait: once it runs)",
    )
    parser.add_argument(
        "--wait",
        metavar="S",
        type=seconds,
        help="exit with 67 if the application does not run after S seconds; it is not stopped",
    )
    add_format_flag(parser, about="json: with --detach, the document of `tfapp status`")


def add_format_flag(parser: argparse.ArgumentParser, *formats: str, about: str = "") -> None:
    """`--format`, the first of `formats` being the default. `about`: more on it."""
    formats = formats or ("text", "json")
    parser.add_argument(
        "--format",
        choices=formats,
        default=formats[0],
        help=f"default: %(default)s{about and '; '}{about}",
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


def duration(text: str) -> float:
    """A flag's value as seconds: "7d", "12 h", "30 min", "90". argparse turns the error into a
    usage message."""
    from tfapp.package import amounts

    try:
        found = amounts.seconds(text)
    except ValueError:
        found = -1.0
    if found < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 7d, 12h, 30min or 90s")
    return found


def application_name(text: str) -> str:
    """Returns `text` if it can be the name of an application; else UsageError. Called before
    anything is loaded."""
    from tfapp.compiler.options import check_name

    check_name(text)
    return text


def file_path(text: str) -> Path:
    """A flag's value as a path, which need not exist. argparse turns the error into a usage
    message."""
    if not text:
        raise argparse.ArgumentTypeError("expected a path, found nothing")
    return Path(text)


def app_package(text: str) -> Path:
    """A flag's value as the path of an app package, which may be the name of a shipped one."""
    return find_package(file_path(text))


def file_or_folder(text: str) -> str:
    """A flag's value as a path that keeps a slash at its end."""
    file_path(text)
    return text


def add_package_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of a package, but not the package itself, which commands name differently."""
    group = parser.add_argument_group("the package")
    group.add_argument(
        "--template",
        metavar="FILE",
        type=file_path,
        help="an appConfig to use in place of the package's appConfig-default",
    )
    group.add_argument(
        "--resources",
        metavar="FILE",
        type=file_path,
        help="resources to use in place of the package's resources-default",
    )
    group.add_argument(
        "--files",
        metavar="PATH",
        type=file_or_folder,
        nargs="+",
        action="extend",
        default=[],
        help="files and folders to ship in addition to the package's files/; of DIR/ the content",
    )
    add_override_flags(group)


def add_override_flags(group: argparse._ActionsContainer) -> None:
    """Adds the flags that set single keys."""
    for flags, metavar, help_text in _OVERRIDES:
        group.add_argument(
            *flags,
            dest=flags[0].lstrip("-"),
            metavar=metavar if len(metavar) > 1 else metavar[0],
            nargs=len(metavar),
            action="append",
            default=[],
            help=help_text,
        )


_OVERRIDES = (
    (("--option", "-O"), ("KEY", "VALUE"), "set an appConfig key in `global`"),
    (("--compopt", "--co"), ("COMPONENT", "KEY", "VALUE"), "set an appConfig key of a component"),
    (("--resopt", "-ro"), ("KEY", "VALUE"), "set a resources key in `global`"),
    (("--rescompopt", "-rco"), ("COMPONENT", "KEY", "VALUE"), "set a resources key of a component"),
    (("--component", "--role"), ("COMPONENT", "N"), "set the number of instances of a component"),
)


def overrides_of(args: argparse.Namespace) -> Overrides:
    """The overrides among the parsed flags, as they were written."""
    from tfapp.package.overrides import Overrides

    return Overrides(
        options=_rows(args.option),
        compopts=_rows(args.compopt),
        resopts=_rows(args.resopt),
        rescompopts=_rows(args.rescompopt),
        components=_rows(args.component),
    )


def request_of(name: str, args: argparse.Namespace, shell: Shell) -> Request:
    """What the flags of a package ask for. `args.appdef`: the package."""
    from tfapp.launch.submission import Request

    return Request(
        name=name,
        appdef=args.appdef,
        template=args.template,
        resources=args.resources,
        overrides=overrides_of(args),
        files=user_files(args, shell.note),
        engine_options=engine_options_of(args, shell),
    )


def _rows(rows: list[list[str]]) -> tuple[Any, ...]:
    return tuple(map(tuple, rows))


def user_files(args: argparse.Namespace, note: Callable[[str], None]) -> dict[str, Path]:
    """`--files` as places below files/ in a container -> the user's own files."""
    from tfapp.package.source import collect_user_files

    return collect_user_files(args.files, note)
