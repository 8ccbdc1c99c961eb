"""What a program uses of its machine."""

from __future__ import annotations

from tfapp.contract.encoding import Coded
from tfapp.frozen import frozen, replace

_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


@frozen
class Usage(Coded):
    """The use of one instance's program with all its processes, or of its container where that has
    a control group for itself. Memory: bytes that they share with no file, of a container with
    shared memory. Peaks and means: of the looks at it since its start, one at each heartbeat; from
    the coordinator on, of the programs before it, too, as are `seconds`, `read` and `written`."""

    seconds: float  # for which it was looked at
    cpu: float | None  # processors, on average since the look before; None: not known yet
    cpu_mean: float | None  # on average over `seconds`
    vcores: int  # that its container has asked for
    memory: int
    memory_peak: int
    memory_limit: int  # that its container has asked for
    read: int  # bytes, by calls of read: from disks, caches, pipes; 0 where nobody may look
    written: int  # bytes, the same
    gpu: float | None = None  # the sum of the parts of its GPUs that are busy; None: not known
    gpu_mean: float | None = None  # on average over the looks
    gpus: int = 0  # that its container has asked for
    gpu_memory: int = 0  # bytes on all its GPUs together
    gpu_memory_peak: int = 0
    gpu_memory_limit: int = 0  # 0: not known

    def after(self, before: Usage | None) -> Usage:
        """This, and that of the instance's programs `before`."""
        if before is None:
            return self

        def mean(now: float | None, then: float | None) -> float | None:
            if now is None or then is None or not self.seconds + before.seconds:
                return then if now is None else now
            parts = now * self.seconds, then * before.seconds
            return sum(parts) / (self.seconds + before.seconds)

        return replace(
            self,
            seconds=self.seconds + before.seconds,
            cpu_mean=mean(self.cpu_mean, before.cpu_mean),
            memory_peak=max(self.memory_peak, before.memory_peak),
            read=self.read + before.read,
            written=self.written + before.written,
            gpu_mean=mean(self.gpu_mean, before.gpu_mean),
            gpu_memory_peak=max(self.gpu_memory_peak, before.gpu_memory_peak),
        )

    @property
    def processor(self) -> str:
        """ "1.8 of 2"; "-" while it is not known."""
        return "-" if self.cpu is None else f"{self.cpu:.1f} of {self.vcores}"

    @property
    def memory_in_words(self) -> str:
        """ "1.5 GiB of 8.0 GiB, peak 2.1 GiB"."""
        return _memory(self.memory, self.memory_limit, self.memory_peak)

    @property
    def gpu_in_words(self) -> str:
        """ "0.9 of 1; 30.1 GiB of 80.0 GiB, peak 31.0 GiB"; "" where nothing is known."""
        if not self.gpu_memory_limit:
            return ""
        busy = "" if self.gpu is None else f"{self.gpu:.1f} of {self.gpus}; "
        return busy + _memory(self.gpu_memory, self.gpu_memory_limit, self.gpu_memory_peak)


def _memory(now: int, limit: int, peak: int) -> str:
    return f"{amount(now)}{f' of {amount(limit)}' if limit else ''}, peak {amount(peak)}"


def amount(count: int) -> str:
    """Bytes in words: "1.5 GiB", "12.0 KiB", "1 byte"."""
    for size, unit in _UNITS:
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return "1 byte" if count == 1 else f"{count} bytes"
