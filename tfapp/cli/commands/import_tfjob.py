"""Writes an app package from a TFJob of Kubeflow (kubeflow.org/v1): the replicas become components,
their images, commands, resources and variables keys of the package, and all else of their pods a
pod template beside it.

Each field that is not carried over, or that means something else here, is a warning at
file:line:column. docs/tfjob.md compares field by field.

  tfapp import-tfjob tfjob.yaml
  tfapp import-tfjob tfjob.yaml --out my-app
  tfapp create mine --appdef my-app --engine kubernetes
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from tfapp.cli.flags import file_path
from tfapp.cli.shell import Shell
from tfapp.errors import ExistsError, ExitCode, UnavailableError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", type=file_path, help="the manifest of a TFJob: YAML, or .json"
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=file_path,
        help="a folder that is new or empty (default: the name of the TFJob)",
    )


def run(args: argparse.Namespace, shell: Shell) -> int:
    from tfapp.compiler.options import application_stem
    from tfapp.contract.names import MAX_NAME
    from tfapp.package.load import load_package
    from tfapp.problems import has_errors, text_report
    from tfapp.tfjob import convert, read_manifest, safe_name, write

    imported = convert(read_manifest(args.file))
    folder = args.out or Path(safe_name(imported.name))
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise ExistsError(f"{folder} exists and is not an empty folder", "Choose another by --out.")
    try:
        write(imported, folder)
    except OSError as error:
        raise UnavailableError(f"{folder} cannot be written: {error.strerror}") from error
    found = load_package(folder).problems
    problems = (*imported.problems, *found)
    if problems:
        shell.print(text_report(problems))
    words = ["tfapp", "create", application_stem(imported.name)[:MAX_NAME], "--appdef", str(folder)]
    words += ["--engine", "kubernetes"]
    for flag in ("namespace", "queue"):
        words += [f"--{flag}", value] if (value := getattr(imported, flag)) else []
    shell.note(f"{folder} is ready; next: {shlex.join(words)}")
    return ExitCode.BAD_CONFIGURATION if has_errors(found) else ExitCode.SUCCESS
