"""The Skein specification of an application."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tfapp.compiler.options import CompileOptions
from tfapp.compiler.python import Travelling, own_python
from tfapp.compiler.resources import settled
from tfapp.compiler.shipment import Shipment, ShippedFile
from tfapp.compiler.tags import TAG, definition_tag
from tfapp.compiler.yarn_docker import runtime_environment
from tfapp.contract.job import ComponentJob, Docker, Job, Resources, Settings
from tfapp.contract.names import (
    CANNOT_START,
    CANNOT_START_CODE,
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
from tfapp.frozen import frozen
from tfapp.package.model import AppPackage

if TYPE_CHECKING:
    import skein

_IMAGE_PYTHON = "python3"  # of an image that names no other

# The master is a JVM. With the sizes its heap is not dwarfed by reserved address space, which
# YARN's virtual-memory check would kill it for; with one compiler it takes half of the processor
# time until it is up; without java.util opened, Skein's web pages fail on Java 17. Java 8 refuses
# --add-opens, and does not read JDK_JAVA_OPTIONS.
MASTER_ENVIRONMENT = {
    "JAVA_TOOL_OPTIONS": "-XX:CompressedClassSpaceSize=64m -XX:ReservedCodeCacheSize=64m "
    "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "JDK_JAVA_OPTIONS": "--add-opens=java.base/java.util=ALL-UNNAMED",
    "MALLOC_ARENA_MAX": "2",
}


def build_specification(
    package: AppPackage,
    options: CompileOptions,
    job: Job,
    shipment: Shipment,
    images: Mapping[str, Docker],
    environments: Mapping[str, Travelling],
) -> skein.ApplicationSpec:
    """One service for each component of `job`, and the coordinator as the master's script.

    Skein requests the first container of each instance, while the coordinator starts, and
    restarts none: all later ones are the coordinator's. Components in `images` run in YARN's own
    Docker runtime. `environments`: see tfapp.compiler.python. Where there is a place for its
    files, a tag names its definition there. Credentials (`master.security`) are the engine's to
    add, at submission.
    """
    from tfapp.skein_library import skein

    # Keys of the whole application are equal for all components.
    settings = job.components[0].settings

    def python(component: str) -> _Python:
        own, key = own_python(package, options, component)
        return _Python(own, key, environments.get(component), options.python_runs)

    coordinator = python("")
    if coordinator.python != PYTHON:  # another interpreter runs it, which needs no environment
        coordinator = dataclasses.replace(coordinator, travelling=None)
    spec = skein.ApplicationSpec(
        name=options.name,
        queue=options.queue,
        node_label=package.master.container.label,
        tags={TAG, *options.tags},
        acls=_acls(settings),
        file_systems=list(settings.names("hadoop.file.systems")),
        max_attempts=1,
        master=_master(package, options, shipment, coordinator),
        services={
            c.name: _service(c, shipment, images.get(c.name), python(c.name))
            for c in job.components
        },
    )
    if options.place:
        spec.tags.add(definition_tag(spec))
    return spec


def _acls(settings: Settings) -> skein.ACLs:
    """Access for the owner, and for the users and groups that are named."""
    from tfapp.skein_library import skein

    return skein.ACLs(
        enable=True,
        view_users=list(settings.names("acl.view.users")),
        view_groups=list(settings.names("acl.view.groups")),
        modify_users=list(settings.names("acl.modify.users")),
        modify_groups=list(settings.names("acl.modify.groups")),
        ui_users=list(settings.names("acl.ui.users")),
    )


_SCRIPT = """\
set -euo pipefail
python={python}
{unpack}if ! command -v -- "$python" > /dev/null; then
  problem="{missing}"
{look}else
  exec "$python" -u {runtime} {program}
fi
echo "{mark}$problem ({key})"
exit {code}
"""
_LOOK = """\
elif ! words=$("$python" -S -c "" 2>&1); then
  problem="$python does not run: ${words##*$'\\n'}"
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


def container_script(
    python: str, program: str, key: str, pex: bool = False, runs: bool = False
) -> str:
    """Strict bash that becomes `program` ("runner" or "coordinator") of the runtime archive, or
    says why it cannot. `key`: the one that has named `python`; `pex`: it is in a PEX; `runs`: it
    is known to run there, and is not started twice to find out."""
    return _SCRIPT.format(
        python=shlex.quote(python),
        missing=_NO_ENVIRONMENT if python == PYTHON else _NO_PYTHON,
        unpack=_UNPACK if pex else "",
        look="" if runs else _LOOK,
        runtime=RUNTIME_DIR,
        program=program,
        mark=CANNOT_START,
        key=key,
        code=CANNOT_START_CODE,
    )


@frozen
class _Python:
    """Python in a container: the command of tfapp's own part, and the archive that travels."""

    python: str
    key: str
    travelling: Travelling | None
    runs: bool = False

    def script(self, program: str) -> str:
        pex = self.travelling is not None and self.travelling.is_pex
        return container_script(self.python, program, self.key, pex, self.runs)

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
        resources=_resources(settled(package.master.container, options.maximum)),
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
    shipment: Shipment,
    image: Docker | None,
    python: _Python,
) -> skein.Service:
    from tfapp.skein_library import skein

    asked = component.container
    if image is not None:
        named = component.settings.text("python.executable") or _IMAGE_PYTHON
        python = _Python(named, "site.global.python.executable", None)

    return skein.Service(
        resources=_resources(asked),
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


def _resources(size: Resources) -> skein.Resources:
    from tfapp.skein_library import skein

    return skein.Resources(memory=size.memory, vcores=size.vcores, gpus=size.gpus)


def _archive(shipped: ShippedFile) -> skein.File:
    from tfapp.skein_library import skein

    # Files of the shared folder are PRIVATE: a node keeps them from one application to the next.
    visibility = "PRIVATE" if shipped.place else "APPLICATION"
    return skein.File(source=shipped.source, type="ARCHIVE", visibility=visibility)


def _file(shipped: ShippedFile) -> skein.File:
    from tfapp.skein_library import skein

    return skein.File(source=shipped.source, type="FILE")
