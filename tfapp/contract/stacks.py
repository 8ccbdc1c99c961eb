"""Where the programs of an application are: the stacks of their threads, and what is said of them.

A runner takes the stacks of its program when the key KEY_STACKS asks for them, and reports them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

from tfapp.contract.encoding import Coded, encode
from tfapp.frozen import frozen

# At this signal a Python of a program writes its stacks into its file of memory of this name: see
# tfapp.storage.startup, which has both too. A real-time signal, of which programs use none.
SIGNAL = 50
MEMORY_FILE = "tfapp-stacks"

MAX_REPORT = 16 * 1024  # bytes of the stacks of an instance
MAX_PLACE = 160  # characters of one place of a sentence
MAX_NAMED = 4  # places in one sentence, and instances in one place
LIMIT = 3.0  # seconds in which a runner has the stacks of its program
ASK_LIMIT = 10.0  # seconds for which a client waits for the stacks of all
END_LIMIT = 4.0  # seconds for which a coordinator waits for them, before it lets programs end


@frozen
class StacksRequest(Coded):
    """Asks the runners of `instances`, or all if that is empty, for stacks. `over`: none are waited
    for any more, and a program that was spared for them can end."""

    id: str
    instances: tuple[str, ...] = ()
    over: bool = False
    log: bool = False  # the stacks are written to the containers' logs as well


@frozen
class Frame(Coded):
    """A function in a stack. `file`: as short as is clear. `own`: neither Python's own, nor an
    installed package's, nor tfapp's."""

    function: str
    file: str
    line: int | None
    own: bool

    @property
    def name(self) -> str:
        """Of the function alone, of which py-spy tells the class too, for some."""
        return self.function.rpartition(".")[2]

    def __str__(self) -> str:
        return f"{self.function} at {self.file}:{'?' if self.line is None else self.line}"


@frozen
class ThreadStack(Coded):
    """The stack of a thread, the innermost function first. `name`: "" if it is not known."""

    frames: tuple[Frame, ...]
    name: str = ""

    @property
    def place(self) -> str:
        """Where it is in the user's code: the innermost line of that, and what it has called there
        where that is a name to go by. "" if none of it is the user's."""
        for number, frame in enumerate(self.frames):
            if frame.own:
                function = _called(self.frames[:number]) or frame.name
                return str(dataclasses.replace(frame, function=function))
        return ""


def _called(inner: Sequence[Frame]) -> str:
    """The library's function that the user's line has called: the outermost that does not only pass
    a call on."""
    for frame in reversed(inner):
        if not frame.file.endswith(("traceback_utils.py", "contextlib.py", "functools.py")):
            public = frame.name.isidentifier() and not frame.name.startswith("_")
            return frame.name if public and frame.name != "wrapper" else ""
    return ""


@frozen
class ProcessStacks(Coded):
    """A process of a program. `by`: "py-spy", or "handler", which is that of tfapp's part of the
    program. `why`: why it was not py-spy, or why there are no stacks. `state`: what else is known
    of it, such as that it waits for a disk."""

    pid: int
    command: str
    by: str = ""
    why: str = ""
    state: str = ""
    threads: tuple[ThreadStack, ...] = ()  # the main thread first, then those in the user's code

    @property
    def place(self) -> str:
        """Where it is in the user's code, "" if it is elsewhere, and its state."""
        has_main = bool(self.threads) and self.threads[0].name in ("", "MainThread")
        places = [*([] if has_main else [""]), *(thread.place for thread in self.threads)]
        main, others = "".join(places[:1]), dict.fromkeys(filter(None, places[1:]))
        found = [main, *(f"a thread in {place}" for place in others if place != main)]
        return ", ".join(part for part in (*found, self.state) if part)

    def by_thread(self) -> Iterator[tuple[str, tuple[Frame, ...]]]:
        """The name and the frames of each thread."""
        for number, thread in enumerate(self.threads):
            yield thread.name or ("a thread" if number else "main thread"), thread.frames


