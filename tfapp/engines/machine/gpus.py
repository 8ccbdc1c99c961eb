"""Finds the GPUs of this machine, and locks those that an application uses."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from tfapp import tools
from tfapp.disk import lock_file
from tfapp.errors import UnavailableError

_QUERY_DEADLINE = 30.0  # seconds; the driver may have to wake the devices up


def visible_gpus(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The ids of the GPUs that the submitting user may use: those in CUDA_VISIBLE_DEVICES if it is
    set, or else all that nvidia-smi lists."""
    chosen = environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return _chosen(chosen)
    tool = shutil.which("nvidia-smi", path=environ.get("PATH"))
    if tool is None:
        return ()
    try:
        return parse_listing(tools.output([tool, "-L"], environ, _QUERY_DEADLINE))
    except tools.ToolError:
        return ()


def _chosen(text: str) -> tuple[str, ...]:
    """The ids in CUDA_VISIBLE_DEVICES. CUDA reads the list up to the first invalid id, such as
    -1."""
    found: list[str] = []
    for word in (word.strip() for word in text.split(",")):
        if not word or word.startswith("-") or word in found:
            break
        found.append(word)
    return tuple(found)


def parse_listing(text: str) -> tuple[str, ...]:
    """The ids in the output of `nvidia-smi -L`. A partitioned GPU is replaced by its partitions,
    because CUDA cannot use it as a whole. Numbers are not used: CUDA counts in another order."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        match = re.search(r"\(UUID:\s*(\S+?)\)", line)
        if match is None:
            continue
        if line.lstrip().startswith("MIG") and found:
            found[-1][1].append(match[1])
        else:
            found.append((match[1], []))
    return tuple(id for gpu, parts in found for id in (parts or [gpu]))


def check_enough(needed: int, gpus: Iterable[str]) -> None:
    """UnavailableError if this machine has fewer than `needed` GPUs."""
    found = len(tuple(gpus))
    if needed > found:
        raise UnavailableError(
            f"the application asks for {count(needed)} and this machine has {found or 'none'}",
            "Ask for fewer with yarn.gpus or yarn.component.instances in resources.",
        )


def take_free(
    locks: Path, gpus: Iterable[str], most: int, stack: contextlib.ExitStack
) -> dict[str, int]:
    """Locks at most `most` of `gpus` that no application of this user uses, until `stack` is closed
    or this process ends, and the descriptor of each lock is closed elsewhere, too."""
    taken: dict[str, int] = {}
    for gpu in gpus:
        if len(taken) >= most:
            break
        lock = lock_file(locks / re.sub(r"[^A-Za-z0-9_.-]", "_", gpu))
        if lock is not None:
            stack.callback(os.close, lock)
            taken[gpu] = lock
    return taken


def hold(
    locks: Path, gpus: Iterable[str], needed: int, stack: contextlib.ExitStack, most: int = 0
) -> dict[str, int]:
    """As `take_free`, `most` or `needed` of them. UnavailableError if there are fewer than
    `needed`."""
    candidates = tuple(gpus)
    taken = take_free(locks, candidates, max(needed, most), stack)
    if len(taken) < needed:
        raise UnavailableError(
            f"the application asks for {count(needed)}; of this machine's {len(candidates)} only "
            f"{len(taken) or 'none'} is free, the others are in use by other applications",
            "`tfapp list` shows them; wait for their end or stop one.",
        )
    return taken


def count(number: int) -> str:
    return f"{number} GPU{'' if number == 1 else 's'}"


class GpuPool:
    """The GPUs of a run that no container uses at present. `more(n)` takes up to n others that have
    become free on the machine."""

    def __init__(self, gpus: Iterable[str], more: Callable[[int], Iterable[str]] = lambda _: ()):
        self._free = list(gpus)
        self._more = more

    def take(self, number: int) -> tuple[str, ...] | None:
        """`number` GPUs; None if there are too few at present."""
        if number > len(self._free):
            self._free.extend(self._more(number - len(self._free)))
        if number > len(self._free):
            return None
        taken, self._free = self._free[:number], self._free[number:]
        return tuple(taken)

    def give_back(self, gpus: Iterable[str]) -> None:
        self._free.extend(gpus)
