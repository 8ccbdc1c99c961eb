"""Placeholders, each by itself: known, complete, and in a place that can have it."""

from __future__ import annotations

from collections.abc import Iterator

from tfapp import placeholders
from tfapp.close_match import close_match
from tfapp.package.model import AppPackage, Export, setting
from tfapp.package.rules.rule import (
    ENV,
    Found,
    all_placeholders,
    component_names,
    did_you_mean,
    effective_values,
    export_placeholders,
    feeders,
    rule,
)
from tfapp.placeholders import (
    COMPILE,
    HOST,
    PORT,
    PROGRAM,
    REFERENCE,
    UNKNOWN,
    Placeholder,
    host_component,
)
from tfapp.problems import WARNING, Position

MAX_PORT = 65535

# Slider replaced these; what they name does not exist here.
SLIDERS = {
    "NN_URI": "the cluster's file system",
    "DEFAULT_ZK_PATH": "a ZooKeeper path of the application",
    "DEFAULT_DATA_DIR": "a folder inside the application's own, which `destroy` deletes",
    "JAVA_HOME": "the Java of Slider's agent",
    "COMPONENT_PREFIX": "the name of another Slider application",
    "CLUSTER": "the application's name, here ${CLUSTER_NAME}",
}
SLIDERS_HOSTS = {"NN": "the name node", "ZK": "ZooKeeper"}

_STATIC = ("site.global.user.scripts.entry", "credentials.")  # beginnings of keys
_COMPILED = ("site.global.docker.", "site.global.run.mode")
_DEFINES = {
    "CHECKPOINT_DIR": "site.global.user.checkpoint.prefix",
    "DATA_DIR": "site.global.user.data.dir",
    "THIS_HOST": "site.global.advertise.host",
}
_EARLY = "exports are published before the cluster is known; refer to what the instance itself has"
_PORT_HINT = "give the port to a site.* key, and refer to that: ${site.global.<key>}"


def _everywhere(package: AppPackage) -> Iterator[tuple[Placeholder, Position, str]]:
    """Every placeholder of exports and of appConfig, its place, and the text it stands in."""
    for export, placeholder, at in export_placeholders(package):
        yield placeholder, at, export.value
    for _, placeholder, at, text in all_placeholders(package):
        yield placeholder, at, text


@rule("unknown-placeholder", "metainfo")
def unknown_placeholder(package: AppPackage) -> Iterator[Found]:
    """A placeholder that nothing replaces.

    Known are the names in `tfapp.placeholders`, `${<component>_HOST}`,
    `${<component>.ALLOCATED_PORT}` and `${site.<type>.<key>}`. A value is not given to a shell:
    `${HOME}` would stay as it is. Reported at the placeholder.

        "${USER_NAME}"      PASS
        "${USER_NAM}"       FAIL
        "${USER_NAME"       FAIL
    """
    names = component_names(package)
    known = (
        *placeholders.NAMES,
        *(f"{name}_HOST" for name in names),
        *(f"{name}.ALLOCATED_PORT" for name in names),
        *(key for key in package.config.global_ if key.startswith("site.")),
    )
    for placeholder, at, text in _everywhere(package):
        spelled = text[placeholder.start : placeholder.end]
        if placeholder.kind != UNKNOWN:
            continue
        if spelled.endswith("}"):
            hint = _meant(placeholder.name, known)
            yield Found(at, f"there is no placeholder {spelled}", hint)
        else:
            hint = "add the '}', or write ${DOLLAR}{ for the text ${"
            yield Found(at, "this '${' is never closed", hint)


def _meant(name: str, known: tuple[str, ...]) -> str:
    if name.startswith(("site.", "@//")):
        return "a reference is ${site.<type>.<key>}, such as ${site.global.worker.port}"
    if name in SLIDERS:
        return f"in Slider it meant {SLIDERS[name]}; write what you mean"
    match = close_match(name, known)
    otherwise = (
        f"values are not given to a shell; write what it stands for, or ${{DOLLAR}}{{{name}}} to "
        "keep it"
    )
    return f"did you mean '${{{match}}}'?" if match else otherwise


@rule("placeholder-component", "metainfo")
def placeholder_component(package: AppPackage) -> Iterator[Found]:
    """A placeholder names a component that metainfo does not declare.

    `${ps_HOST}` (also in capitals, `${PS_HOST}`) and `${ps.ALLOCATED_PORT}` name the component
    `ps`; in a port, capitals must be as in metainfo. Reported at the placeholder.

        components: [{name: worker}]    "${worker_HOST}", "${worker.ALLOCATED_PORT}"     PASS
        components: [{name: worker}]    "${workr_HOST}", "${Worker.ALLOCATED_PORT}"      FAIL
    """
    names = component_names(package)
    for placeholder, at, _ in _everywhere(package):
        component, is_host = placeholder.component, placeholder.kind == HOST
        found = component in names or (is_host and host_component(placeholder, names) is not None)
        if found or not (is_host or placeholder.kind == PORT):
            continue
        otherwise = f"metainfo's components are {', '.join(names)}"
        if is_host and component in SLIDERS_HOSTS:
            otherwise = f"in Slider it meant the host of {SLIDERS_HOSTS[component]}; write its name"
        hint = did_you_mean(component, names, otherwise)
        message = f"${{{placeholder.name}}} names the component '{component}', which metainfo lacks"
        yield Found(at, message, hint)


