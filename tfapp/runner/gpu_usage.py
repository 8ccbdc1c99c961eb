"""What the GPUs of a container do, by NVIDIA's management library (NVML), where the package
nvidia-ml-py and a driver are there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_ALL = frozenset(("", "all"))  # of NVIDIA_VISIBLE_DEVICES; "void" and "none" are no devices


class GpuLook(NamedTuple):
    """`busy`: the sum over the GPUs of the part of the time in which each has computed of late, 0
    to 1; None where none tells, as a part of a GPU (MIG). Memory: bytes of all together."""

    busy: float | None
    memory: int
    memory_limit: int


class GpuMeter:
    """The GPUs that the container of a runner with the environment `environ` was given. Where there
    is no library or no driver, there are none."""

    def __init__(self, environ: Mapping[str, str]):
        self._library, self._gpus = None, []
        with contextlib.suppress(ImportError):
            import pynvml

            with contextlib.suppress(pynvml.NVMLError):
                pynvml.nvmlInit()
                self._library = pynvml
                self._gpus = list(_given(pynvml, environ))

    def look(self) -> GpuLook | None:
        """What they do now; None where there are none."""
        looks = [one for gpu in self._gpus if (one := self._look(gpu)) is not None]
        if not looks:
            return None
        busy = [one.busy for one in looks if one.busy is not None]
        memory, limit = (sum(getattr(one, name) for one in looks) for name in GpuLook._fields[1:])
        return GpuLook(sum(busy) if busy else None, memory, limit)

    def _look(self, gpu: Any) -> GpuLook | None:
        library: Any = self._library
        try:
            found = library.nvmlDeviceGetMemoryInfo(gpu)
        except library.NVMLError:  # it has fallen off the bus
            return None
        busy = None
        with contextlib.suppress(library.NVMLError):
            busy = library.nvmlDeviceGetUtilizationRates(gpu).gpu / 100
        return GpuLook(busy, found.used, found.total)


def _given(library: Any, environ: Mapping[str, str]) -> Iterator[Any]:
    """The devices that the environment names, or else all."""
    named = (environ.get(name) for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"))
    given = next((text for text in named if text is not None), "all")
    if given in _ALL:
        yield from map(library.nvmlDeviceGetHandleByIndex, range(library.nvmlDeviceGetCount()))
        return
    for word in map(str.strip, given.split(",")):
        with contextlib.suppress(library.NVMLError):
            if word.isdigit():
                yield library.nvmlDeviceGetHandleByIndex(int(word))
            else:
                yield library.nvmlDeviceGetHandleByUUID(word)
