"""A request as a package on disk."""

from __future__ import annotations

import shutil
from pathlib import Path

from tfapp.disk import writing
from tfapp.errors import ExistsError
from tfapp.launch.caller import Caller
from tfapp.launch.submission import Request
from tfapp.package.write import write_package
from tfapp.problems import text_report


def write_request(request: Request, folder: Path, caller: Caller) -> Path:
    """Writes what `request` means as a package to `folder`, and returns it. Nothing secret is
    written. ExistsError unless `folder` is new or empty, InvalidPackageError, UnavailableError
    when it cannot be written."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise ExistsError(f"{folder} exists and is not an empty folder", "Choose another one.")
    existed = folder.exists()
    try:
        with writing(folder):
            problems = write_package(
                folder,
                request.appdef,
                template=request.template,
                resources=request.resources,
                overrides=request.overrides,
                user_files=request.files,
                programs=request.programs,
                environment=request.environment,
            )
    except BaseException:
        if not existed:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    if problems:
        caller.note(text_report(problems))
    if request.secret_environment:
        names = ", ".join(sorted(request.secret_environment))
        caller.note(f"not written, as they are secret: {names}; give them by --secret-env-file")
    return folder
