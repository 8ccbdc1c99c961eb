"""A profile: what the programs of an application do in the same few seconds, as TensorFlow's
profiler traces it.

A runner lets its program make a trace when the key KEY_PROFILE asks for one, and tells where it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from tfapp.contract.encoding import Coded
from tfapp.frozen import frozen

# A Python of a program that imports TensorFlow names a pipe in its file of memory of this name, in
# which it takes requests, and answers there: see tfapp.storage.startup, which has the name too.
MEMORY_FILE = "tfapp-profiles"
FOLDER = "plugins/profile"  # below the folder that TensorBoard shows, with a folder for each run
SUFFIX = ".xplane.pb"  # ends the name of a trace there

SECONDS = 5.0  # seconds that a trace takes, unless others are asked for
MAX_SECONDS = 60.0
# Seconds after a trace in which it is written; some 100 MB to a file system far away.
WRITE_LIMIT = 60.0


@frozen
class ProfileRequest(Coded):
    """Asks the runners of `instances`, or all if that is empty, for traces of `seconds` seconds.
    `run`: the name of the folder for the traces of all."""

    id: str
    run: str
    seconds: float
    instances: tuple[str, ...] = ()


@frozen
class InstanceProfile(Coded):
    """The traces of the program of an instance, one for each of its processes that uses TensorFlow.
    `files`: their paths or URLs, as the program names them. `bytes`: their size. `why`: why there
    are none, or fewer."""

    id: str
    instance: str
    files: tuple[str, ...] = ()
    bytes: int = 0
    why: str = ""


@frozen
class Profile:
    """The traces of an application. `run`: their name in TensorBoard. `missing`: the instances that
    have not answered."""

    run: str
    instances: tuple[InstanceProfile, ...]
    missing: tuple[str, ...] = ()

    @property
    def folders(self) -> tuple[str, ...]:
        """Where the traces are."""
        found = (file.rpartition("/")[0] for one in self.instances for file in one.files)
        return tuple(dict.fromkeys(found))

    def lines(self, name: str) -> Iterator[str]:
        """All of it, for a person. `name`: of the application."""
        for one in self.instances:
            for file in one.files:
                yield f"{one.instance}  {file}"
            if one.why:
                lacks = "not all traces" if one.files else "no trace"
                yield f"{one.instance} has {lacks}: {one.why}"
        for missing in self.missing:
            yield f"{missing} has not answered"
        if self.folders:
            yield f"`tfapp tensorboard {name}` shows them on the page Profile, as {self.run}"

    def __str__(self) -> str:
        made = [one for one in self.instances if one.files]
        place = " and ".join(self.folders)
        return f"{len(made)} of {len(self.instances) + len(self.missing)} traced" + (
            f": {place}" if place else ""
        )
