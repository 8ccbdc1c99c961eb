"""Converts the arguments of a call into a request to an engine."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tfapp.api.arguments import Call, PathLike
from tfapp.api.travel.pack import ENTRY as ENTRY_FILE
from tfapp.api.travel.pack import Pack, pack
from tfapp.api.travel.programs import program_name
from tfapp.compiler.options import check_name, new_name
from tfapp.contract.names import ROLES
from tfapp.engines import check_engine, engine_options, runs_images
from tfapp.errors import NotFoundError, ProgramError, UsageError
from tfapp.frozen import frozen
from tfapp.launch.caller import Caller
from tfapp.launch.env_file import read_env_file
from tfapp.launch.environments import Needs
from tfapp.launch.submission import Request
from tfapp.package.overrides import Overrides
from tfapp.package.source import collect_user_files
from tfapp.program.experiment import (
    Experiment,
    KerasExperiment,
    makes_strategy,
    returns,
    trains_on_jax,
)
from tfapp.shipped import app_packages_dir, find_package
from tfapp.topology import Component, single_server

SITE = "site.global."
ENTRY = f"{SITE}user.scripts.entry"
# What stands in a Component, and the key that it means.
RESOURCES = {
    "memory": "yarn.memory",
    "vcores": "yarn.vcores",
    "gpus": "yarn.gpus",
    "label": "yarn.label.expression",
}
_ACLS = ("view_users", "view_groups", "modify_users", "modify_groups", "ui_users")
FED = ("chief", "worker")  # the components whose programs can be fed
_VERSION = re.compile(r"[0-9]+\.[0-9]+(\.[0-9]+)?\Z")


def name_of(call: Call) -> str:
    """The name of the application: the given one, or a new one that is derived from the program or
    the package. UsageError for an invalid name."""
    if call.name is not None:
        check_name(call.name)
        return call.name
    what = program_name(call.program) if call.program is not None else ""
    if not what and call.package is not None:
        what = Path(call.package).stem
    return new_name(what or "run")


@contextlib.contextmanager
def requested(call: Call, name: str, caller: Caller) -> Iterator[Request]:
    """A context manager: the request of `call`. Its temporary files exist within the block.
    ProgramError for a program that cannot be shipped, UsageError for arguments that contradict each
    other."""
    components = _components(call)
    programs = _programs(call, components)
    _check_roles(programs, components)
    travels = pack(programs, caller.cwd, call.pickles, call.feed)
    if call.feed:
        _check_fed(programs, travels)
    for line in travels.notes:
        caller.note(line)
    with tempfile.TemporaryDirectory(prefix="tfapp-call-") as folder:
        files = {**_stored(travels, Path(folder)), **_files(call)}
        yield _request(call, name, components, travels, files, caller)


@contextlib.contextmanager
def packed(
    program: object, components: Iterable[str], caller: Caller
) -> Iterator[tuple[str, dict[str, Path], Needs]]:
    """A context manager: one program, shipped for these components. Gives its entry, its files by
    their path below files/, and its requirements. The files exist within the block."""
    travels = pack(dict.fromkeys((*components, ""), program), caller.cwd)
    for line in travels.notes:
        caller.note(line)
    with tempfile.TemporaryDirectory(prefix="tfapp-call-") as folder:
        yield travels.entries[""], _stored(travels, Path(folder)), travels.needs


def _request(
    call: Call,
    name: str,
    components: Mapping[str, Component],
    travels: Pack,
    files: Mapping[str, Path],
    caller: Caller,
) -> Request:
    images = runs_images(call.engine or caller.defaults.engine)
    rows = list(_rows(call, components, travels, images, caller.cwd))
    environment, secrets = _environment(call)
    return Request(
        name=name,
        appdef=_appdef(call),
        template=Path(call.template) if call.template is not None else None,
        resources=Path(call.resources) if call.resources is not None else None,
        overrides=Overrides(
            options=tuple((row.key, row.text) for row in rows if not row.component),
            compopts=tuple((row.component, row.key, row.text) for row in rows if row.component),
            components=tuple(_counts(call, components)),
            max_restarts=_text_of(call.retries),
            max_losses=_text_of(call.losses),
            places=_places(rows, components),
        ),
        files=files,
        programs=call.package is not None,
        engine_options=_engine_options(call, caller),
        tags=tuple(dict.fromkeys(call.tags)),
        environment=environment,
        secret_environment=secrets,
        needs=travels.needs,
        called=travels.called,
    )


@frozen
class _Row:
    """A key that is set by an argument. `place`: the argument, for messages. `component`: "" for
    all."""

    place: str
    key: str
    text: str
    component: str = ""


def _rows(
    call: Call, components: Mapping[str, Component], travels: Pack, images: bool, cwd: Path
) -> Iterator[_Row]:
    for place, key, text in global_rows(call, images, cwd):
        yield _Row(place, key, text)
    if call.package is None and travels.entries:  # the package's own is not shipped
        yield _Row("program", ENTRY, next(iter(travels.entries.values())))
    if call.feed:
        yield from _feed_rows(components)
    for name, component in components.items():
        of = f"components[{name!r}]"
        for field, key in RESOURCES.items():
            value = getattr(component, field)
            if value is not None:
                yield _Row(f"{of}.{field}", key, _text(value), name)
        if component.python is not None:
            yield _Row(f"{of}.python", f"{SITE}python.executable", component.python, name)
        if name in travels.entries:
            entry = travels.entries[name]
            yield _Row(f"{of}.program", ENTRY, entry, name)
        for key, value in component.options.items():
            yield _Row(f"{of}.options[{key!r}]", key, _text(value), name)


def global_rows(call: Call, images: bool, cwd: Path) -> Iterator[tuple[str, str, str]]:
    """Yields (argument, key, value). `images`: whether the containers of the engine are images.
    `cwd`: where relative folders begin."""
    packages = _words("packages", call.packages)
    if packages:
        yield "packages", f"{SITE}python.packages", ", ".join(packages)
    if call.python is not None:
        key = "python.version" if _VERSION.match(call.python) else "python.executable"
        yield "python", SITE + key, call.python
    if call.image is not None:
        if not images:
            yield "image", f"{SITE}run.mode", "docker"
        yield "image", f"{SITE}docker.image", call.image
    if call.checkpoints is not None:
        yield "checkpoints", f"{SITE}user.checkpoint.prefix", _folder(call.checkpoints, cwd)
    if call.data is not None:
        yield "data", f"{SITE}user.data.dir", _folder(call.data, cwd)
    if call.timeout is not None:
        yield "timeout", f"{SITE}application.lifetime", _text(call.timeout)
    systems = _words("file_systems", call.file_systems)
    if systems:
        yield "file_systems", f"{SITE}hadoop.file.systems", ", ".join(systems)
    for kind, names in call.acls.items():
        if kind not in _ACLS:
            raise UsageError(f"acls: there is no {kind!r}", f"Known: {', '.join(_ACLS)}.")
        key = f"{SITE}acl.{kind.replace('_', '.')}"
        yield f"acls[{kind!r}]", key, ", ".join(_words(f"acls[{kind!r}]", names))
    for key, value in call.options.items():
        yield f"options[{key!r}]", key, _text(value)


def _folder(path: PathLike, cwd: Path) -> str:
    """A folder as an absolute path, unless it is a URL or begins with a placeholder."""
    text = os.fspath(path)
    return text if "://" in text or text.startswith("$") else os.path.join(cwd, text)


def _check_fed(programs: Mapping[str, object], travels: Pack) -> None:
    """ProgramError for a script that is to be fed: it has no context."""
    for name, entry in travels.entries.items():
        if name in FED and entry != ENTRY_FILE:
            raise ProgramError(
                f"{name} is the script {programs[name]}, and a script has no feed",
                "Give the function in it that trains, function(context), or a module: "
                '"package.module".',
            )


def _feed_rows(components: Mapping[str, Component]) -> Iterator[_Row]:
    """The keys with the feed ports of the components that can be fed."""
    for name in components:
        if name in FED:
            port = f"${{{name}.ALLOCATED_PORT}}{{PER_CONTAINER}}"
            yield _Row("feed", f"{SITE}{name}.feed.port", port, name)


def _counts(call: Call, components: Mapping[str, Component]) -> Iterator[tuple[str, str]]:
    """The number of instances of each component. Components of tfapp's own package that the call
    does not name have 0."""
    if call.package is None and call.resources is None:
        for name in ROLES:
            if name not in components and name != "other":
                yield name, "0"
    for name, component in components.items():
        yield name, _text(component.instances)


def _text_of(limit: object) -> str:
    return "" if limit is None else str(limit)


def _places(rows: Iterable[_Row], components: Mapping[str, Component]) -> dict[str, str]:
    """Maps the flag that would set a value to the argument that does, for messages."""
    found = {"--max-restarts": "retries", "--max-losses": "losses"}
    for row in rows:
        flag = f"--compopt {row.component}" if row.component else "--option"
        found[f"{flag} {row.key}"] = row.place
    for name in components:
        found[f"--component {name}"] = f"components[{name!r}]"
    return found


def _components(call: Call) -> dict[str, Component]:
    given = call.components
    if given is None:
        given = single_server() if call.package is None and call.resources is None else {}
    if not isinstance(given, Mapping):
        raise UsageError(
            f"components is a {type(given).__name__}",
            'It is a mapping: {"worker": tfapp.Component(instances=2)}.',
        )
    if not given and call.package is None and call.resources is None:
        raise UsageError(
            "components is empty, so nothing would run",
            'Leave it out, or name some: {"worker": tfapp.Component(instances=2)}.',
        )
    for name, component in given.items():
        if not isinstance(component, Component):
            raise UsageError(
                f"components[{name!r}] is a {type(component).__name__}, not a tfapp.Component",
                'For example tfapp.Component("2 GiB", vcores=1, instances=2).',
            )
    alone = call.package is None and call.resources is None
    if alone and not any(component.instances for component in given.values()):
        raise UsageError(
            "no component has an instance, so nothing would run",
            'Give one of them more: {"worker": tfapp.Component(instances=2)}.',
        )
    found = dict(given)
    if call.tensorboard and "tensorboard" not in found:
        found["tensorboard"] = Component()
    return found


def _programs(call: Call, components: Mapping[str, Component]) -> dict[str, object]:
    """The program of each component. In a base package, components that the call does not name run
    the program of the call too."""
    found: dict[str, object] = {}
    if call.program is not None:
        names = set(components)
        if call.package is None:
            names -= {"tensorboard"}
        else:
            names |= set(training_components(_appdef(call)))
        found = dict.fromkeys(sorted(names), call.program)
    for name, component in components.items():
        if component.program is not None:
            found[name] = component.program
    if call.package is None:
        lacking = sorted(set(components) - set(found) - {"tensorboard"})
        if lacking:
            raise UsageError(
                f"there is no program for {', '.join(lacking)}",
                "Give one to the call, or to each Component.",
            )
    return found


def _check_roles(programs: Mapping[str, object], components: Mapping[str, Component]) -> None:
    """UsageError for an experiment that these components cannot train."""
    names = {*programs, *components}
    for name in ("ps", "evaluator"):
        program = programs.get(name)
        if name in components and callable(program) and trains_on_jax(program):
            raise UsageError(
                f"{program_name(program)} is an experiment on JAX, which has no work for {name}",
                "Its components are chief and worker: tfapp.all_reduce() makes them.",
            )
    if "chief" in names:
        return
    for program in programs.values():
        if not callable(program):
            continue
        if "ps" in names and returns(program, KerasExperiment):
            lacking = "an experiment with parameter servers"
        elif names & {"worker", "ps"} and _needs_chief(program):
            lacking = "an Estimator experiment with workers"
        else:
            continue
        raise UsageError(
            f"{program_name(program)} is {lacking} and without a chief",
            'Add "chief": tfapp.Component(), or use tfapp.parameter_servers().',
        )


def _needs_chief(program: Callable[..., Any]) -> bool:
    """Whether the program makes an Estimator without a strategy. With a strategy the first worker
    is the chief."""
    estimator = returns(program, Experiment) and not returns(program, KerasExperiment)
    return estimator and not makes_strategy(program)


def training_components(appdef: Path) -> dict[str, str]:
    """The components of a package that run the user's program, and their roles. tfapp's own has
    one of each role."""
    from tfapp.package.load import load_package
    from tfapp.package.rules.scripts import TRAINING_ROLES

    if appdef == app_packages_dir() / "tensorflow":
        return {role: role for role in TRAINING_ROLES}
    package = load_package(appdef).package
    if package is None:  # what is wrong with it is told when it is compiled
        return {}
    return {one.name: one.role for one in package.components if one.role in TRAINING_ROLES}


def _appdef(call: Call) -> Path:
    if call.package is None:
        return app_packages_dir() / "tensorflow"
    return find_package(Path(call.package))


def _environment(call: Call) -> tuple[dict[str, str], dict[str, str]]:
    """The variables and the secret variables of programs."""
    plain, secret = {}, {}
    if call.env_file is not None:
        plain.update(read_env_file(Path(call.env_file), "env_file"))
    if call.secret_env_file is not None:
        secret.update(read_env_file(Path(call.secret_env_file), "secret_env_file"))
    plain.update({name: _text(value) for name, value in call.env.items()})
    secret.update({name: _text(value) for name, value in call.secrets.items()})
    return plain, secret


def _files(call: Call) -> dict[str, Path]:
    """The user's files, by their path below files/."""
    if not isinstance(call.files, Mapping):
        if isinstance(call.files, (str, os.PathLike)):
            raise UsageError("files is one path", f"Give a list: files=[{str(call.files)!r}].")
        return collect_user_files(call.files)
    found = {}
    for target, source in call.files.items():
        path = Path(source)
        if not path.exists():
            raise NotFoundError(f"files[{target!r}]: there is no {path}", "Check the path.")
        if path.is_dir():
            inside = collect_user_files([f"{path}/"])
            found.update({f"{target.rstrip('/')}/{name}": one for name, one in inside.items()})
        else:
            found[target] = path
    return found


def _stored(travels: Pack, folder: Path) -> dict[str, Path]:
    """The files of a program; generated ones are written to `folder`."""
    found = {}
    for name, content in travels.files.items():
        if isinstance(content, bytes):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            content = path
        found[name] = content
    return found


def _engine_options(call: Call, caller: Caller) -> dict[str, Any]:
    engine = call.engine or caller.defaults.engine
    check_engine(engine)
    options = [*engine_options(), *engine_options(engine)]  # its own defaults are the last
    values = {option.name: option.default for option in options if not option.place}
    mine = caller.defaults.of(engine)
    values.update({name: value for name, value in mine.items() if name in values})
    if call.queue is not None:
        values["queue"] = call.queue
    return values


def _words(argument: str, values: Iterable[str]) -> list[str]:
    if isinstance(values, str):
        raise UsageError(f"{argument} is one text", f"Give a list: {argument}=[{values!r}].")
    return [str(value) for value in values]


def _text(value: object) -> str:
    """A value as text in YAML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
