"""From a component's configuration to one instance's ports and exports, and to the context that a
package's script sees.

Placeholders are replaced in this order: ports and facts of the container, then references between
values; the exports follow from that. Placeholders that need the whole cluster (hosts of components,
the task's place) are replaced last, in the values that the script sees.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tfapp import placeholders
from tfapp.contract.job import SITE_GLOBAL, ExportTemplate
from tfapp.contract.messages import Member
from tfapp.contract.names import ENV_STORAGE, ENV_STORAGE_SCHEMES, instance_id
from tfapp.frozen import frozen
from tfapp.placeholders import CONTAINER, HOST, PORT, PROGRAM, REFERENCE, Placeholder
from tfapp.runner import tensorflow_env
from tfapp.runner.container import Container
from tfapp.script import Context, Executed

Exports = Mapping[str, Mapping[str, str]]
Execute = Callable[[Context, Sequence[str], float], Executed]

_FLAGS = ("JOB_NAME", "TASK_INDEX", "PS_HOSTS", "WORKER_HOSTS")
_VARIABLE = re.compile(r"\$(\w+)|\$\{(\w+)\}|\{\{(\w+)\}\}")
_HADOOP_HOMES = ("HADOOP_HDFS_HOME", "HADOOP_COMMON_HOME", "HADOOP_HOME")
_JAVA_FOLDERS = ("lib/server", "jre/lib/server", "jre/lib/amd64/server", "jre/lib/aarch64/server")
_LONGEST = 100_000  # bytes; Linux takes 128 KiB for one variable


class ExportError(Exception):
    """An export cannot be made; the text is a sentence for the user."""


@frozen
class InstanceSettings:
    """The `site.*` values of one instance, and the ports in them, by key. A value with several
    ports is listed with its first."""

    site: Mapping[str, str]
    ports: Mapping[str, int]


def take_settings(container: Container, take_port: Callable[[int], int]) -> InstanceSettings:
    """The component's settings for this instance. What `take_port` raises passes through;
    ValueError for values that refer to each other in a ring."""
    component = container.component
    return settle(component.site, component.name, _facts(container), take_port)


def make_exports(container: Container, settings: InstanceSettings) -> dict[str, dict[str, str]]:
    """The exports of the instance. ExportError when a placeholder remains."""
    host = container.host(settings.site)
    return export_values(container.component.exports, settings, host, _facts(container))


def build_context(
    container: Container,
    settings: InstanceSettings,
    generation: int,
    exports: Exports,
    execute: Execute,
    members: tuple[Member, ...] = (),
) -> Context:
    """`execute` is that of the run mode; `members` is empty before the cluster is known.
    NoAddressError when the configuration asks for an address that a member does not export."""
    job, component = container.job, container.component
    site = settings.site
    instance = instance_id(component.name, container.index)
    names = tuple(other.name for other in job.components)
    facts = {
        **_facts(container),
        "CHECKPOINT_DIR": container.checkpoint_dir(site),
        "DATA_DIR": container.data_dir(site),
        "DOLLAR": "$",
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
    env = {
        **container.inherited_environ(),
        **own,
        **{name: expand(f"env.{name}", value) for name, value in given.items()},
    }
    if component.docker is None:
        env.update(hadoop_variables(job.class_path, env))
    env.update(startup_variables(container, env))
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
        env=env,
        config=program_config(site, expand),
        ports={key.removeprefix(SITE_GLOBAL): port for key, port in settings.ports.items()},
        exports=exports,
        members=members,
        expand=expand,
        execute=lambda argv, limit: execute(context, argv, limit),
    )
    return context


def _facts(container: Container) -> dict[str, str]:
    host = container.host(container.component.site)
    return {**container.known(), "THIS_HOST": host}


def _own_variables(
    container: Container, generation: int, settings: InstanceSettings
) -> dict[str, str]:
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
        "TFAPP_CLUSTER_FILE": str(container.cluster_file),
        "TFAPP_METRICS_FILE": str(container.metrics_file),
        "TFAPP_MISSED_FILE": str(container.missed_file),
        "TFAPP_SAVE_FILE": str(container.save_file),
        "TFAPP_SAVED_FILE": str(container.saved_file),
        # Without it the log would show a program's lines only when many have gathered.
        "PYTHONUNBUFFERED": "1",
    }


def cluster_json(generation: int, members: Iterable[Member]) -> str:
    known = ("instance", "component", "index", "role", "host", "exports")
    return json.dumps(
        {
            "generation": generation,
            "members": [{name: getattr(m, name) for name in known} for m in members],
        }
    )


# ---- Values ----------------------------------------------------------------------------------
def settle(
    site: Mapping[str, str],
    component: str,
    known: Mapping[str, str],
    take_port: Callable[[int], int],
) -> InstanceSettings:
    """Replaces ports, container facts (`known`: name -> text) and references in `site`.

    `take_port(preferred)` is called for every place where a port of `component` is written;
    another component's port is "0" here. ValueError for a ring of references.
    """
    ports: dict[str, int] = {}
    settled = {}
    for key in sorted(site):

        def lookup(found: Placeholder, key: str = key) -> str | None:
            if found.kind == CONTAINER:
                return known.get(found.name)
            if found.kind != PORT:
                return None
            if found.component != component:
                return "0"
            number = take_port(found.default or 0)
            ports.setdefault(key, number)
            return str(number)

        settled[key] = placeholders.substitute(site[key], lookup)
    return InstanceSettings(placeholders.resolve(settled), ports)


def export_values(
    templates: Iterable[ExportTemplate],
    settings: InstanceSettings,
    host: str,
    known: Mapping[str, str],
) -> dict[str, dict[str, str]]:
    """group -> name -> value. In an export every `<component>_HOST` is this instance's host, an
    IPv6 address before a port in brackets. ExportError for a placeholder that nothing replaces."""
    groups: dict[str, dict[str, str]] = {}
    for template in templates:

        def lookup(found: Placeholder, text: str = template.value) -> str | None:
            value = known.get(found.name, settings.site.get(found.name))
            if found.kind == HOST:
                value = host
            elif found.name != "THIS_HOST":
                return value
            return f"[{value}]" if ":" in (value or "") and text[found.end :][:1] == ":" else value

        try:
            value = placeholders.substitute(template.value, lookup, partial=False)
        except KeyError as error:
            raise ExportError(
                f"export {template.group}/{template.name}: nothing replaces {error.args[0]}"
            ) from None
        groups.setdefault(template.group, {})[template.name] = value
    return groups


def expander(
    settings: InstanceSettings,
    component: str,
    components: Sequence[str],
    members: Sequence[Member],
    known: Callable[[str], str | None],
) -> Callable[[str, str], str]:
    """`expand(key, text)` replaces everything in a text that stands, or stood, in the `site.*`
    value of `key`. `known(name)` gives container facts and what a program may ask for."""

    def expand(key: str, text: str) -> str:
        def lookup(found: Placeholder) -> str | None:
            if found.kind == HOST:
                wanted = placeholders.host_component(found, components)
                return None if wanted is None else hosts_of(wanted, members)
            if found.kind == PORT:
                return str(settings.ports.get(key, 0)) if found.component == component else "0"
            if found.kind == REFERENCE:
                value = settings.site.get(found.name)
                return None if value is None else expand(found.name, value)
            return known(found.name) if found.kind in (CONTAINER, PROGRAM) else None

        return placeholders.substitute(text, lookup)

    return expand


def program_config(site: Mapping[str, str], expand: Callable[[str, str], str]) -> dict[str, str]:
    """The script's config: `site.global.*` without that prefix, placeholders replaced."""
    return {
        key.removeprefix(SITE_GLOBAL): expand(key, text)
        for key, text in site.items()
        if key.startswith(SITE_GLOBAL)
    }