@frozen
class InstanceStacks(Coded):
    """The stacks of the program of an instance, for the request `id`. `why`: why there are none.
    `taken`: seconds since 1970 by the clock of its machine."""

    id: str
    instance: str
    container: str
    generation: int
    processes: tuple[ProcessStacks, ...] = ()
    why: str = ""
    troubles: tuple[str, ...] = ()  # of its machine, which may be why: "the disk of /tmp is full"
    taken: float = 0.0

    @property
    def place(self) -> str:
        """In a few words where its program is, after "is in"."""
        found = dict.fromkeys(process.place for process in self.processes if process.place)
        frames = (p.threads[0].frames for p in self.processes if p.threads)
        innermost = [str(found[0]) for found in frames if found]
        unknown = f"a place that is not known: {self.why}"
        text = "; ".join([*found][:2]) or "".join(innermost[:1]) or unknown
        text = text if len(text) <= MAX_PLACE else f"{text[: MAX_PLACE - 3]}..."
        troubles = "; ".join(self.troubles)[:MAX_PLACE]
        return f"{text} ({troubles})" if troubles else text

    def lines(self) -> Iterator[str]:
        """All of it, for a person."""
        yield from (f"{self.instance}: {trouble}" for trouble in self.troubles)
        for process in self.processes:
            state = f", {process.state}" if process.state else ""
            yield f"{self.instance}, process {process.pid}{state}: {process.command}"
            why = f" ({process.why})" if process.why else ""
            yield f"by {process.by}{why}" if process.by else f"no stacks{why}"
            for thread, frames in process.by_thread():
                yield f"  {thread}"
                yield from (f"    {frame}" for frame in frames)

    def fitting(self, limit: int = MAX_REPORT) -> InstanceStacks:
        """With as many frames, threads and processes as `limit` bytes of JSON take. What is left
        out is what is the farthest from where the program is."""
        found, frames, threads, processes = self, 64, 32, 8
        while True:
            found = dataclasses.replace(
                self,
                why=self.why[:400],
                troubles=tuple(text[:200] for text in self.troubles[:8]),
                processes=tuple(
                    dataclasses.replace(
                        process,
                        command=process.command[:200],
                        why=process.why[:200],
                        threads=tuple(
                            dataclasses.replace(thread, frames=_middle_out(thread.frames, frames))
                            for thread in process.threads[:threads]
                        ),
                    )
                    for process in self.processes[:processes]
                ),
            )
            if len(encode(found)) <= limit or (frames, threads, processes) == (2, 1, 1):
                return found
            if threads > 2:
                threads //= 2
            elif frames > 8:
                frames //= 2
            else:
                frames, threads, processes = 2, 1, max(processes // 2, 1)


def _middle_out(frames: tuple[Frame, ...], count: int) -> tuple[Frame, ...]:
    """At most about `count` of the frames: the innermost, and the user's innermost with what it has
    called."""
    if len(frames) <= count:
        return frames
    own = next((number for number, frame in enumerate(frames) if frame.own), 0)
    if own < count:
        return frames[:count]
    users = frames[own - 2 : own + 1]
    return (*frames[: max(count - len(users), 1)], *users)


@frozen
class Group(Coded):
    """Instances whose programs are at the same place."""

    place: str
    instances: tuple[str, ...]

    def in_words(self, total: int) -> str:
        """`total`: the instances in all groups."""
        count = len(self.instances)
        who = f"{self.instances[0]} is" if count == 1 else f"{count} of {total} are"
        return f"{who} in {self.place}"


@frozen
class Stacks:
    """The stacks of the programs of an application. `missing`: the instances that have not
    answered. `ended`: sentences on the peers that have ended, for which others may wait. As a text:
    "7 of 8 are in fit at train.py:41; worker/3 is in load at data.py:12"."""

    groups: tuple[Group, ...]
    instances: tuple[InstanceStacks, ...]
    missing: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "; ".join(filter(None, (in_words(self.groups), *self.ended[:MAX_NAMED])))


def grouped(places: Iterable[tuple[str, str]]) -> tuple[Group, ...]:
    """The (instance, place)s by place, the largest group first."""
    found: dict[str, list[str]] = {}
    for instance, place in places:
        found.setdefault(place, []).append(instance)
    groups = [Group(place, tuple(instances)) for place, instances in found.items()]
    return tuple(sorted(groups, key=lambda group: -len(group.instances)))


def in_words(groups: Sequence[Group]) -> str:
    """ "7 of 8 are in fit at train.py:41; worker/3 is in load at data.py:12"; "" without any."""
    total = sum(len(group.instances) for group in groups)
    said = [group.in_words(total) for group in groups[:MAX_NAMED]]
    if len(groups) > MAX_NAMED:
        said.append(f"{sum(len(g.instances) for g in groups[MAX_NAMED:])} are elsewhere")
    return "; ".join(said)
