"""What a call ships, unpacked and run as a container runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import tfapp
from tests import programs
from tfapp.api.travel.pack import Pack

LIMIT = 300.0  # seconds


def own_names(packed: Pack) -> set[str]:
    """The files that are the user's."""
    return {name for name in packed.files if not name.startswith("tfapp-call/")}


def call(packed: Pack) -> dict[str, Any]:
    content = packed.files["tfapp-call/call.json"]
    assert isinstance(content, bytes)
    return json.loads(content)


def unpack(packed: Pack, folder: Path) -> Path:
    for name, content in packed.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.read_bytes())
    return folder


def run(folder: Path, component: str = "chief") -> subprocess.CompletedProcess[str]:
    """The entry of a component, by an interpreter that finds neither this tfapp nor the user's
    modules."""
    environ = {"TFAPP_COMPONENT": component, "TFAPP_LOG_DIR": str(folder), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-I", str(folder / "tfapp-call" / "main.py")]
    return subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, timeout=LIMIT
    )


# The end of a program that submits itself: what would be shipped is written below `there`.
SUBMITS = """
if __name__ == "__main__":
    import json, sys
    from pathlib import Path
    from tfapp.api.travel.pack import pack
    from tests.api.travel.shipping import unpack
    packed = pack({"chief": train}, Path.cwd())
    unpack(packed, Path("there"))
    print(json.dumps([packed.notes, [str(one) for one in packed.needs.modules["chief"]]]))
"""


def submit(command: list[str], cwd: Path) -> tuple[list[str], str]:
    """Runs a program that ends with SUBMITS. What it notes, and what it needs."""
    repository = Path(tfapp.__file__).parents[1]
    environ = {"PYTHONPATH": str(repository)}
    printed = programs.printed(*command, cwd=cwd, environ=environ, limit=LIMIT)
    notes, needed = json.loads(printed.splitlines()[-1])
    return notes, "\n".join(needed)
