"""The specification that was submitted, from the staging folder of a running application."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import skein
from skein import proto


def spec_of(application: str, folder: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    """The specification that Skein's application master has read, as `comparable` makes it,
    without what Skein's client adds. `folder` is for a copy of the staging folder."""
    get = ["hdfs", "dfs", "-get", f".skein/{application}", str(folder)]
    subprocess.run(get, env=environ, capture_output=True, check=True, timeout=180)
    staged = folder / application
    message = proto.ApplicationSpec()
    message.ParseFromString((staged / ".skein.proto").read_bytes())
    spec = skein.ApplicationSpec.from_protobuf(message).to_dict()
    del spec["master"]["security"]
    for name, service in spec["services"].items():
        assert service["script"] == f"bash .skein.sh ><LOG_DIR>/{name}.log 2>&1"
        service["script"] = (staged / f"{name}.sh").read_text()
        service["env"].pop("LANG", None)
    return comparable({**spec, "max_attempts": message.max_attempts})  # Skein reads one back


def comparable(spec: dict[str, Any]) -> dict[str, Any]:
    """`spec` with its tags in order, without sizes and times of files, which a submission finds
    out, and of those that it has uploaded the names alone."""
    for part in (spec["master"], *spec["services"].values()):
        part["files"] = {
            key: (_place(file["source"]), file["type"], file["visibility"])
            for key, file in part["files"].items()
            if not key.startswith(".skein.")
        }
    return {**spec, "tags": sorted(spec["tags"])}


def _place(source: str) -> str:
    uploaded = source.startswith("file:") or "/.skein/" in source
    return source.rpartition("/")[2] if uploaded else source
