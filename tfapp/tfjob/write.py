"""Writes the package that a TFJob has become."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tfapp.documents import read_document, render_yaml
from tfapp.package.safety import SCHEMAS
from tfapp.schema import KINDS
from tfapp.shipped import app_packages_dir, schemas_dir
from tfapp.tfjob.convert import Imported, safe_name

_HEADER = "# yaml-language-server: $schema={}/{}.schema.json\n# Imported from a TFJob.\n"


def write(imported: Imported, folder: Path) -> None:
    """Writes it to `folder`, which is new or empty: the documents, and of tfapp's own TensorFlow
    package these components, its script and the schema of its ports. OSError."""
    own = app_packages_dir() / "tensorflow"
    shutil.copytree(own / "scripts", folder / "scripts", ignore=shutil.ignore_patterns("__*"))
    kept = {*imported.counts, "tensorboard"}  # which has no instances, until it is given one
    ports = json.loads((own / "appConfig.schema.json").read_text(encoding="utf-8"))
    ports["properties"] = {
        key: value for key, value in ports["properties"].items() if key.split(".")[2] in kept
    }
    schema = json.dumps(ports, indent=2) + "\n"
    (folder / "appConfig.schema.json").write_text(schema, encoding="utf-8")
    (folder / SCHEMAS).mkdir()
    for kind in KINDS:
        shutil.copy(schemas_dir() / f"{kind}.schema.json", folder / SCHEMAS)
    shipped, _ = read_document("metainfo", (own / "metainfo.yaml").read_bytes(), "yaml")
    assert shipped is not None
    metainfo = shipped.data
    application = {**metainfo["application"], "name": safe_name(imported.name)}
    application.pop("packages")  # there is no program in the package
    for key in ("components", "exportGroups"):
        application[key] = [one for one in application[key] if one["name"] in kept]
    for component in application["components"]:
        if "maxInstanceCount" in component:
            component["maxInstanceCount"] = imported.counts.get(component["name"], 1)
    documents = {
        "metainfo": {**metainfo, "application": {**application, **imported.application}},
        "appConfig": imported.app_config,
        "resources": imported.resources,
    }
    for kind, document in documents.items():
        name = "metainfo" if kind == "metainfo" else f"{kind}-default"
        text = _HEADER.format(SCHEMAS, kind) + render_yaml(document)
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    for name, pod in imported.pods.items():
        (folder / name).write_text(render_yaml(pod), encoding="utf-8")
