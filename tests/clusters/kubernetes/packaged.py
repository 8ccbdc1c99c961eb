"""Applications for tests of engines (tests/engines/applications.py) as whole ones: the Kubernetes
engine makes its pods of a package, and its master of the runtime archive."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from pathlib import Path

from tests.clusters.kubernetes.pod_images import GRPC
from tests.engines.applications import CompiledLike
from tfapp.compiler.compile import Compiled, CompileOptions, compile_application
from tfapp.compiler.shipment import ShippedFile
from tfapp.engines.definition import Definition
from tfapp.engines.kubernetes.engine import KubernetesEngine
from tfapp.package.load import load_package

SCHEMA = "http://example.org/specification/v2.0.0"
CONFIG = {
    "site.global.docker.image": GRPC,
    "site.global.kubernetes.cpu.request": "10m",
    "site.global.stop.grace": "5",
}


class PackagingEngine(KubernetesEngine):
    """Takes such applications."""

    def create(self, name, compiled):
        return super().create(name, packaged(compiled, self))


def packaged(like: CompiledLike, engine: KubernetesEngine) -> Compiled:
    """`like` with a package of its components, and with tfapp's own files."""
    home = engine._cache_home
    packages = home / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=packages))  # of its own: several may create one name at once
    write_package(folder, list(like.spec.services))
    package = load_package(folder).package
    assert package is not None, load_package(folder).problems
    options = CompileOptions(like.spec.name, "somebody", "python3", home / "cache")
    made = compile_application(package, engine.options(options, package))
    sources = Definition.of(like.spec.name, like).local_files()
    files = tuple(ShippedFile(path, path.read_bytes()) for path in sources)
    plan = dataclasses.replace(made.plan, job=like.job)
    return dataclasses.replace(
        made, spec=like.spec, job=like.job, files=(made.files[0], *files), plan=plan
    )


def write_package(folder: Path, components: list[str]) -> None:
    """One whose components run nothing by themselves."""
    script = {"script": "scripts/nothing.py", "scriptType": "PYTHON"}
    documents = {
        "metainfo.json": {
            "schemaVersion": "2.1",
            "application": {
                "name": "plain",
                "components": [
                    {"name": name, "role": "other", "commandScript": script} for name in components
                ],
            },
        },
        "appConfig-default.json": {"schema": SCHEMA, "global": CONFIG},
        "resources-default.json": {
            "schema": SCHEMA,
            "components": {
                name: {"yarn.role.priority": number, "yarn.component.instances": 1}
                for number, name in enumerate(components, 1)
            },
        },
    }
    (folder / "scripts").mkdir()
    (folder / "scripts" / "nothing.py").write_text("")
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document))
