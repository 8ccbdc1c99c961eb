"""The arguments that `tfapp.run`, `submit`, `compile` and `write_package` have in common."""

from __future__ import annotations

import dataclasses
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypedDict, TypeVar, Union

from tfapp.close_match import did_you_mean
from tfapp.contract.status import ApplicationStatus
from tfapp.frozen import frozen
from tfapp.topology import Component

PathLike = Union[str, "os.PathLike[str]"]
OnChange = Callable[[ApplicationStatus], Any]

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


@frozen
class Call:
    """The arguments of `tfapp.run`, `submit`, `compile` and `write_package`: see `tfapp.run`."""

    program: object = None
    components: Mapping[str, Component] | None = None
    package: PathLike | None = None
    engine: str | None = None
    name: str | None = None
    files: Mapping[str, PathLike] | Iterable[PathLike] = ()
    env: Mapping[str, object] = dataclasses.field(default_factory=dict)
    secrets: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    env_file: PathLike | None = None
    secret_env_file: PathLike | None = None
    packages: Iterable[str] = ()
    python: str | None = None
    image: str | None = None
    queue: str | None = None
    namespace: str | None = None
    context: str | None = None
    file_systems: Iterable[str] = ()
    acls: Mapping[str, Iterable[str]] = dataclasses.field(default_factory=dict)
    checkpoints: PathLike | None = None
    data: PathLike | None = None
    tensorboard: bool = False
    retries: int | None = None
    losses: int | None = None
    timeout: float | None = None
    tags: Iterable[str] = ()
    template: PathLike | None = None
    resources: PathLike | None = None
    options: Mapping[str, object] = dataclasses.field(default_factory=dict)
    pickles: bool = False
    replace: bool = False
    fresh: bool = False
    spark: Any = None
    feed: bool = False


class Arguments(TypedDict, total=False):
    """The fields of `Call` that are given by name, for type checkers."""

    package: PathLike | None
    engine: str | None
    name: str | None
    files: Mapping[str, PathLike] | Iterable[PathLike]
    env: Mapping[str, object]
    secrets: Mapping[str, str]
    env_file: PathLike | None
    secret_env_file: PathLike | None
    packages: Iterable[str]
    python: str | None
    image: str | None
    queue: str | None
    namespace: str | None
    context: str | None
    file_systems: Iterable[str]
    acls: Mapping[str, Iterable[str]]
    checkpoints: PathLike | None
    data: PathLike | None
    tensorboard: bool
    retries: int | None
    losses: int | None
    timeout: float | None
    tags: Iterable[str]
    template: PathLike | None
    resources: PathLike | None
    options: Mapping[str, object]
    pickles: bool
    replace: bool
    fresh: bool
    spark: Any
    feed: bool


def made_call(
    program: object, components: Mapping[str, Component] | None, more: Mapping[str, Any]
) -> Call:
    """Returns the `Call` of these arguments. TypeError for an unknown argument, with a
    suggestion."""
    known = [field.name for field in dataclasses.fields(Call)]
    for name in more:
        if name not in known:
            meant = did_you_mean(name, known, form="; did you mean {}?")
            raise TypeError(f"there is no argument {name!r}{meant}")
    call = Call(program, components, **more)
    if call.spark is not None and call.engine is None:
        return dataclasses.replace(call, engine="spark")
    return call


def shows_arguments(function: FunctionT) -> FunctionT:
    """A decorator for functions that take the fields of `Call` as `**more`. It adds them to the
    signature, so that `help` and completion show them."""
    own = inspect.signature(function)
    shown = dict(own.parameters)
    del shown["more"]
    for field in dataclasses.fields(Call):
        if field.name not in shown:
            default = field.default
            if field.default_factory is not dataclasses.MISSING:
                default = field.default_factory()
            shown[field.name] = inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=field.type
            )
    function.__signature__ = own.replace(parameters=list(shown.values()))  # type: ignore[attr-defined]
    return function
