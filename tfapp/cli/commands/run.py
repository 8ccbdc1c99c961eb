"""Runs one training script on N workers, with tfapp's own TensorFlow package around it, and
follows it to its end as `tfapp create` does.

The script gets TF_CONFIG, WORKER_NUMBER and TOT_WORKERS; plain tf.distribute code needs nothing
else. --ps also adds a chief, which ParameterServerStrategy needs. Words after `--` are the
arguments of the script. --option, --resopt and the like set any other key of the package.

MODULE:FUNCTION, in place of a script, is a function in a module that is installed or in the working
folder. It may return a tfapp.Experiment or a tfapp.KerasExperiment. With --appdef, the components,
configuration and resources are those of another package.

  tfapp run train.py -w 4 -- --epochs 10
  tfapp run train.py -w 4 --engine yarn --rescompopt worker yarn.gpus 1
  tfapp run digits:experiment -w 2 --evaluator
  tfapp run train.py -w 2 -i tensorflow/tensorflow:2.20.0 --engine kubernetes --pod-file pod.yaml
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import posixpath
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tfapp.cli.commands.create import add_launch_flags, launch
from tfapp.cli.flags import (
    add_override_flags,
    application_name,
    engine_options_of,
    file_path,
    overrides_of,
)
from tfapp.cli.shell import Shell
from tfapp.engines import runs_images
from tfapp.errors import NotFoundError, UsageError
from tfapp.package.nearby import nearby

if TYPE_CHECKING:
    from tfapp.launch.submission import Request

SCRIPT_LINK = "/script/training-script.py"  # where TF-Spawner's entrypoints expect it
VOLUMES = "site.global.kubernetes.volumes"

_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*\Z")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `tfapp run`."""
    parser.usage = "%(prog)s SCRIPT|MODULE:FUNCTION [-w N] [--ps N] [options] [-- ARGS ...]"
    parser.set_defaults(passed=[])
    parser.add_argument(
        "script",
        metavar="SCRIPT",
        type=file_path,
        help="the training script, or MODULE:FUNCTION",
    )
    parser.add_argument(
        "--appdef",
        metavar="DIR",
        type=file_path,
        help="a package to use in place of tfapp's own; its resources set the numbers of instances",
    )
    parser.add_argument(
        "-w", "--workers", metavar="N", type=_count, help="number of workers (default: 2)"
    )
    parser.add_argument("--ps", metavar="N", type=_count, help="number of parameter servers")
    parser.add_argument("--evaluator", action="store_true", help="add an evaluator")
    parser.add_argument("--tensorboard", action="store_true", help="add a TensorBoard")
    parser.add_argument("-i", "--image", metavar="IMAGE", help="run in this container image")
    parser.add_argument(
        "-c",
        "--command",
        metavar="COMMAND",
        type=file_path,
        help="an entrypoint script to run in place of SCRIPT, with SCRIPT and ARGS as its "
        f"arguments; on Kubernetes SCRIPT is at {SCRIPT_LINK} too",
    )
    parser.add_argument(
        "-p", "--port", metavar="PORT", type=_port, help="the workers' gRPC port, if it is free"
    )
    parser.add_argument(
        "--pod-file",
        metavar="FILE",
        type=file_path,
        help="on Kubernetes: a Pod that is merged into the pods of the containers",
    )
    parser.add_argument(
        "-e",
        "--env-file",
        metavar="ENVFILE",
        type=file_path,
        help="a file of NAME=value lines: environment variables of the program",
    )
    parser.add_argument(
        "--secret-env-file",
        metavar="ENVFILE",
        type=file_path,
        help="the same, for secrets: their values are removed from logs and reports",
    )
    parser.add_argument(
        "--files",
        metavar="PATH",
        type=file_path,
        action="append",
        default=[],
        help="a file or folder to ship beside the script; may be repeated",
    )
    parser.add_argument(
        "--name", metavar="NAME", help="name of the application (default: SCRIPT-xxxx)"
    )
    parser.add_argument(
        "-t",
        "--tag",
        metavar="T",
        action="append",
        default=[],
        help="a tag, for `tfapp list --tag T`; may be repeated",
    )
    add_override_flags(parser.add_argument_group("the package"))
    add_launch_flags(parser)


def run(args: argparse.Namespace, shell: Shell) -> int:
    """Submits the package with the script, or the function, in it."""
    function = _FUNCTION.match(str(args.script)) and not args.script.exists()
    script = None if function else args.script
    if script is not None and script.suffix == ".ipynb":
        raise UsageError(
            f"{script} is a notebook, and programs are files of Python",
            f"`jupyter nbconvert --to script {script}` writes {script.stem}.py; from the notebook "
            "itself, call tfapp.run.",
        )
    for path in filter(None, (script, args.command, args.pod_file)):
        if not path.is_file():
            raise _no_file(path, shell.cwd)
    if function and (args.command or args.passed):
        raise UsageError(
            f"{args.script} is a function: it takes neither --command nor arguments",
            "Give it values by --env-file.",
        )
    name = application_name(args.name) if args.name else _new_name(args.script, bool(function))
    if args.pod_file and not runs_images(args.engine):
        shell.note(f"--pod-file is ignored: the engine {args.engine} has no pods")
    request = _of_function if function else _of_script
    return launch(name, lambda: request(name, args, shell), args, shell)


