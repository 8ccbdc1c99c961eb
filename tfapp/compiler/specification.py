"""The Skein specification of an application."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tfapp.compiler.options import CompileOptions
from tfapp.compiler.python import EXECUTABLE, Travelling, travelling
from tfapp.compiler.resources import Amounts, amounts
from tfapp.compiler.shipment import Shipment, ShippedFile
from tfapp.compiler.tags import TAG, definition_tag
from tfapp.compiler.yarn_docker import runtime_environment
from tfapp.contract.container import (
    FILES_DIR,
    JOB_FILE,
    PACKAGE_DIR,
    PEX_FILE,
    PEX_ROOT,
    PRIVATE_FILE,
    PYTHON,
    PYTHON_DIR,
    RUNTIME_DIR,
)
from tfapp.contract.docker import Docker
from tfapp.contract.job import ComponentJob, Job
from tfapp.contract.log_lines import CANNOT_START, CANNOT_START_CODE
from tfapp.package.model import AppPackage

if TYPE_CHECKING:
    import skein

_IMAGE_PYTHON = "python3"  # of an image that names no other

# The master is a JVM. With the sizes its heap is not dwarfed by reserved address space, which
# YARN's virtual-memory check would kill it for; without java.util opened, Skein's web pages
# fail on Java 17. Java 8 refuses --add-opens, and does not read JDK_JAVA_OPTIONS.
MASTER_ENVIRONMENT = {
    "JAVA_TOOL_OPTIONS": "-XX:CompressedClassSpaceSize=64m -XX:ReservedCodeCacheSize=64m "
    "-XX:+UseSerialGC",
    "JDK_JAVA_OPTIONS": "--add-opens=java.base/java.util=ALL-UNNAMED",
    "MALLOC_ARENA_MAX": "2",
}


def build_specification(
    package: AppPackage,
    options: CompileOptions,
    job: Job,
    shipment: Shipment,
    images: Mapping[str, Docker],
) -> skein.ApplicationSpec:
    """One service for each component of `job`, and the coordinator as the master's script.

    Skein requests the first container of each instance, while the coordinator starts, and
    restarts none: all later ones are the coordinator's. Components in `images` run in YARN's own
    Docker runtime. Where there is a place for its files, a tag names its definition there.
    Credentials (`master.security`) are the engine's to add, at submission.
    """
    from tfapp.skein_library import skein

    environment = travelling(package, options)
    python = _Python(options.python, options.python_key, environment)
    # Where another interpreter runs the coordinator, its container does without.
    needed = environment if options.python == PYTHON else None
    master = _master(package, options, shipment, dataclasses.replace(python, travelling=needed))
    spec = skein.ApplicationSpec(
        name=options.name,
        queue=options.queue,
        node_label=package.master.label,
        tags={TAG, *options.tags},
        acls=_acls(job),
        file_systems=_named(job, "site.global.hadoop.file.systems"),
        max_attempts=1,
        master=master,
        services={
            component.name: _service(
                component, package, shipment, images.get(component.name), python
            )
            for component in job.components
        },
    )
    if options.place:
        spec.tags.add(definition_tag(spec))
    return spec


def _acls(job: Job) -> skein.ACLs:
    """The owner's alone, but for those who are named."""
    from tfapp.skein_library import skein

    return skein.ACLs(
        enable=True,
        **{
            field: _named(job, f"site.global.acl.{field.replace('_', '.')}")
            for field in ("view_users", "view_groups", "modify_users", "modify_groups", "ui_users")
        },
    )


def _named(job: Job, key: str) -> list[str]:
    """What is separated by commas in a key of the whole application, equal for all components."""
    words = job.components[0].site.get(key, "").split(",")
    return [name for word in words if (name := word.strip())]


_SCRIPT = """\
set -euo pipefail
python={python}
{unpack}if ! command -v -- "$python" > /dev/null; then
  problem="{missing}"
elif ! words=$("$python" -S -c "" 2>&1); then
  problem="$python does not run: ${{words##*$'\\n'}}"
else
  exec "$python" -u {runtime} {program}
fi
echo "{mark}$problem ({key})"
exit {code}
"""
_NO_PYTHON = "there is no Python interpreter $python"
# YARN takes an archive that was cut off for a whole one.
_NO_ENVIRONMENT = "the archive was not unpacked whole, or has no bin/python"
# A PEX becomes the virtual environment that it holds: its interpreter is one like any other.
_UNPACK = f"""\
if ! words=$(PEX_INTERPRETER=1 PEX_ROOT="$PWD/{PEX_ROOT}" ./{PEX_FILE} -c \\
    'import os, sys; os.symlink(sys.prefix, "{PYTHON_DIR}")' 2>&1); then
  problem="the PEX does not run: ${{words##*$'\\n'}}"
el"""


