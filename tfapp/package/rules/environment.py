"""The Python environment of the programs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tfapp.package.model import LOCAL, AppPackage, ConfigValue, setting
from tfapp.package.rules.rule import Found, rule
from tfapp.problems import WARNING

EXTENSIONS = (".tar.gz", ".tgz", ".pex")

_URL = re.compile(r"[a-z][a-z0-9+.-]*://")


@rule("python-environment", "appConfig")
def python_environment(package: AppPackage) -> Iterator[Found]:
    """More than one Python environment, or one that cannot be.

    A program's interpreter stands on every machine (`python.executable`), or travels with the
    application, as an archive that exists (`python.archive`) or as one that is made of packages
    (`python.packages`), with an interpreter of its own where one is asked for (`python.version`).
    An archive of a component's own takes the place of what `global` says. An archive is named by
    an absolute path or a URL, and by its extension: `.tar.gz` or `.tgz` of conda-pack and
    venv-pack, or `.pex`. Reported at the archive, or at the key that is one too many.

        python.archive: /home/ann/env.tar.gz                                PASS
        python.archive: hdfs:///shared/env.pex                              PASS
        python.archive: env.tar.gz                                          FAIL
        python.archive: /home/ann/env.zip                                   FAIL
        python.archive: /env.tgz     python.executable: /opt/bin/python     FAIL
        python.packages: keras       python.version: "3.11"                 PASS
        python.archive: /env.tgz     python.version: "3.11"                 FAIL
        run.mode: docker     python.archive: /env.tgz (of a component)      WARNING
        run.mode: docker     python.packages: keras                         WARNING
    """
    shared = package.config.global_
    common = setting(shared, "python.archive")
    made = {key: setting(shared, f"python.{key}") for key in ("packages", "version")}
    given = next((key for key, value in made.items() if value), "")
    for key, value in made.items():
        if common and value:
            message = f"site.global.python.{key} is given, and site.global.python.archive too"
            yield Found(value.key_at, message, "give one of them")
    each = package.config.components.items()
    imaged = [name for name, one in each if package.instances(name) and _in_image(one)]
    if made["packages"] and imaged:
        message = f"none of these packages is added to the image of {', '.join(imaged)}"
        hint = "install them in the image, or set run mode local"
        yield Found(made["packages"].key_at, message, hint, WARNING)
    for values in (shared, *package.config.components.values()):
        archive, in_image = setting(values, "python.archive"), _in_image(values)
        executable = setting(values, "python.executable")
        own = archive is not None and archive is not common
        if archive and own and in_image:
            message = "the program runs in an image, by the Python that is there"
            yield Found(archive.key_at, message, "remove it, or set run mode local", WARNING)
        displaced = own and executable is setting(shared, "python.executable")
        if (archive or given) and executable and not (in_image or displaced):
            travelling = f"site.global.python.{'archive' if archive else given}"
            message = f"site.global.python.executable is given, and {travelling} too"
            yield Found(executable.key_at, message, "give one of them")
        if archive:
            yield from _named(archive)


def _in_image(values: Mapping[str, ConfigValue]) -> bool:
    mode = setting(values, "run.mode")
    return mode is not None and mode.text != LOCAL


def _named(archive: ConfigValue) -> Iterator[Found]:
    """By its absolute path or URL, and its extension."""
    if any(archive.placeholders()):
        return
    if not archive.text.endswith(EXTENSIONS):
        message = f"{archive.text!r} is not named as an archive of Python"
        hint = f"expected {', '.join(EXTENSIONS[:-1])} (conda-pack, venv-pack) or .pex"
        yield Found(archive.at, message, hint)
    if not archive.text.startswith("/") and not _URL.match(archive.text):
        hint = "write an absolute path, or a URL such as hdfs:///shared/tensorflow.tar.gz"
        yield Found(archive.at, f"{archive.text!r} is relative", hint)
