"""The images of the tests' pods, made within a second.

TensorFlow has 1.8 GB. So every container has the site-packages of the tests' own Python in a
folder, read-only (`Cluster.start(folders=...)`), and an image has links into it. An image without
links does not see what is there."""

from __future__ import annotations

import importlib.metadata
import re
import sys
import sysconfig
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kubernetes_cluster.images import PYTHON, Image, python_image, write_programs
from kubernetes_cluster.processes import UnavailableError

TENSORFLOW = "localhost/tfapp/tensorflow:1"
GRPC = "localhost/tfapp/grpc:1"  # the least that a program of tfapp's needs
BARE = PYTHON  # Debian's Python alone
SHELL = "localhost/tfapp/shell:1"  # no Python

# With all that they require. The example packages train on scikit-learn's digits.
_DISTRIBUTIONS = {
    TENSORFLOW: ("tensorflow", "tf-keras", "tensorboard", "scikit-learn", "pyarrow"),
    GRPC: ("grpcio", "protobuf"),
}
_PLACE = "/opt/tfapp-tests/site-packages"
FOLDERS = {_PLACE: Path(sysconfig.get_path("purelib"))}


def make(cache: Path, scratch: Path, environ: Mapping[str, str]) -> list[Image]:
    """All four. Their layers are in `cache` and `scratch`. UnavailableError where Debian's Python
    is of another version than that of the tests: TensorFlow is compiled for one."""
    bare = python_image(cache, environ)
    [debian] = bare.layers
    made = [bare]
    for name, distributions in _DISTRIBUTIONS.items():
        layer = scratch / f"{len(made)}.tar"
        _write_links(layer, debian, distributions)
        made.append(Image(name, (debian, layer), bare.config))
    write_programs(scratch / "shell.tar", "sh", "cat", "sleep")
    return [*made, Image(SHELL, (scratch / "shell.tar",), {"Cmd": ["/bin/sh"]})]


def _write_links(layer: Path, debian: Path, names: Sequence[str]) -> None:
    """A tar of links to distributions, and to all that they require."""
    version = "{}.{}".format(*sys.version_info)
    with tarfile.open(debian) as tar:
        link = next(member for member in tar if member.name == "./usr/bin/python3")
    if link.linkname != f"python{version}":
        raise UnavailableError(
            f"the tests run in Python {version}, and Debian's is {link.linkname}: there is no "
            "image with the TensorFlow of the tests"
        )
    with tarfile.open(layer, "w") as tar:
        for name in sorted(set(_entries(names))):
            member = tarfile.TarInfo(f"usr/local/lib/python{version}/dist-packages/{name}")
            member.type = tarfile.SYMTYPE
            member.linkname = f"{_PLACE}/{name}"
            tar.addfile(member)


def _entries(names: Sequence[str]) -> Iterator[str]:
    """Files and folders that the distributions have in site-packages."""
    for distribution in _closure(names):
        for file in distribution.files or ():
            if file.parts[0] not in ("..", "__pycache__"):  # commands are in ..
                yield file.parts[0]


def _closure(names: Sequence[str]) -> Iterator[importlib.metadata.Distribution]:
    """Each once."""
    left, seen = list(names), set()
    while left:
        name = re.sub(r"[-_.]+", "-", left.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # it is for another system, or another Python
        yield found
        # What an extra requires is not required.
        required = [text for text in found.requires or () if "extra ==" not in text]
        left += re.findall(r"^[\w.-]+", "\n".join(required), re.MULTILINE)
