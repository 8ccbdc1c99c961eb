"""Builds what a package's script sees of its instance, at each stage of a generation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tfapp.contract.control import Member
from tfapp.contract.instances import instance_id
from tfapp.runner import tensorflow_env
from tfapp.runner.container import Container
from tfapp.runner.exports import (
    SITE_GLOBAL,
    Settings,
    expander,
    export_values,
    program_config,
    settle,
)
from tfapp.script import Context, Executed

Exports = Mapping[str, Mapping[str, str]]
Execute = Callable[[Context, Sequence[str], float], Executed]

_FLAGS = ("JOB_NAME", "TASK_INDEX", "PS_HOSTS", "WORKER_HOSTS")


def take_settings(container: Container, take_port: Callable[[int], int]) -> Settings:
    """The component's settings for this instance. What `take_port` raises passes through;
    ValueError for values that refer to each other in a ring."""
    component = container.component
    return settle(component.site, component.name, _facts(container), take_port)


def make_exports(container: Container, settings: Settings) -> dict[str, dict[str, str]]:
    """What the instance exports. ExportError when a placeholder remains."""
    host = container.host(settings.site)
    return export_values(container.component.exports, settings, host, _facts(container))


def build_context(
    container: Container,
    settings: Settings,
    generation: int,
    exports: Exports,
    execute: Execute,
    members: tuple[Member, ...] = (),
) -> Context:
    """`execute` is that of the run mode; `members` is empty before the cluster is known.
    NoAddressError when the configuration
    asks for addresses that a member does not export."""
    job, component = container.job, container.component
    site = settings.site
    instance = instance_id(component.name, container.index)
    names = tuple(other.name for other in job.components)
    facts = {
        **_facts(container),
        "CHECKPOINT_DIR": container.checkpoint_dir(site),
        "DATA_DIR": container.data_dir(site),
    }

    def known(name: str) -> str | None:
        if name in _FLAGS and members:
            return tensorflow_env.slider_flags(instance, members)[name]
        return facts.get(name)

    expand = expander(settings, component.name, names, members, known)
    own = _own_variables(container, generation, settings)
    given = dict(container.private.env.get(component.name, {}))
    if component.docker is not None:
        given.pop(component.docker.credential, None)  # the registry's, and not the program's
    context = Context(
        job=job,
        component=component,
        index=container.index,
        generation=generation,
        host=container.host(site),
        python=container.python(site),
        work_dir=container.work_dir,
        log_dir=container.log_dir,
        files_dir=container.files_dir,
        package_dir=container.package_dir,
        checkpoint_dir=facts["CHECKPOINT_DIR"],
        data_dir=facts["DATA_DIR"],
        env={
            **container.inherited_environ(),
            **own,
            **{name: expand(f"env.{name}", value) for name, value in given.items()},
        },
        config=program_config(site, expand),
        ports={_without_prefix(key): port for key, port in settings.ports.items()},
        exports=exports,
        members=members,
        expand=expand,
        execute=lambda argv, limit: execute(context, argv, limit),
    )
    return context


def _facts(container: Container) -> dict[str, str]:
    host = container.host(container.component.site)
    return {**container.known(), "THIS_HOST": host}


def _own_variables(container: Container, generation: int, settings: Settings) -> dict[str, str]:
    """The TFAPP_ variables that every program gets."""
    component = container.component
    return {
        "TFAPP_APPLICATION": container.job.name,
        "TFAPP_INSTANCE": instance_id(component.name, container.index),
        "TFAPP_COMPONENT": component.name,
        "TFAPP_INDEX": str(container.index),
        "TFAPP_ROLE": component.role,
        "TFAPP_GENERATION": str(generation),
        "TFAPP_HOST": container.host(settings.site),
        "TFAPP_WORK_DIR": str(container.work_dir),
        "TFAPP_LOG_DIR": str(container.log_dir),
        "TFAPP_CHECKPOINT_DIR": container.checkpoint_dir(settings.site),
        "TFAPP_DATA_DIR": container.data_dir(settings.site),
        "TFAPP_PROGRESS_FILE": str(container.progress_file),
        # Without it the log would show a program's lines only when many have gathered.
        "PYTHONUNBUFFERED": "1",
    }


def _without_prefix(key: str) -> str:
    return key[len(SITE_GLOBAL) :] if key.startswith(SITE_GLOBAL) else key