def _new_name(script: Path, function: bool) -> str:
    from tfapp.compiler.options import new_name

    return new_name(str(script).rpartition(":")[2] if function else script.stem)


@contextlib.contextmanager
def _of_script(name: str, args: argparse.Namespace, shell: Shell) -> Iterator[Request]:
    yield _request(name, args, shell, options_of(args), args.script, args.command)


@contextlib.contextmanager
def _of_function(name: str, args: argparse.Namespace, shell: Shell) -> Iterator[Request]:
    from tfapp.api.request import packed

    with packed(str(args.script), _appdef(args), shell) as (entry, files, needs):
        option = ("site.global.user.scripts.entry", entry)
        request = _request(name, args, shell, (*place_options(args), option))
        yield dataclasses.replace(request, files={**files, **request.files}, needs=needs)


def _variables(flag: str, path: Path | None) -> dict[str, str]:
    from tfapp.launch.env_file import read_env_file

    return read_env_file(path, flag) if path is not None else {}


def _request(
    name: str,
    args: argparse.Namespace,
    shell: Shell,
    options: tuple[tuple[str, str], ...],
    *programs: Path | None,
) -> Request:
    from tfapp.launch.submission import Request
    from tfapp.package.source import collect_user_files

    given = overrides_of(args)
    return Request(
        name=name,
        appdef=_appdef(args),
        overrides=dataclasses.replace(
            given,
            options=(*options, *given.options, *_script_volume(args)),
            components=(*components_of(args), *given.components),
        ),
        files=collect_user_files([*args.files, *filter(None, reversed(programs))], shell.note),
        # The built-in one has a sample, of a common name: the script may mean another module by it.
        programs=args.appdef is not None,
        engine_options=engine_options_of(args, shell),
        tags=tuple(dict.fromkeys(args.tag)),
        environment=_variables("--env-file", args.env_file),
        secret_environment=_variables("--secret-env-file", args.secret_env_file),
    )


def _script_volume(args: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """A volume for the link to SCRIPT, beside those that are given: users other than root cannot
    make a folder in an image. A package of the user's own has its own volumes."""
    if args.command and args.appdef is None and runs_images(args.engine):
        given = [value for key, value in args.option if key == VOLUMES][-1:]
        yield VOLUMES, ", ".join([*given, f"emptyDir:{posixpath.dirname(SCRIPT_LINK)}"])


def _appdef(args: argparse.Namespace) -> Path:
    from tfapp.shipped import app_packages_dir

    return args.appdef or app_packages_dir() / "tensorflow"


def components_of(args: argparse.Namespace) -> tuple[tuple[str, str], ...]:
    """The number of instances of each component, from the flags. With a package, its resources
    say it, and a flag that is given replaces them."""
    if args.appdef is not None:
        given = {"worker": args.workers, "ps": args.ps}
        given.update({name: 1 for name in ("evaluator", "tensorboard") if getattr(args, name)})
        return tuple((name, str(count)) for name, count in given.items() if count is not None)
    workers, ps = 2 if args.workers is None else args.workers, args.ps or 0
    if not workers and not ps:
        raise UsageError("there is nothing to run with no workers", "Give -w 1 or more.")
    counts = {
        "chief": 1 if ps else 0,
        "worker": workers,
        "ps": ps,
        "evaluator": int(args.evaluator),
        "tensorboard": int(args.tensorboard),
    }
    return tuple((name, str(count)) for name, count in counts.items())


def options_of(args: argparse.Namespace) -> tuple[tuple[str, str], ...]:
    """The appConfig keys that the flags mean."""
    entry, words = args.script, args.passed
    if args.command:
        entry, words = args.command, [args.script.name, *args.passed]
    options = [
        ("site.global.user.scripts.entry", entry.name),
        ("site.global.user.scripts.args", shlex.join(words)),
    ]
    return (*options, *place_options(args))


def place_options(args: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """The appConfig keys of the flags that say in what a program runs, and on which port."""
    images = runs_images(args.engine)
    if args.image:
        if not images:
            yield "site.global.run.mode", "docker"
        yield "site.global.docker.image", args.image
    if images and args.command:
        yield "site.global.user.scripts.link", f"{SCRIPT_LINK}={args.script.name}"
    if images and args.pod_file:
        yield "site.global.kubernetes.pod.template", str(args.pod_file.absolute())
    if args.port:
        port = f"${{worker.ALLOCATED_PORT}}{{DEFAULT_{args.port}}}{{PER_CONTAINER}}"
        yield "site.global.worker.port", port


def _no_file(path: Path, cwd: Path) -> NotFoundError:
    if path.is_dir():
        hint = f"If it is a package: `tfapp create NAME --appdef {path}`."
        return NotFoundError(f"{path} is a folder, and not a script", hint)
    found, hint = nearby(path), ""
    if found:
        hint = f"Did you mean {found}?"
    elif not path.is_absolute():
        hint = f"The working folder is {cwd}."
    return NotFoundError(f"there is no file {path}", hint)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of instances")
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 1 << 16:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (1 to 65535)")
    return int(text)
