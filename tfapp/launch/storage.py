"""The packages by which programs open URLs such as hdfs:// and s3://: whether they travel with an
application, and for which Python."""

from __future__ import annotations

from pathlib import Path

from tfapp.contract.names import OPENED_SCHEMES
from tfapp.disk import using_cache
from tfapp.engines.base import Engine
from tfapp.environment import build, libraries, unpacked
from tfapp.errors import InvalidPackageError, UnavailableError
from tfapp.launch.caller import Caller
from tfapp.package.model import AppPackage, ConfigValue, setting
from tfapp.package.rules.values import FOLDER_KEYS, scheme_of
from tfapp.problems import Problem

CODE = "storage"


def made_storage(
    package: AppPackage, engine: Engine, caller: Caller, environments: Path, dry_run: bool
) -> Path | None:
    """The archive of the packages. None where site.global.storage is false, and where no folder is
    a URL and this Python does not have them. With `dry_run` only its path is returned.
    InvalidPackageError when a folder is a URL and they cannot be had."""
    urls = list(_urls(package))
    here = libraries.are_here()
    wanted = setting(package.config.global_, "storage")
    if (wanted and wanted.text != "true") or not (urls or here):
        return None
    version, platform = (
        value.text if (value := setting(package.config.global_, f"python.{key}")) else ""
        for key in ("version", "platform")
    )
    version = version or build.version_here()
    platform = build.HERE if engine.sees_home else build.platform_of(platform)
    try:
        place = libraries.place(version, platform, environments)
        if not dry_run:
            with using_cache(environments):
                libraries.make(place, version, platform, caller.python, caller.environ, caller.note)
                if engine.sees_home:
                    unpacked.unpack(place, environments)
    except UnavailableError as error:
        if not urls:
            return None
        value = urls[0]
        message = f"{value.text} cannot be opened: {error.message}"
        problem = Problem(value.at, CODE, message, hint=error.hint)
        raise InvalidPackageError((problem,)) from error
    return place


def _urls(package: AppPackage) -> list[ConfigValue]:
    """The folders that these packages open."""
    sections = (package.config.global_, *package.config.components.values())
    values = [setting(section, key) for section in sections for key in FOLDER_KEYS]
    return [value for value in values if value and scheme_of(value.text) in OPENED_SCHEMES]
