"""Placeholders in configuration and export values: `${USER_NAME}`, `${ps_HOST}`, ...

This module is shipped to containers, so it uses the standard library only. It defines the names and
the syntax. The kinds of placeholders are replaced one after the other:

    COMPILE    by the compiler, before anything is submitted
    PORT       by the runner, when it takes its ports; each occurrence gets a port of its own
    CONTAINER  by the runner, before it exports
    REFERENCE  by the runner, when its ports are known: another `site.*` value, transitively
    HOST       in an export, by the runner: its own host; elsewhere, when the cluster is known: the
               hosts of a component's instances, separated by commas
    PROGRAM    by the runner, when the cluster is known, in arguments for the user's program

A placeholder without a value stays as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tfapp.frozen import frozen

COMPILE, CONTAINER, PROGRAM = "compile", "container", "program"
HOST, PORT, REFERENCE, UNKNOWN = "host", "port", "reference", "unknown"

NAMES = {
    "USER_NAME": COMPILE,
    "USER": COMPILE,
    "CLUSTER_NAME": COMPILE,
    "APP_NAME": COMPILE,
    "COMPONENT_NAME": COMPILE,
    "APP_COMPONENT_NAME": COMPILE,
    "COMPONENT_ID": CONTAINER,
    "CONTAINER_ID": CONTAINER,
    "AGENT_WORK_ROOT": CONTAINER,
    "AGENT_LOG_ROOT": CONTAINER,
    "WORK_DIR": CONTAINER,
    "THIS_HOST": CONTAINER,
    "JOB_NAME": PROGRAM,
    "TASK_INDEX": PROGRAM,
    "PS_HOSTS": PROGRAM,
    "WORKER_HOSTS": PROGRAM,
    "CHECKPOINT_DIR": PROGRAM,
    "DATA_DIR": PROGRAM,
    "DOLLAR": PROGRAM,  # "$": ${DOLLAR}{HOME} becomes ${HOME}
}

MAX_RESOLVED = 64 * 1024  # characters of a value after its references were replaced
MAX_TRAIL = 100  # length of a chain of references

_START = re.compile(r"\$\{([^${}]*)(\}?)")
_PORT_SUFFIX = re.compile(r"(?:\{DEFAULT_([0-9]{1,9})\})?(\{PER_CONTAINER\})?")
_LOWER, _ALLOCATED, _HOST = ".lc", ".ALLOCATED_PORT", "_HOST"
_SITE_PATH = "@//site/"


@frozen
class Placeholder:
    """One placeholder in a text, at `text[start:end]`, including the suffixes of a port.

    `name`: the text between the braces, without `.lc`. For both spellings of a REFERENCE it is the
    key (`site.global.x`).
    """

    kind: str
    name: str
    start: int
    end: int
    component: str = ""  # the component of a HOST or PORT, as it is written
    lower: bool = False  # `.lc`: the value in lower case
    default: int | None = None  # PORT: {DEFAULT_n}; 0 means any port
    per_container: bool = False  # PORT: {PER_CONTAINER}


class ReferenceCycleError(ValueError):
    """Values refer to each other in a cycle. `trail`: its keys, with the first one repeated at the
    end."""

    def __init__(self, trail: tuple[str, ...]):
        super().__init__(" -> ".join(trail))
        self.trail = trail


def find(text: str) -> tuple[Placeholder, ...]:
    """All placeholders of `text`, from left to right. A `${` that is not closed counts as an
    UNKNOWN placeholder, which reaches to the end of its name."""
    found = []
    position = 0
    while match := _START.search(text, position):
        placeholder = _classify(text, match)
        found.append(placeholder)
        position = placeholder.end
    return tuple(found)


def _classify(text: str, match: re.Match[str]) -> Placeholder:
    inner, closed = match.groups()
    start, end = match.span()
    if not closed:
        return Placeholder(UNKNOWN, inner, start, end)
    if inner in NAMES:
        return Placeholder(NAMES[inner], inner, start, end)
    if inner.endswith(_LOWER) and NAMES.get(inner[: -len(_LOWER)]) == COMPILE:
        return Placeholder(COMPILE, inner[: -len(_LOWER)], start, end, lower=True)
    if inner.endswith(_ALLOCATED) and inner != _ALLOCATED:
        return _port(text, inner, start, end)
    if key := _reference_key(inner):
        return Placeholder(REFERENCE, key, start, end)
    if inner.endswith(_HOST) and inner != _HOST:
        return Placeholder(HOST, inner, start, end, component=inner[: -len(_HOST)])
    return Placeholder(UNKNOWN, inner, start, end)


def _port(text: str, inner: str, start: int, end: int) -> Placeholder:
    suffix = _PORT_SUFFIX.match(text, end)
    assert suffix is not None, "both groups are optional"
    default, per_container = suffix.groups()
    return Placeholder(
        PORT,
        inner,
        start,
        suffix.end(),
        component=inner[: -len(_ALLOCATED)],
        default=None if default is None else int(default),
        per_container=per_container is not None,
    )


def _reference_key(inner: str) -> str:
    """The key `site.global.x` for `site.global.x` and for `@//site/global/x`; otherwise ""."""
    if inner.startswith(_SITE_PATH):
        inner = "site." + inner[len(_SITE_PATH) :].replace("/", ".", 1)
    site, _, rest = inner.partition(".")
    dictionary, _, key = rest.partition(".")
    return inner if site == "site" and dictionary and key else ""


def substitute(
    text: str,
    values: Mapping[str, str] | Callable[[Placeholder], str | None],
    partial: bool = True,
) -> str:
    """`text` with its placeholders replaced, in one pass: placeholders in replacements are not
    replaced.

    `values` maps `Placeholder.name` to its replacement, or is a function that returns it, or None
    to leave the placeholder as it is. KeyError for one that is left, unless `partial`.
    """
    lookup = values if callable(values) else lambda placeholder: values.get(placeholder.name)
    parts = []
    position = 0
    for placeholder in find(text):
        written = text[placeholder.start : placeholder.end]
        value = lookup(placeholder)
        if value is None and not partial:
            raise KeyError(written)
        if value is not None and placeholder.lower:
            value = value.lower()
        parts += [text[position : placeholder.start], written if value is None else value]
        position = placeholder.end
    return "".join(parts) + text[position:]


def compile_values(user: str, application: str, component: str) -> dict[str, str]:
    """The values of the COMPILE placeholders for `component`. With "" (credentials, the master)
    they do not include the two names of the component."""
    values = {
        "USER_NAME": user,
        "USER": user,
        "CLUSTER_NAME": application,
        "APP_NAME": application,
    }
    if component:
        values.update(COMPONENT_NAME=component, APP_COMPONENT_NAME=component)
    return values


def host_component(placeholder: Placeholder, components: Iterable[str]) -> str | None:
    """The component of a HOST placeholder: the one with exactly this name, or else the one whose
    name in capitals is used (`${PS_HOST}`). None if there is none."""
    names = tuple(components)
    if placeholder.component in names:
        return placeholder.component
    capitals = (name for name in names if name.upper() == placeholder.component)
    return next(capitals, None)


def resolve(values: Mapping[str, str]) -> dict[str, str]:
    """`values` (key -> text) with all REFERENCE placeholders replaced, transitively. A reference to
    a key that does not exist stays as it is.

    ReferenceCycleError for a cycle; ValueError beyond MAX_RESOLVED or MAX_TRAIL. Ports must be
    replaced before, because a copied port placeholder would become a second port.
    """
    done: dict[str, str] = {}
    for key in values:
        _resolve(key, values, done, ())
    return done


def _resolve(
    key: str, values: Mapping[str, str], done: dict[str, str], trail: tuple[Any, ...]
) -> str:
    if key in done:
        return done[key]
    if key in trail:
        raise ReferenceCycleError((*trail[trail.index(key) :], key))
    if len(trail) == MAX_TRAIL:
        raise ValueError(f"{trail[0]} goes through more than {MAX_TRAIL} references")
    length = len(values[key])

    def lookup(placeholder: Placeholder) -> str | None:
        nonlocal length
        if placeholder.kind != REFERENCE or placeholder.name not in values:
            return None
        value = _resolve(placeholder.name, values, done, (*trail, key))
        length += len(value)
        if length > MAX_RESOLVED:
            raise ValueError(f"{key} is longer than {MAX_RESOLVED} characters with its references")
        return value

    done[key] = substitute(values[key], lookup)
    return done[key]
