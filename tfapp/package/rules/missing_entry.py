"""The user's program is shipped neither with the package nor with `--files`.

`site.global.user.scripts.entry` is a path below `files/`. Its default is only looked for where
a component of a role that runs it (chief, worker, ps, evaluator) uses it.

    site.global.user.scripts.entry: train.py     files/train.py is there     PASS
    site.global.user.scripts.entry: train.py     --files src/train.py        PASS
    site.global.user.scripts.entry: train.py     neither                     FAIL
"""

from __future__ import annotations

from collections.abc import Iterator

from tfapp.close_match import close_match
from tfapp.package.model import FILES, AppPackage, Component, ConfigValue
from tfapp.package.rules.written import did_you_mean
from tfapp.package.safety import unsafe_reason
from tfapp.problems import Position, Problem

CODE = "missing-entry"
NEEDS = ("metainfo", "appConfig")
ENTRY = "site.global.user.scripts.entry"
TRAINING_ROLES = ("chief", "worker", "ps", "evaluator")


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports at the value that names the script."""
    inside = [name[len(FILES) :] for name in package.source.files() if name.startswith(FILES)]
    shipped = {*inside, *package.user_files}
    for component in package.components:
        entry = package.config.components.get(component.name, {}).get(ENTRY)
        if entry is None or not _is_used(entry, component) or _is_reported(entry):
            continue
        if entry.text not in shipped:
            programs = sorted(name for name in shipped if name.endswith((".py", ".sh")))
            hint = did_you_mean(
                close_match(entry.text, programs),
                f"put it into the package's {FILES}, or give it with --files",
            )
            script, at = f"'{entry.text}'", entry.at
            if entry.is_default:
                script, at = f"{script} (the default of {ENTRY})", Position(package.source.label)
            message = f"the entry script {script} is neither in {FILES} nor in --files"
            yield Problem(at, CODE, message, hint=hint)


def _is_used(entry: ConfigValue, component: Component) -> bool:
    return not entry.is_default or component.role in TRAINING_ROLES


def _is_reported(entry: ConfigValue) -> bool:
    """Whether unsafe-path or misplaced-placeholder says what is wrong with it."""
    return bool(unsafe_reason(entry.text)) or any(entry.placeholders())
