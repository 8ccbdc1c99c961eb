"""More than one Python environment, or one that cannot be.

A program's interpreter stands on every machine (`python.executable`), or travels with the
application, as an archive that exists (`python.archive`) or as one that is made of packages
(`python.packages`). An archive is named by an absolute path or a URL, and by its extension:
`.tar.gz` or `.tgz` of conda-pack and venv-pack, or `.pex`.

    python.archive: /home/ann/env.tar.gz                                PASS
    python.archive: hdfs:///shared/env.pex                              PASS
    python.archive: env.tar.gz                                          FAIL
    python.archive: /home/ann/env.zip                                   FAIL
    python.archive: /env.tgz     python.executable: /opt/bin/python     FAIL
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tfapp.package.model import AppPackage
from tfapp.problems import Problem

CODE = "python-environment"
NEEDS = ("appConfig",)
MODE = "site.global.run.mode"
EXECUTABLE = "site.global.python.executable"
ARCHIVE = "site.global.python.archive"
PACKAGES = "site.global.python.packages"
EXTENSIONS = (".tar.gz", ".tgz", ".pex")

_URL = re.compile(r"[a-z][a-z0-9+.-]*://")


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports at the archive, or at the key that is one too many."""
    shared = package.config.global_
    if ARCHIVE in shared and PACKAGES in shared:
        message = f"{PACKAGES} is given, and {ARCHIVE} too"
        yield Problem(shared[PACKAGES].key_at, CODE, message, hint="give one of them")
    travelling = next((key for key in (ARCHIVE, PACKAGES) if key in shared), None)
    for values in (shared, *package.config.components.values()):
        mode = values.get(MODE)
        in_image = mode is not None and mode.text != "local"
        if travelling and EXECUTABLE in values and not in_image:
            message = f"{EXECUTABLE} is given, and {travelling} too"
            yield Problem(values[EXECUTABLE].key_at, CODE, message, hint="give one of them")
    if ARCHIVE in shared and not any(shared[ARCHIVE].placeholders()):
        yield from _check_archive(package)


def _check_archive(package: AppPackage) -> Iterator[Problem]:
    value = package.config.global_[ARCHIVE]
    if not value.text.endswith(EXTENSIONS):
        message = f"{value.text!r} is not named as an archive of Python"
        hint = f"expected {', '.join(EXTENSIONS[:-1])} (conda-pack, venv-pack) or .pex"
        yield Problem(value.at, CODE, message, hint=hint)
    if not value.text.startswith("/") and not _URL.match(value.text):
        message = f"{value.text!r} is relative"
        hint = "write an absolute path, or a URL such as hdfs:///shared/tensorflow.tar.gz"
        yield Problem(value.at, CODE, message, hint=hint)
