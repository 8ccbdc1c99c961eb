"""What a call ships below files/, made by hand, and a program of it in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import cloudpickle

import tfapp
from tfapp.api.travel import pack
from tfapp.program import entry

SHIPPED = (*pack._OWN, "program")
LIMIT = 300.0  # seconds


def ship(files: Path, components: Mapping[str, Mapping[str, Any]], **call: Any) -> Path:
    """Makes files/tfapp-call; the path of what is started there."""
    folder = files / "tfapp-call"
    root = Path(tfapp.__file__).parent
    for name in SHIPPED:
        target = folder / "tfapp" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (root / name).is_dir():
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(root / name, target, ignore=ignore, dirs_exist_ok=True)
        else:
            shutil.copy(root / name, target)
    shutil.copytree(Path(cloudpickle.__file__).parent, folder / "cloudpickle", dirs_exist_ok=True)
    written = {"python": list(sys.version_info[:2]), "components": components, **call}
    (folder / "call.json").write_text(json.dumps(written))
    return Path(shutil.copy(entry.__file__, folder / "main.py"))


def pickled(files: Path, function: Callable[..., Any], file: str = "program.pkl") -> dict[str, str]:
    """A component's entry in call.json for a function, which is pickled by value."""
    (files / "tfapp-call").mkdir(parents=True, exist_ok=True)
    module = sys.modules[function.__module__]
    cloudpickle.register_pickle_by_value(module)
    try:
        (files / "tfapp-call" / file).write_bytes(cloudpickle.dumps(function))
    finally:
        cloudpickle.unregister_pickle_by_value(module)
    return {"kind": "pickle", "file": file, "name": function.__name__}


def start(main: Path, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Runs a shipped program as a runner does, in a process that finds no other tfapp."""
    log = folder / "log"
    log.mkdir(exist_ok=True)
    env = {
        "PATH": os.environ["PATH"],
        "TFAPP_COMPONENT": "worker",
        "TFAPP_LOG_DIR": str(log),
        "TFAPP_WORK_DIR": str(folder),
        **environ,
    }
    return subprocess.run(
        [sys.executable, str(main)],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