def hosts_of(component: str, members: Iterable[Member]) -> str:
    """Comma list of the hosts of a component's instances, by index."""
    return ",".join(member.host for member in members if member.component == component)


# ---- Hadoop's client library, libhdfs, on a node of YARN ----------------------------------------
def hadoop_variables(class_path: str, environ: Mapping[str, str]) -> dict[str, str]:
    """CLASSPATH and LD_LIBRARY_PATH for libhdfs in a container with `environ`; those that it has
    already come first. `class_path`: yarn.application.classpath, which has the node's variables and
    "FOLDER/*" for all jars. Nothing where none of the jars is there. It needs no Java: `hadoop
    classpath --glob` would take a second in each container."""
    parts = [part.strip() for part in class_path.split(",")]
    entries = [entry for part in parts for entry in _in_class_path(part, environ)]
    if not any(entry.endswith(".jar") for entry in entries):
        return {}
    found = os.pathsep.join(dict.fromkeys(entries))
    variables = {"CLASSPATH": found} if len(found.encode()) <= _LONGEST else {}
    homes = dict.fromkeys(environ[name] for name in _HADOOP_HOMES if environ.get(name))
    folders = [Path(home, "lib/native") for home in homes]
    if environ.get("JAVA_HOME"):
        folders += [Path(environ["JAVA_HOME"], name) for name in _JAVA_FOLDERS]
    variables["LD_LIBRARY_PATH"] = os.pathsep.join(str(f) for f in folders if f.is_dir())
    return {
        name: os.pathsep.join(filter(None, (environ.get(name), value)))
        for name, value in variables.items()
        if value
    }


def startup_variables(container: Container, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables by which each Python of a program answers for its stacks and, where the
    packages for it are in the container, opens URLs. `environ`: what the program has without
    them."""
    folder = container.storage_dir
    own = str(container.startup_dir)
    # The Python of a PEX ignores PYTHONPATH.
    paths = {name: environ.get(name) for name in ("PYTHONPATH", "PEX_EXTRA_SYS_PATH")}
    first = {name: os.pathsep.join(filter(None, (own, path))) for name, path in paths.items()}
    if folder is None:
        return first
    schemes = container.component.settings.text("storage.schemes")
    return {**first, ENV_STORAGE: str(folder), ENV_STORAGE_SCHEMES: schemes}


def _in_class_path(entry: str, environ: Mapping[str, str]) -> Iterator[str]:
    """The entry of a class path with its variables replaced, and "*" by the jars."""
    path = _VARIABLE.sub(lambda m: environ.get(m[1] or m[2] or m[3], ""), entry)
    if path.endswith("/*"):
        yield from sorted(map(str, Path(path[:-2]).glob("*.jar")))
    elif path and os.path.exists(path):
        yield path
