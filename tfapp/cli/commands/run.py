"""Runs one training script on N workers, with tfapp's own TensorFlow package around it, and
follows it to its end as `tfapp create` does.

The script gets TF_CONFIG, WORKER_NUMBER and TOT_WORKERS; plain tf.distribute code needs nothing
else. --ps also adds a chief, which ParameterServerStrategy needs. Words after `--` are the
arguments of the script. --option, --resopt and the like set any other key of the package.

MODULE:FUNCTION, in place of a script, is a function in a module that is installed or in the working
folder. It may return a tfapp.Experiment or a tfapp.KerasExperiment. With --appdef, the components,
configuration and resources are those of another package.

-- COMMAND, without a script, runs a command that is there already, above all in the image: that is
`docker run IMAGE COMMAND` on N workers. With --image alone it is the image's own command, which a
Docker engine tells; on Kubernetes, write it.

The modules of your own that the program imports are shipped with it. The options from --memory to
--checkpoints are named as the arguments of `tfapp.run` in Python.

  tfapp run train.py -w 4 -- --epochs 10
  tfapp run train.py -w 4 --engine yarn --gpus 1 --memory "8 GiB" -e WANDB_MODE=offline
  tfapp run digits:experiment -w 2 --evaluator
  tfapp run -m digits.train --files data --packages "pandas, keras-cv"
  tfapp run train.py -w 2 -i tensorflow/tensorflow:2.20.0 --engine kubernetes --pod-file pod.yaml
  tfapp run -w 2 -i registry.example.org/team/digits:3 -- python /opt/digits.py --epochs 3
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tfapp.cli.commands.create import add_launch_flags, launch
from tfapp.cli.flags import (
    PACKAGE_HELP,
    add_override_flags,
    app_package,
    application_name,
    engine_options_of,
    file_or_folder,
    file_path,
    overrides_of,
)
from tfapp.cli.shell import Shell
from tfapp.engines import runs_images
from tfapp.errors import NotFoundError, UsageError
from tfapp.package.find import nearby

if TYPE_CHECKING:
    from tfapp.launch.submission import Request

SCRIPT_LINK = "/script/training-script.py"  # where TF-Spawner's entrypoints expect it
ARGS, COMMAND = "site.global.user.scripts.args", "site.global.user.scripts.command"
IMAGE = "tfapp:image"  # the image's own command
VOLUMES = "site.global.kubernetes.volumes"

_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*\Z")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = (
        "%(prog)s SCRIPT|MODULE:FUNCTION|-m MODULE [-w N] [--ps N] [options] [-- ARGS ...]\n"
        "       %(prog)s [-i IMAGE] [-w N] [--ps N] [options] [-- COMMAND ...]"
    )
    add_program_flags(parser)
    add_launch_flags(parser)


def add_program_flags(parser: argparse.ArgumentParser) -> None:
    """The program, its components and all else that a request is made of."""
    parser.set_defaults(passed=[], refuse=parser.error)
    parser.add_argument(
        "script",
        metavar="SCRIPT",
        type=file_path,
        nargs="?",
        help="the training script, or MODULE:FUNCTION",
    )
    parser.add_argument(
        "-m", "--module", metavar="MODULE", help="run this module, as `python -m` does"
    )
    parser.add_argument(
        "--appdef",
        metavar="DIR",
        type=app_package,
        help=f"{PACKAGE_HELP}, to use in place of tfapp's TensorFlow package; its resources set "
        "the numbers of instances",
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
    _add_call_flags(parser)
    parser.add_argument(
        "-e",
        "--env",
        metavar="NAME[=VALUE]",
        action="append",
        default=[],
        help="an environment variable of the program, by default with the value that it has here; "
        "or an ENVFILE; may be repeated",
    )
    parser.add_argument(
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
        type=file_or_folder,
        action="append",
        default=[],
        help="a file or folder to ship beside the script; of DIR/ the content; may be repeated",
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


def _add_call_flags(parser: argparse.ArgumentParser) -> None:
    """Flags with the names, and the meaning, of arguments of `tfapp.run` and `Component`."""
    for name, metavar, about in (
        ("memory", "SIZE", "memory of each instance of the program, such as '4 GiB'"),
        ("vcores", "N", "virtual cores of each instance of the program"),
        ("gpus", "N", "GPUs of each worker and of the chief"),
        ("python", "PYTHON", "an interpreter there, or a version for the environment of packages"),
        ("timeout", "T", "end it after so many seconds, or a time such as 12h"),
        ("data", "DIR", "the folder of the training data"),
        ("checkpoints", "DIR", "a folder that all instances see, for checkpoints"),
    ):
        parser.add_argument(f"--{name}", metavar=metavar, help=about)
    parser.add_argument(
        "--packages",
        metavar="REQUIREMENTS",
        action="append",
        default=[],
        help="packages that pip adds for the program, such as 'pandas, keras-cv<1'",
    )
    for name, about in (
        ("retries", "program failures that are survived (default: 3)"),
        ("losses", "lost containers and machines that are survived (default: 10)"),
    ):
        parser.add_argument(f"--{name}", metavar="N", type=_count, help=about)


def run(args: argparse.Namespace, shell: Shell) -> int:
    """Submits the package with the script, the module or the function in it."""
    program = program_of(args, shell)
    name = application_name(args.name) if args.name else _new_name(program, args)
    return launch(name, lambda: requested(name, program, args, shell), args, shell)


def program_of(args: argparse.Namespace, shell: Shell) -> str | Path | None:
    """A function's or a module's name, the absolute path of a script, or None for a command that is
    there. Ends the command where the flags name no program; NotFoundError, UsageError."""
    programs = [one for one in (args.script, args.module) if one is not None]
    if len(programs) > 1 or not (programs or args.passed or args.image):
        args.refuse("expected one program: SCRIPT, MODULE:FUNCTION, -m MODULE or -- COMMAND")
    named = args.module or (
        str(args.script) if _FUNCTION.match(str(args.script)) and not args.script.exists() else ""
    )
    script = None if named else args.script
    if script is not None and script.suffix == ".ipynb":
        raise UsageError(
            f"{script} is a notebook, and programs are files of Python",
            f"`jupyter nbconvert --to script {script}` writes {script.stem}.py; from the notebook "
            "itself, call tfapp.run.",
        )
    for path in filter(None, (script, args.command, args.pod_file)):
        if not path.is_file():
            raise _no_file(path, shell.cwd)
    if args.command and named:
        raise UsageError(f"--command is for a script, and {named} is none")
    if args.command and not programs:
        raise UsageError("--command is for a script, and there is none", "Write it behind --.")
    if ":" in named and args.passed:
        raise UsageError(f"{named} is a function: it takes no arguments", "Give it values by -e.")
    if args.pod_file and not runs_images(args.engine):
        shell.note(f"--pod-file is ignored: the engine {args.engine} has no pods")
    return named or (script.absolute() if script else None)


def _new_name(program: str | Path | None, args: argparse.Namespace) -> str:
    from tfapp.compiler.options import new_name

    return new_name(named_after(program, args))


def named_after(program: str | Path | None, args: argparse.Namespace) -> str:
    """What an application without a name is named after."""
    if isinstance(program, str):
        return re.split("[.:]", program)[-1]
    if program is None:  # the name of the image, without its registry and its tag
        return re.split("[:@]", Path(args.image or args.passed[0]).name)[0]
    return program.stem


@contextlib.contextmanager
def requested(
    name: str, program: str | Path | None, args: argparse.Namespace, shell: Shell
) -> Iterator[Request]:
    """The program of `program_of`, shipped with the modules that it imports."""
    from tfapp.api.request import packed, training_components
    from tfapp.launch.caller import shown
    from tfapp.launch.environments import Needs

    components = training_components(_appdef(args))
    if program is None:
        yield _request(name, "", components, args, shell)
        return
    with packed(program, components, shell) as (entry, files, needs):
        request = _request(name, entry, components, args, shell)
        called = program if isinstance(program, str) else shown(program, shell.cwd)
        if args.command:  # which may set up what the script needs
            needs, called = Needs(), ""
        yield dataclasses.replace(
            request,
            files={**files, **request.files},
            needs=needs,
            called=dict.fromkeys(components, called),
        )


def _variables(args: argparse.Namespace, shell: Shell) -> dict[str, str]:
    """The variables of --env-file, then of -e."""
    from tfapp.launch.env_file import read_env_file, read_variables

    found = read_env_file(args.env_file, "--env-file") if args.env_file else {}
    return {**found, **read_variables(args.env, "-e", shell.environ)}


def _request(
    name: str, entry: str, components: Mapping[str, str], args: argparse.Namespace, shell: Shell
) -> Request:
    """`entry`: the program's file, "" for a command. `components`: the role of each component that
    runs the program."""
    from tfapp.launch.env_file import read_env_file
    from tfapp.launch.submission import Request
    from tfapp.package.source import collect_user_files

    given = overrides_of(args)
    of_call = list(_call_options(args, shell))
    sizes = list(_sizes(args, components))
    places = {f"--option {key}": f"--{flag}" for flag, key, _ in of_call}
    places.update({f"--rescompopt {where} {key}": f"--{flag}" for flag, where, key, _ in sizes})
    programs = [path for path in (args.command, args.script) if path and path.is_file()]
    secrets = args.secret_env_file
    return Request(
        name=name,
        appdef=_appdef(args),
        overrides=dataclasses.replace(
            given,
            options=(
                *options_of(args, entry),
                *((key, text) for _, key, text in of_call),
                *given.options,
                *_script_volume(args),
            ),
            rescompopts=(*(row[1:] for row in sizes), *given.rescompopts),
            components=(*components_of(args), *given.components),
            max_restarts="" if args.retries is None else str(args.retries),
            max_losses="" if args.losses is None else str(args.losses),
            places={
                f"--option {ARGS}": "the arguments after --",
                f"--option {COMMAND}": "the command after --",
                **places,
                "--max-restarts": "--retries",
                "--max-losses": "--losses",
            },
        ),
        files=collect_user_files([*args.files, *programs], shell.note),
        # The built-in one has a sample, of a common name: the script may mean another module by it.
        programs=args.appdef is not None,
        engine_options=engine_options_of(args, shell),
        tags=tuple(dict.fromkeys(args.tag)),
        environment=_variables(args, shell),
        secret_environment=read_env_file(secrets, "--secret-env-file") if secrets else {},
    )


def _call_options(args: argparse.Namespace, shell: Shell) -> Iterator[tuple[str, str, str]]:
    """The flags that the Python call has too, the appConfig keys that they mean, and the values."""
    from tfapp.api.arguments import Call
    from tfapp.api.request import global_rows

    call = Call(
        packages=args.packages,
        python=args.python,
        image=args.image,
        checkpoints=args.checkpoints,
        data=args.data,
        timeout=args.timeout,
    )
    return global_rows(call, runs_images(args.engine), shell.cwd)


def _sizes(
    args: argparse.Namespace, components: Mapping[str, str]
) -> Iterator[tuple[str, str, str, str]]:
    """Flag, component, resources key and value of --memory, --vcores and --gpus."""
    from tfapp.api.request import RESOURCES

    for flag, key in RESOURCES.items():
        value = getattr(args, flag, None)
        for component, role in components.items():
            if value is not None and (flag != "gpus" or role in ("chief", "worker")):
                yield flag, component, key, value


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


def options_of(args: argparse.Namespace, entry: str) -> Iterator[tuple[str, str]]:
    """The appConfig keys of the program, of which `entry` is the file ("": a command is run), and
    of its port and pods."""
    words = args.passed
    if args.command:
        entry, words = args.command.name, [entry, *args.passed]
    if not entry:
        yield COMMAND, shlex.join(words) or IMAGE
    else:
        yield "site.global.user.scripts.entry", entry
        if words or args.script is not None:
            yield ARGS, shlex.join(words)
    images = runs_images(args.engine)
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
    if (cwd / f"{str(path).replace('.', '/')}.py").is_file():
        hint = f"`tfapp run -m {path}` runs this module."
    elif found:
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
