"""The engines that run applications. A new engine is a folder here and a line in ENGINES."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tfapp.errors import UsageError

if TYPE_CHECKING:
    from tfapp.engines.base import Engine

# Name on the command line -> module, which has `open_engine(home, environ) -> Engine` and
# DEFINITIONS: where the engine keeps what its applications are, a pattern below TFAPP_HOME. It may
# have OPTIONS too: its own flags; `open_engine` takes the values of those with `place` by name.
# IMAGES = True: its containers are images, so that an image needs no run mode docker.
# `require(environ)`: see below.
ENGINES: dict[str, str] = {
    "kubernetes": "tfapp.engines.kubernetes",
    "local": "tfapp.engines.local",
    "spark": "tfapp.engines.spark",
    "yarn": "tfapp.engines.yarn",
}
DEFAULT_ENGINE = "local"  # of users who have set none: see tfapp.launch.defaults
ENGINE_VARIABLE = "TFAPP_ENGINE"


class EngineOption(NamedTuple):
    """A flag that an engine adds to the commands that compile, launch or examine. Its value is
    passed in the field of this name of CompileOptions, and to `Engine.examine`. An option with
    `place` says where the applications of the engine are: all commands have it, and only
    `open_engine` gets its value. `short`: the letter on the command line, or ""."""

    name: str
    default: str
    help: str
    place: bool = False
    short: str = ""


def engine_options(*names: str) -> Iterator[EngineOption]:
    """The flags of the engines `names`; default: of all."""
    for name in names or ENGINES:
        yield from getattr(importlib.import_module(ENGINES[name]), "OPTIONS", ())


def runs_images(name: str) -> bool:
    """Whether the containers of the engine `name` are made from images. UsageError for an unknown
    engine."""
    check_engine(name)
    return getattr(importlib.import_module(ENGINES[name]), "IMAGES", False)


def require(name: str, environ: Mapping[str, str]) -> None:
    """UnavailableError if this machine lacks what the engine `name` cannot do without. It asks no
    cluster and loads no library: `Engine.examine` does."""
    getattr(importlib.import_module(ENGINES[name]), "require", lambda _: None)(environ)


def check_engine(name: str, said_by: str = "") -> None:
    """UsageError for an unknown engine `name`. `said_by`: where the name comes from, such as
    "TFAPP_ENGINE"."""
    if name not in ENGINES:
        place = f"{said_by}: " if said_by else ""
        known = ", ".join(sorted(ENGINES))
        raise UsageError(f"{place}there is no engine {name!r}", f"Engines: {known}.")


def open_engine(
    name: str,
    home: Path,
    environ: Mapping[str, str],
    places: Mapping[str, str] | None = None,
) -> Engine:
    """Opens the engine `name`, with its state under `home`. `places`: values of its options with
    `place`, by name; others have their defaults. UsageError for an unknown engine."""
    check_engine(name)
    given = {**{o.name: o.default for o in engine_options(name) if o.place}, **(places or {})}
    return importlib.import_module(ENGINES[name]).open_engine(home, environ, **given)