@rule("empty-placeholder", "appConfig")
def empty_placeholder(package: AppPackage) -> Iterator[Found]:
    """`${DATA_DIR}` where no data folder is given: it becomes nothing. Reported at the
    placeholder.

        user.data.dir: /data     user.scripts.args: "--data ${DATA_DIR}"     PASS
                                 user.scripts.args: "--data ${DATA_DIR}"     WARNING
    """
    for component, _, value in effective_values(package):
        given = setting(package.config.components[component], "user.data.dir")
        if given is not None and given.text:
            continue
        for placeholder, at in value.placeholders():
            if placeholder.name == "DATA_DIR":
                yield Found(
                    at,
                    "${DATA_DIR} is empty: there is no data folder",
                    "give site.global.user.data.dir",
                    WARNING,
                )


@rule("port-placeholder", "appConfig")
def port_placeholder(package: AppPackage) -> Iterator[Found]:
    """A port placeholder that does not say what its author meant.

    Its form is `${<component>.ALLOCATED_PORT}{DEFAULT_<port>}{PER_CONTAINER}`, in this order;
    both ends may be missing. `{DEFAULT_0}` is any port. Without `{PER_CONTAINER}`, Slider gave
    every container the first one's number; here each container has a port of its own: a warning.
    Reported at the placeholder.

        "${ps.ALLOCATED_PORT}{DEFAULT_2222}{PER_CONTAINER}"     PASS
        "${ps.ALLOCATED_PORT}"                                  WARNING
        "${ps.ALLOCATED_PORT}{DEFAULT_99999}"                   FAIL
        "${ps.ALLOCATED_PORT}{PER_HOST}"                        FAIL
    """
    for _, placeholder, at, text in all_placeholders(package):
        rest = text[placeholder.end :]
        if placeholder.kind != PORT:
            continue
        if rest.startswith("{"):
            form = f"${{{placeholder.name}}}{{DEFAULT_<port>}}{{PER_CONTAINER}}"
            message = f"{rest.partition('}')[0]}}} cannot follow here"
            yield Found(at, message, f"the whole form is {form}")
        elif placeholder.default is not None and placeholder.default > MAX_PORT:
            message = f"{placeholder.default} is no port"
            yield Found(at, message, f"ports go up to {MAX_PORT}; 0 means any")
        elif not placeholder.per_container:
            message = f"{{PER_CONTAINER}} is missing: each '{placeholder.component}' container "
            message += "gets a port of its own all the same"
            yield Found(at, message, "add {PER_CONTAINER} at the end, which says so", WARNING)


@rule("misplaced-placeholder", "metainfo")
def misplaced_placeholder(package: AppPackage) -> Iterator[Found]:
    """A placeholder that is known, but not where it stands, or not by then. Reported at the
    placeholder. What each place may have:

        site.* values            all
        env.* values             all but ports
        export values            names, the own host, references to site.* values; no ports, and
                                 nothing that depends on the other instances, for exports are
                                 what the cluster is made from
        credentials              none: they are read before anything is replaced
        entry script             none: it is looked for before anything is replaced
        site.global.docker.*     what is known before submission

        site.global.user.scripts.args: "--job ${JOB_NAME}"                   PASS
        exports: [{name: host_port, value: "${ps_HOST}:${JOB_NAME}"}]        FAIL
        site.global.user.checkpoint.prefix: "${CHECKPOINT_DIR}/a"            FAIL
    """
    for key, placeholder, at, text in all_placeholders(package):
        why, hint = _why_not_in_value(key, placeholder.kind, placeholder.name)
        if why:
            spelled = text[placeholder.start : placeholder.end]
            yield Found(at, f"{spelled} has no value here: {why}", hint)
    for export, placeholder, at in export_placeholders(package):
        spelled = export.value[placeholder.start : placeholder.end]
        message = f"{spelled} has no value in an export"
        if placeholder.kind == PORT:
            yield Found(at, message, _PORT_HINT)
        elif placeholder.kind == PROGRAM:
            yield Found(at, message, _EARLY)
        elif placeholder.kind == REFERENCE:
            late = _late(package, export, placeholder.name)
            if late:
                yield Found(at, f"{message}: {late} depends on the others", _EARLY)


def _why_not_in_value(key: str, kind: str, name: str) -> tuple[str, str]:
    """(why, what to do); "" when `key` may hold the placeholder."""
    if kind == UNKNOWN:
        return "", ""
    if key.startswith(_STATIC):
        return f"{key} is needed before anything is replaced", "write it out"
    if key.startswith(_COMPILED) and kind not in (COMPILE, REFERENCE):
        return f"{key} is needed before there is a container", "write it out"
    if _DEFINES.get(name) == key:
        return f"it is made from {key} itself", "write it out"
    if kind == PORT and key.startswith(ENV):
        return "a port belongs to a site.* key", _PORT_HINT
    return "", ""


def _late(package: AppPackage, export: Export, key: str) -> str:
    """The placeholder, reached from `key`, that is only known with the whole cluster, or ""."""
    for component in feeders(package, export):
        values = package.config.components.get(component.name, {})
        keys, seen = [key], set()
        for reached in keys:
            if reached in seen or reached not in values:
                continue
            seen.add(reached)
            for placeholder, _ in values[reached].placeholders():
                if placeholder.kind in (PROGRAM, HOST):
                    return f"${{{placeholder.name}}} of {reached}"
                if placeholder.kind == REFERENCE:
                    keys.append(placeholder.name)
    return ""
