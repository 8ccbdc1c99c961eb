"""The user's program is shipped neither with the package nor with `--files`.

`site.global.user.scripts.entry` is a path below `files/`. A value that somebody gives is always
looked for. The default only where a component may run it: its role is one that does (chief,
worker, ps, evaluator), and `user.scripts.entry` stands in the text of its script. A package whose
own scripts know what they run needs no such file.

    site.global.user.scripts.entry: train.py     files/train.py is there     PASS
    site.global.user.scripts.entry: train.py     --files src/train.py        PASS
    site.global.user.scripts.entry: train.py     neither                     FAIL
    the key is not given                         no script reads it          PASS
"""

from __future__ import annotations

from collections.abc import Iterator

from tfapp.close_match import close_match
from tfapp.errors import TfappError
from tfapp.package.model import FILES, AppPackage, Component, ConfigValue
from tfapp.package.rules.written import did_you_mean
from tfapp.package.safety import unsafe_reason
from tfapp.problems import Position, Problem

CODE = "missing-entry"
NEEDS = ("metainfo", "appConfig")
ENTRY = "site.global.user.scripts.entry"
TRAINING_ROLES = ("chief", "worker", "ps", "evaluator")
READ = b"user.scripts.entry"  # in a script that reads it from its context's `config`


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports at the value that names the script."""
    inside = [name[len(FILES) :] for name in package.source.files() if name.startswith(FILES)]
    shipped = {*inside, *package.user_files}
    for component in package.components:
        if not is_looked_for(component, package):
            continue
        entry = package.config.components[component.name][ENTRY]
        if entry.text not in shipped and not _is_reported(entry):
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


def is_looked_for(component: Component, package: AppPackage) -> bool:
    """Whether the program that ENTRY names has to be there for `component`."""
    entry = package.config.components.get(component.name, {}).get(ENTRY)
    if entry is None:
        return False
    runs = component.role in TRAINING_ROLES and _reads_entry(component, package)
    return runs or not entry.is_default


def _reads_entry(component: Component, package: AppPackage) -> bool:
    try:
        return READ in package.source.read(component.script)
    except TfappError:  # missing-script, unsafe-path or script-syntax says so
        return False


def _is_reported(entry: ConfigValue) -> bool:
    """Whether unsafe-path or misplaced-placeholder says what is wrong with it."""
    return bool(unsafe_reason(entry.text)) or any(entry.placeholders())
