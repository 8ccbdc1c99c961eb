"""A placeholder that is known, but not where it stands, or not by then.

What each place may have:

    site.* values            all
    env.* values             all but ports
    export values            names, the own host, references to site.* values; no ports, and
                             nothing that depends on the other instances, for exports are what
                             the cluster is made from
    credentials              none: they are read before anything is replaced
    entry script             none: it is looked for before anything is replaced
    site.global.docker.*     what is known before submission

    site.global.user.scripts.args: "--job ${JOB_NAME}"                   PASS
    exports: [{name: host_port, value: "${ps_HOST}:${JOB_NAME}"}]        FAIL
    site.global.user.checkpoint.prefix: "${CHECKPOINT_DIR}/a"            FAIL
"""

from __future__ import annotations

from collections.abc import Iterator

from tfapp.package.model import AppPackage, Export
from tfapp.package.rules.written import ENV, all_values, feeders
from tfapp.placeholders import COMPILE, HOST, PORT, PROGRAM, REFERENCE, UNKNOWN
from tfapp.problems import Problem

CODE = "misplaced-placeholder"
NEEDS = ("metainfo",)

_STATIC = ("site.global.user.scripts.entry", "credentials.")  # beginnings of keys
_COMPILED = ("site.global.docker.", "site.global.run.mode")
_DEFINES = {
    "CHECKPOINT_DIR": "site.global.user.checkpoint.prefix",
    "DATA_DIR": "site.global.user.data.dir",
    "THIS_HOST": "site.global.advertise.host",
}
_EARLY = "exports are published before the cluster is known; refer to what the instance itself has"
_PORT_HINT = "give the port to a site.* key, and refer to that: ${site.global.<key>}"


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports at the placeholder."""
    for key, value in all_values(package):
        for placeholder, at in value.placeholders():
            why = _why_not_in_value(key, placeholder.kind, placeholder.name)
            if why:
                spelled = value.text[placeholder.start : placeholder.end]
                yield Problem(at, CODE, f"{spelled} has no value here: {why[0]}", hint=why[1])
    for export in package.exports:
        yield from _check_export(package, export)


def _why_not_in_value(key: str, kind: str, name: str) -> tuple[str, str] | None:
    """(why, what to do), or None when `key` may hold the placeholder."""
    if kind == UNKNOWN:
        return None
    if key.startswith(_STATIC):
        return f"{key} is needed before anything is replaced", "write it out"
    if key.startswith(_COMPILED) and kind not in (COMPILE, REFERENCE):
        return f"{key} is needed before there is a container", "write it out"
    if _DEFINES.get(name) == key:
        return f"it is made from {key} itself", "write it out"
    if kind == PORT and key.startswith(ENV):
        return "a port belongs to a site.* key", _PORT_HINT
    return None


def _check_export(package: AppPackage, export: Export) -> Iterator[Problem]:
    for placeholder, at in export.placeholders():
        spelled = export.value[placeholder.start : placeholder.end]
        if placeholder.kind == PORT:
            yield Problem(at, CODE, f"{spelled} has no value in an export", hint=_PORT_HINT)
        elif placeholder.kind == PROGRAM:
            yield Problem(at, CODE, f"{spelled} has no value in an export", hint=_EARLY)
        elif placeholder.kind == REFERENCE:
            late = _late(package, export, placeholder.name)
            if late:
                message = f"{spelled} has no value in an export: {late} depends on the others"
                yield Problem(at, CODE, message, hint=_EARLY)


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
