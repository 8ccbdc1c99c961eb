"""The engines that run applications. A new engine is one folder here and one line in ENGINES."""

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
ENGINES: dict[str, str] = {
    "kubernetes": "tfapp.engines.kubernetes",
    "local": "tfapp.engines.local",
    "spark": "tfapp.engines.spark",
    "yarn": "tfapp.engines.yarn",
}
DEFAULT_ENGINE = "local"  # of users who have set none: see tfapp.launch.defaults
ENGINE_VARIABLE = "TFAPP_ENGINE"


class EngineOption(NamedTuple):
    """A flag that an engine adds to the commands that compile, launch or examine. Its value reaches
    the engine as the field of this name in CompileOptions, and by `Engine.examine`. With `place` it
    says where the engine's applications are: all commands have it, and its value reaches
    `open_engine` alone. `short`: its letter on the command line, or ""."""

    name: str
    default: str
    help: str
    place: bool = False
    short: str = ""


def engine_options(*names: str) -> Iterator[EngineOption]:
    """The flags of the engines `names`, by default of all."""
    for name in names or ENGINES:
        yield from getattr(importlib.import_module(ENGINES[name]), "OPTIONS", ())


def runs_images(name: str) -> bool:
    """Whether the containers of the engine `name` are images. UsageError when there is none."""
    check_engine(name)
    return getattr(importlib.import_module(ENGINES[name]), "IMAGES", False)


def check_engine(name: str, said_by: str = "") -> None:
    """UsageError when there is no engine `name`. `said_by`: what names it, "TFAPP_ENGINE"."""
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
    """The engine `name`, its state under `home`. `places`: values of its options with `place`, by
    name; the others have their defaults. UsageError when there is none of this name."""
    check_engine(name)
    given = {**{o.name: o.default for o in engine_options(name) if o.place}, **(places or {})}
    return importlib.import_module(ENGINES[name]).open_engine(home, environ, **given)
