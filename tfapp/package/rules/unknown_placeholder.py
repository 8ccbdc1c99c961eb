"""A placeholder that nothing replaces.

Known are the names in `tfapp.placeholders`, `${<component>_HOST}`,
`${<component>.ALLOCATED_PORT}` and `${site.<type>.<key>}`. A value is not given to a shell:
`${HOME}` would stay as it is.

    "${USER_NAME}"      PASS
    "${USER_NAM}"       FAIL
    "${USER_NAME"       FAIL
"""

from __future__ import annotations

from collections.abc import Iterator

from tfapp import placeholders
from tfapp.close_match import close_match
from tfapp.package.model import AppPackage
from tfapp.package.rules.written import all_values, component_names, did_you_mean
from tfapp.placeholders import UNKNOWN, Placeholder
from tfapp.problems import Position, Problem

CODE = "unknown-placeholder"
NEEDS = ("metainfo",)

# Slider replaced these; what they name does not exist here.
SLIDERS = {
    "NN_URI": "the cluster's file system",
    "DEFAULT_ZK_PATH": "a ZooKeeper path of the application",
    "DEFAULT_DATA_DIR": "a folder inside the application's own, which `destroy` deletes",
    "JAVA_HOME": "the Java of Slider's agent",
    "COMPONENT_PREFIX": "the name of another Slider application",
    "CLUSTER": "the application's name, here ${CLUSTER_NAME}",
}


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports at the placeholder."""
    known = _known(package)
    for export in package.exports:
        for placeholder, at in export.placeholders():
            yield from _check(placeholder, at, export.value, known)
    for _, value in all_values(package):
        for placeholder, at in value.placeholders():
            yield from _check(placeholder, at, value.text, known)


def _check(
    placeholder: Placeholder, at: Position, text: str, known: tuple[str, ...]
) -> Iterator[Problem]:
    if placeholder.kind != UNKNOWN:
        return
    spelled = text[placeholder.start : placeholder.end]
    if not spelled.endswith("}"):
        yield Problem(at, CODE, "this '${' is never closed", hint="add the '}'")
        return
    name = placeholder.name
    if name.startswith(("site.", "@//")):
        hint = "a reference is ${site.<type>.<key>}, such as ${site.global.worker.port}"
    elif name in SLIDERS:
        hint = f"in Slider it meant {SLIDERS[name]}; write what you mean"
    else:
        match = close_match(name, known)
        otherwise = "values are not given to a shell; write what it stands for"
        hint = did_you_mean(f"${{{match}}}" if match else "", otherwise)
    yield Problem(at, CODE, f"there is no placeholder {spelled}", hint=hint)


def _known(package: AppPackage) -> tuple[str, ...]:
    names = component_names(package)
    return (
        *placeholders.NAMES,
        *(f"{name}_HOST" for name in names),
        *(f"{name}.ALLOCATED_PORT" for name in names),
        *(key for key in package.config.global_ if key.startswith("site.")),
    )
