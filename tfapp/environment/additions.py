"""TensorFlow in an environment of packages: the one of this interpreter, unless they name one."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable

_TENSORFLOW = frozenset(
    {
        *("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tensorflow-cpu-aws", "tf-nightly"),
        *("tensorflow-intel", "tensorflow-macos", "tensorflow-rocm", "intel-tensorflow"),
        *("tf-nightly-cpu", "tensorflow-aarch64"),
    }
)
# What programs and TensorBoards of tfapp's own package use besides.
_BESIDE = ("tf-keras", "tensorboard")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*?(?=-\d|[^A-Za-z0-9._-]|$)")  # also of a wheel


def name_of(requirement: str) -> str:
    """The distribution that a requirement or the path of a wheel names, in its normal form."""
    matched = _NAME.match(requirement.partition("@")[0].rpartition("/")[2].strip())
    return re.sub(r"[-_.]+", "-", matched.group().lower()) if matched else ""


def tensorflow_for(
    requirements: Iterable[str], version_of: Callable[[str], str] | None = None
) -> tuple[str, ...]:
    """The requirements that add TensorFlow to others, in the versions that `version_of` gives, ""
    for a distribution that there is not; default: those of this interpreter. None are added to
    requirements that name a TensorFlow."""
    version_of = version_of or _installed
    named = set(map(name_of, requirements))
    if named & _TENSORFLOW:
        return ()
    ours = next((name for name in sorted(_TENSORFLOW) if version_of(name)), "")
    found = {name: version_of(name) for name in (ours, *_BESIDE) if name and name not in named}
    pinned = [f"{name}=={version}" for name, version in found.items() if version]
    return tuple(pinned if ours else ["tensorflow", *pinned])


def installed() -> tuple[str, ...]:
    """All distributions of this interpreter, "name==version", sorted."""
    metadata = importlib.import_module("importlib.metadata")  # slow to load
    return tuple(sorted({f"{d.metadata['Name']}=={d.version}" for d in metadata.distributions()}))


def _installed(name: str) -> str:
    metadata = importlib.import_module("importlib.metadata")
    try:
        return str(metadata.version(name))
    except metadata.PackageNotFoundError:
        return ""
