"""The git commit of a program's source."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tfapp import tools

LIMIT = 5.0  # seconds for git, which looks at all files that it knows
_STATUS = ("--no-optional-locks", "status", "--porcelain=v2", "--branch", "--untracked-files=no")
_COMMIT = "# branch.oid "
_NONE_YET = "(initial)"


def commit_of(folder: Path, environ: Mapping[str, str]) -> str:
    """The commit that is checked out in `folder`, with " (changed)" where files that git knows have
    changed since. "" where there is none, or git cannot tell in time."""
    if not any((place / ".git").exists() for place in (folder, *folder.parents)):
        return ""
    # A hook of git sets variables about another repository.
    plain = {name: value for name, value in environ.items() if not name.startswith("GIT_")}
    try:
        lines = tools.output(("git", *_STATUS), plain, LIMIT, folder).splitlines()
    except tools.ToolError:
        return ""
    commit = "".join(line[len(_COMMIT) :] for line in lines if line.startswith(_COMMIT))
    if commit == _NONE_YET:
        return ""
    changed = any(not line.startswith("#") for line in lines)
    return f"{commit} (changed)" if changed else commit
