"""The file that a bug report needs."""

from __future__ import annotations

import datetime
import os
import platform
import sys
import tempfile
import traceback
from pathlib import Path

import tfapp


def write_bug_report(error: BaseException, arguments: list[str], home: Path) -> Path:
    """Writes versions, command and traceback to a file under `home`, or, where that cannot be
    written, under the system's folder for temporary files. Returns its path.

    Of the command line only the command and the flags' names are kept: values may be secret.
    """
    text = report_text(error, arguments)
    now = datetime.datetime.now(datetime.timezone.utc)
    name = f"bug-{now:%Y%m%d-%H%M%S}-{os.getpid()}.txt"
    try:
        folder = home / "bug-reports"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _write(folder / name, text)
    except OSError:
        return _write(Path(tempfile.mkdtemp(prefix="tfapp-")) / name, text)


def report_text(error: BaseException, arguments: list[str]) -> str:
    """The report: one fact a line, then the traceback."""
    words = arguments[:1] + [word.partition("=")[0] for word in arguments[1:] if word[:1] == "-"]
    return "\n".join(
        (
            f"tfapp {tfapp.__version__}",
            f"Python {sys.version}",
            platform.platform(),
            f"command: tfapp {' '.join(words)}",
            "",
            "".join(traceback.format_exception(type(error), error, error.__traceback__)),
        )
    )


def _write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return path
