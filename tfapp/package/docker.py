"""Reads mounts and options of Docker containers, as a package has them in text. Pure."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tfapp.contract.job import Mount
from tfapp.package.amounts import size

READ_ONLY, READ_WRITE = "ro", "rw"

CLOSE_THE_QUOTE = "close the quote; before one that is meant as it stands, put a backslash"

_BYTES = re.compile(r"([kmgt])i?b\Z", re.IGNORECASE)
_LIMIT = re.compile(r"([a-z]+)=(-?[0-9]+)(?::(-?[0-9]+))?\Z")
_CAPABILITY = re.compile(r"[A-Z_]+\Z")
# A path for Docker's driver cgroupfs, a slice for its driver systemd.
_GROUP = re.compile(r"(/[A-Za-z0-9_.@-]+)+\Z|[A-Za-z0-9_.@-]+\.slice\Z")
_IPC = ("host", "private")

# Options of `docker run` that have another place here, and which.
_ELSEWHERE = {
    **dict.fromkeys(("-v", "--volume", "--mount"), "declare it in 'mounts'"),
    **dict.fromkeys(("-e", "--env", "--env-file"), "set env.NAME in appConfig"),
    **dict.fromkeys(("-m", "--memory"), "it is yarn.memory of the resources"),
    **dict.fromkeys(("-c", "--cpus", "--cpu-shares"), "it is yarn.vcores of the resources"),
    "--gpus": "it is yarn.gpus of the resources",
    **dict.fromkeys(
        ("-p", "--publish", "--net", "--network"),
        "the container shares the machine's network, and so its ports",
    ),
    **dict.fromkeys(("-u", "--user"), "programs run as the submitting user"),
    **dict.fromkeys(("-w", "--workdir"), "the package's script gives the folder (Program.cwd)"),
    "--entrypoint": "the package's script gives the whole command (Program.argv)",
    **dict.fromkeys(
        ("--privileged", "--cap-add", "--device", "--pid", "--security-opt", "--userns"),
        "a program gets no more rights than its user has",
    ),
}


class DockerError(Exception):
    """A text that cannot be used; `hint` says what to do."""

    def __init__(self, message: str, hint: str = ""):
        super().__init__(message)
        self.message = message
        self.hint = hint


def parse_mounts(text: str) -> tuple[Mount, ...]:
    """ "/data, /models:/m:ro" -> the mounts. DockerError for a wrong one."""
    words = [word.strip() for word in text.split(",")]
    return tuple(_mount(word) for word in words if word)


def declared_mount(written: Mapping[str, Any]) -> Mount:
    """One of metainfo's `mounts`. DockerError for wrong paths."""
    mount = Mount(
        written["hostMount"], written["containerMount"], bool(written.get("readOnly", False))
    )
    _check(mount, f"{mount.source} at {mount.target}")
    return mount


def parse_options(text: str) -> dict[str, Any]:
    """Options as `docker run` takes them -> fields of the class Docker. DockerError for an option
    that is not supported."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        message = f"the options cannot be split into words: {error}"
        raise DockerError(message, CLOSE_THE_QUOTE) from None
    fields: dict[str, Any] = {}
    for name, value in _pairs(words):
        field, read = _OPTIONS[name]
        found = read(name, value)
        if isinstance(found, dict):
            fields[field] = {**fields.get(field, {}), **found}
        elif isinstance(found, tuple):
            fields[field] = (*fields.get(field, ()), *found)
        else:
            fields[field] = found
    return fields


def _pairs(words: list[str]) -> Iterator[tuple[str, str]]:
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if name not in _OPTIONS:
            supported = ", ".join(_OPTIONS)
            hint = _ELSEWHERE.get(name, f"the options that can be given are {supported}")
            raise DockerError(f"the option {name} is not supported", hint)
        if not equals:
            value = next(rest, "")
        if not value:
            raise DockerError(f"the option {name} needs a value", f"write {name} VALUE")
        yield name, value


def _size(name: str, value: str) -> int:
    """Bytes, as `docker run` counts them: KB, MB ... are 1024 at each step there."""
    try:
        found = size(_BYTES.sub(r"\1", value))
    except ValueError:
        found = 0
    if not found:
        raise DockerError(f"{name}: {value!r} is no size", "write it as in --shm-size 2g")
    return found


def _ipc(name: str, value: str) -> str:
    if value not in _IPC:
        raise DockerError(f"{name}: {value!r} is not supported", f"it is {' or '.join(_IPC)}")
    return value


def _ulimit(name: str, value: str) -> dict[str, tuple[int, int]]:
    match = _LIMIT.match(value)
    if match is None:
        raise DockerError(
            f"{name}: {value!r} is no limit", "write it as in --ulimit nofile=1024:4096"
        )
    soft = int(match[2])
    return {match[1]: (soft, int(match[3]) if match[3] else soft)}


def _tmpfs(name: str, value: str) -> dict[str, str]:
    path, _, options = value.partition(":")
    _check(Mount("/", path), f"{name} {value}", target_only=True)
    return {path: options}


def _capability(name: str, value: str) -> tuple[str, ...]:
    if not _CAPABILITY.match(value):
        raise DockerError(f"{name}: {value!r} is no capability", "write it as in --cap-drop ALL")
    return (value,)


def _group(name: str, value: str) -> str:
    if not _GROUP.match(value) or ".." in value.split("/"):
        raise DockerError(
            f"{name}: {value!r} is no control group", "write it as in --cgroup-parent /hadoop-yarn"
        )
    return value


_OPTIONS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "--shm-size": ("shm_size", _size),
    "--ipc": ("ipc", _ipc),
    "--ulimit": ("ulimits", _ulimit),
    "--tmpfs": ("tmpfs", _tmpfs),
    "--cap-drop": ("cap_drop", _capability),
    "--cgroup-parent": ("cgroup_parent", _group),
}


def _mount(word: str) -> Mount:
    source, _, rest = word.partition(":")
    target, _, mode = rest.partition(":")
    if target in (READ_ONLY, READ_WRITE) and not mode:
        target, mode = "", target
    if mode not in ("", READ_ONLY, READ_WRITE):
        raise DockerError(
            f"{word!r} is no mount", "write HOST, HOST:CONTAINER or HOST:CONTAINER:ro"
        )
    mount = Mount(source, target or source, mode == READ_ONLY)
    _check(mount, repr(word))
    return mount


def _check(mount: Mount, word: str, target_only: bool = False) -> None:
    paths = (mount.target,) if target_only else (mount.source, mount.target)
    for path in paths:
        # A placeholder may bring the beginning.
        if not path.startswith(("/", "${")):
            message = f"{word} is no mount: {path!r} is not an absolute path"
            raise DockerError(message, "write the whole path, beginning with /")
        if ".." in path.split("/"):
            raise DockerError(f"{word} is no mount: {path!r} holds '..'", "write it without '..'")
    if not target_only and posixpath.normpath(mount.source) == "/":
        raise DockerError(
            f"{word} would give the program the whole machine", "mount the folders that it needs"
        )
    if posixpath.normpath(mount.target) == "/":
        raise DockerError(f"{word} would hide the image", "mount it below / in the container")
