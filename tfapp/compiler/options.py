"""The options of a compilation."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tfapp.compiler.credentials import is_free_name
from tfapp.compiler.plan import Plan
from tfapp.contract.job import Limits
from tfapp.contract.names import MAX_NAME, NAME_PATTERN
from tfapp.errors import UnavailableError, UsageError
from tfapp.frozen import frozen
from tfapp.problems import Problem

if TYPE_CHECKING:
    import skein

# Skein cuts a file's path at these, and line breaks vanish in it.
_CUT = re.compile(r"[#?\x00-\x1f\x7f]")


@frozen
class CompileOptions:
    """Everything about a submission that the package does not say.

    `python` is the interpreter of programs and of tfapp's own part of the containers where nothing
    else is configured, `python_runs` whether it runs tfapp at this moment where the containers
    will be, so that nothing else has to run tfapp's part; `python_archive` the archive that was
    made of the packages that appConfig names; `storage` that of the packages by which programs open
    URLs; `cache` the absolute folder of what is shipped;
    `place` the URL of a folder where containers find the archives of it, "" where they see the
    cache; `maximum` what "max" memory (MiB) and vcores mean on the engine; `secrets` the
    value of each credential by alias; `environment` what environment files set, and
    `secret_environment` what those set that are declared secret; `runtime` the files of tfapp
    that travel along, by default those of this installation, and `small` whether their archive is
    compressed; `private_key` goes into the name of
    the private file; `settle` is how long, in seconds, a failure waits for the loss that caused
    it; `container_grace` what a container has between SIGTERM and SIGKILL where the engine gives
    less than `site.global.stop.grace`; `owner` the certificate of who may open sessions beside
    programs, in PEM, and `sessions` whether that is on where nothing is configured; `nodes` the
    engine's module that the coordinator asks of containers, or none (see
    tfapp.coordinator.nodes); `class_path` that of Hadoop in containers (see
    tfapp.runner.context); `check` finds what of the application the engine cannot give;
    `adapt` adds to the specification what those who take it need; `called` the user's own name for
    the program of a component, `given` the options, and `commit` the program's commit, all for
    people to read.
    """

    name: str
    user: str
    python: str
    cache: Path
    queue: str = "default"
    tags: tuple[str, ...] = ()
    called: Mapping[str, str] = dataclasses.field(default_factory=dict)
    given: tuple[str, ...] = ()
    commit: str = ""
    maximum: Mapping[str, int] = dataclasses.field(default_factory=dict)
    secrets: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    secret_environment: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    runtime: tuple[tuple[str, bytes], ...] | None = dataclasses.field(default=None, repr=False)
    small: bool = False
    private_key: bytes = dataclasses.field(default=b"", repr=False)
    settle: float = Limits.settle
    container_grace: float = Limits.container_grace
    owner: str = ""
    sessions: bool = False
    nodes: str = ""
    class_path: str = ""
    place: str = ""
    python_runs: bool = False
    python_archive: Path | None = None
    storage: Path | None = None
    check: Callable[[Plan], Iterable[Problem]] | None = None
    adapt: Callable[[skein.ApplicationSpec, Plan, CompileOptions], None] | None = None

    @property
    def environments(self) -> Path:
        """The folder for Python environments that are made or unpacked."""
        return self.cache / "environments"


def check_options(options: CompileOptions) -> None:
    """UsageError for a wrong name or variable; UnavailableError for a cache folder whose path
    Skein would misread; ValueError for secrets without a private key."""
    check_name(options.name)
    environment = {**options.environment, **options.secret_environment}
    for name, value in environment.items():
        if not is_free_name(name) or "\0" in value:
            raise UsageError(
                f"the environment variable {name!r} cannot be set",
                "A name has letters, digits and _, and is not one that tfapp or the cluster sets.",
            )
    _check_cache(options.cache)
    if (options.secrets or environment) and not options.private_key:
        raise ValueError("secrets need a private_key: a plain hash of them would be public")


def check_name(name: str) -> None:
    """UsageError unless `name` can be the name of an application."""
    if not NAME_PATTERN.match(name):
        raise UsageError(
            f"{name!r} cannot be the name of an application",
            "A name begins with a lower-case letter; then come letters, digits, '_' and '-', "
            f"all lower case, {MAX_NAME} characters at most.",
        )


def new_name(text: str) -> str:
    """A new name for an application, which begins with `text`: "train-4f1a"."""
    return f"{application_stem(text)[: MAX_NAME - 5]}-{os.urandom(2).hex()}"


def application_stem(text: str) -> str:
    """`text` as an application's name, which may be too long: "my.Train" -> "my-train"."""
    stem = re.sub(r"[^a-z0-9_-]+", "-", text.lower()).strip("-_")
    return stem if stem[:1].isalpha() else f"run-{stem}".rstrip("-")


def _check_cache(cache: Path) -> None:
    text = str(cache)
    if text.startswith("~"):
        problem = "starts with '~', which Skein does not expand"
    elif not cache.is_absolute():
        problem = "is relative, and Skein reads paths from a folder of its own"
    elif cut := _CUT.search(text):
        problem = f"holds {cut.group()!r}, where Skein would cut it"
    elif "," in text:
        problem = "holds ',', where containers cut the list of their folders (LOCAL_DIRS)"
    elif not _is_utf8(text):
        problem = "is not UTF-8"
    else:
        return
    raise UnavailableError(f"the path {text!r} {problem}", "Set TFAPP_HOME to another folder.")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
