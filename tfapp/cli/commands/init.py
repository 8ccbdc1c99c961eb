"""Creates an app package in the folder DIR: a copy of tfapp's TensorFlow package, or of another
that `tfapp packages` lists, under a name of its own, with a small program in files/. It is valid
and runs as it is.

  tfapp init my-app
  tfapp init my-app --package keras-jax
  tfapp create mine --appdef my-app
"""

from __future__ import annotations

import argparse
import re
import shutil
from pathlib import Path

from tfapp.cli.flags import file_path
from tfapp.cli.shell import Shell
from tfapp.errors import ExistsError, UnavailableError, UsageError
from tfapp.package.safety import SCHEMAS
from tfapp.schema import KINDS
from tfapp.shipped import app_packages, schemas_dir

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*\Z")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dir", metavar="DIR", type=file_path, help="a folder that is new or empty")
    parser.add_argument(
        "--package",
        metavar="PACKAGE",
        choices=app_packages(),
        default="tensorflow",
        help="the package to copy (default: %(default)s)",
    )
    parser.add_argument("--name", help="the package's name (default: the name of DIR)")


def run(args: argparse.Namespace, shell: Shell) -> None:
    name = args.name or args.dir.resolve().name
    if not _NAME.match(name):
        raise UsageError(
            f"{name!r} cannot be a package's application name",
            "Give one with --name: a letter, then letters, digits, '_', '.' and '-'.",
        )
    if args.dir.exists() and not (args.dir.is_dir() and not any(args.dir.iterdir())):
        raise ExistsError(f"{args.dir} exists and is not an empty folder", "Choose another one.")
    try:
        make_package(args.dir, name, args.package)
    except OSError as error:
        raise UnavailableError(f"{args.dir} cannot be written: {error.strerror}") from error
    shell.note(f"{args.dir} is ready; next: tfapp create {_example(name)} --appdef {args.dir}")


def make_package(folder: Path, name: str, package: str) -> None:
    """Copies the shipped `package` to `folder` and names its application `name`."""
    source = app_packages()[package]
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(source, folder, ignore=ignore, dirs_exist_ok=True)
    # For editors, which look for them from a document's own place, also after a copy or a move.
    (folder / SCHEMAS).mkdir()
    for kind in KINDS:
        shutil.copy(schemas_dir() / f"{kind}.schema.json", folder / SCHEMAS)
    for document in folder.glob("*.yaml"):
        text = document.read_text(encoding="utf-8")
        text = text.replace("$schema=../../schemas", f"$schema={SCHEMAS}")
        if document.stem == "metainfo":
            text = re.sub(r"(?m)^(  name:) .*$", rf"\1 {name}", text, count=1)
        document.write_text(text, encoding="utf-8")


def _example(name: str) -> str:
    lowered = re.sub(r"[^a-z0-9_-]+", "-", name.lower())
    return lowered if lowered[:1].isalpha() else "my-app"