def container_script(python: str, program: str, key: str = EXECUTABLE, pex: bool = False) -> str:
    """Strict bash that becomes `program` ("runner" or "coordinator") of the runtime archive, or
    says why it cannot. `key`: the one that has named `python`; `pex`: it is in a PEX."""
    return _SCRIPT.format(
        python=shlex.quote(python),
        missing=_NO_ENVIRONMENT if python == PYTHON else _NO_PYTHON,
        unpack=_UNPACK if pex else "",
        runtime=RUNTIME_DIR,
        program=program,
        mark=CANNOT_START,
        key=key,
        code=CANNOT_START_CODE,
    )


@dataclasses.dataclass(frozen=True)
class _Python:
    """What every container has of Python: how tfapp's own part is run, and what travels."""

    python: str
    key: str
    travelling: Travelling | None

    def script(self, program: str) -> str:
        pex = self.travelling is not None and self.travelling.is_pex
        return container_script(self.python, program, self.key, pex)

    def files(self) -> dict[str, skein.File]:
        from tfapp.skein_library import skein

        if self.travelling is None:
            return {}
        pex = self.travelling.is_pex
        name, kind = (PEX_FILE, "FILE") if pex else (PYTHON_DIR, "ARCHIVE")
        visibility = "PRIVATE" if self.travelling.placed else "APPLICATION"
        source = self.travelling.url
        return {name: skein.File(source=source, type=kind, visibility=visibility)}


def _master(
    package: AppPackage, options: CompileOptions, shipment: Shipment, python: _Python
) -> skein.Master:
    from tfapp.skein_library import skein

    return skein.Master(
        resources=_resources(amounts(package.master, options.maximum)),
        script=python.script("coordinator"),
        files={
            RUNTIME_DIR: _archive(shipment.runtime),
            JOB_FILE: _file(shipment.job),
            PRIVATE_FILE: _file(shipment.private),
            **python.files(),
        },
        env=dict(MASTER_ENVIRONMENT),
    )


def _service(
    component: ComponentJob,
    package: AppPackage,
    shipment: Shipment,
    image: Docker | None,
    python: _Python,
) -> skein.Service:
    from tfapp.skein_library import skein

    asked = package.resources[component.name]
    if image is not None:
        python = _Python(component.site.get(EXECUTABLE) or _IMAGE_PYTHON, EXECUTABLE, None)

    return skein.Service(
        resources=_resources(Amounts(component.memory, component.vcores, component.gpus)),
        script=python.script("runner"),
        instances=component.instances,
        files={
            RUNTIME_DIR: _archive(shipment.runtime),
            PACKAGE_DIR: _archive(shipment.package),
            FILES_DIR: _archive(shipment.files),
            JOB_FILE: _file(shipment.job),
            PRIVATE_FILE: _file(shipment.private),
            **python.files(),
        },
        env=runtime_environment(image) if image is not None else {},
        max_restarts=0,
        allow_failures=True,
        node_label=asked.label,
        nodes=list(asked.nodes),
        racks=list(asked.racks),
        relax_locality=asked.relax_locality,
    )


def _resources(size: Amounts) -> skein.Resources:
    from tfapp.skein_library import skein

    return skein.Resources(memory=size.memory, vcores=size.vcores, gpus=size.gpus)


def _archive(shipped: ShippedFile) -> skein.File:
    from tfapp.skein_library import skein

    # What lies at a place is shared: a node keeps it from one application to the next.
    visibility = "PRIVATE" if shipped.place else "APPLICATION"
    return skein.File(source=shipped.source, type="ARCHIVE", visibility=visibility)


def _file(shipped: ShippedFile) -> skein.File:
    from tfapp.skein_library import skein

    return skein.File(source=shipped.source, type="FILE")
