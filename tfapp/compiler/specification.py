"""The Skein specification of an application."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tfapp.compiler.job import settled
from tfapp.compiler.options import CompileOptions
from tfapp.compiler.plan import Plan, Python, Travelling
from tfapp.compiler.shipment import Shipment, ShippedFile
from tfapp.contract.job import ComponentJob, Resources, Settings
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
    STORAGE_DIR,
)

if TYPE_CHECKING:
    import skein


def build_specification(
    plan: Plan,
    options: CompileOptions,
    shipment: Shipment,
    pythons: Mapping[str, Python],
    storage: Travelling | None = None,
) -> skein.ApplicationSpec:
    """One service for each component, and the coordinator as the master's script.

    Skein requests the first container of each instance, while the coordinator starts, and
    restarts none: all later ones are the coordinator's. `pythons`: the Python of each component,
    and under "" that of the master, with environments at their places; `storage`: see Compiled.
    Credentials
    (`master.security`) are the engine's to add, at submission.
    """
    from tfapp.skein_library import skein

    package, job = plan.package, plan.job
    # Keys of the whole application are equal for all components.
    settings = job.components[0].settings
    coordinator = pythons[""]
    if coordinator.own != PYTHON:  # another interpreter runs it, which needs no environment
        coordinator = dataclasses.replace(coordinator, travelling=None)
    return skein.ApplicationSpec(
        name=options.name,
        queue=options.queue,
        node_label=package.master.container.label,
        tags=set(options.tags),
        acls=_acls(settings),
        file_systems=list(settings.names("hadoop.file.systems")),
        max_attempts=1,
        master=_master(
            settled(package.master.container, options.maximum),
            shipment,
            coordinator,
            storage if "://" in settings.text("history.dir") else None,
        ),
        services={
            component.name: _service(component, shipment, pythons[component.name], storage)
            for component in job.components
        },
    )


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


def _script(python: Python, program: str) -> str:
    pex = python.travelling is not None and python.travelling.is_pex
    return container_script(python.own, program, python.key, pex, python.runs)


def _environment(python: Python) -> dict[str, skein.File]:
    found = python.travelling
    if found is None:
        return {}
    return {PEX_FILE if found.is_pex else PYTHON_DIR: _travelling(found)}


def _packages(storage: Travelling | None) -> dict[str, skein.File]:
    """Those that open URLs, for programs, or for a master that writes to one."""
    return {} if storage is None else {STORAGE_DIR: _travelling(storage)}


def _travelling(found: Travelling) -> skein.File:
    from tfapp.skein_library import skein

    kind = "FILE" if found.is_pex else "ARCHIVE"
    visibility = "PRIVATE" if found.placed else "APPLICATION"
    return skein.File(source=found.url, type=kind, visibility=visibility)


def _master(
    size: Resources, shipment: Shipment, python: Python, storage: Travelling | None
) -> skein.Master:
    from tfapp.skein_library import skein

    return skein.Master(
        resources=_resources(size),
        script=_script(python, "coordinator"),
        files={
            RUNTIME_DIR: _archive(shipment.runtime),
            JOB_FILE: _file(shipment.job),
            PRIVATE_FILE: _file(shipment.private),
            **_environment(python),
            **_packages(storage),
        },
    )


def _service(
    component: ComponentJob, shipment: Shipment, python: Python, storage: Travelling | None
) -> skein.Service:
    from tfapp.skein_library import skein

    asked = component.container
    return skein.Service(
        resources=_resources(asked),
        script=_script(python, "runner"),
        instances=component.instances,
        files={
            RUNTIME_DIR: _archive(shipment.runtime),
            PACKAGE_DIR: _archive(shipment.package),
            FILES_DIR: _archive(shipment.files),
            JOB_FILE: _file(shipment.job),
            PRIVATE_FILE: _file(shipment.private),
            **_environment(python),
            **_packages(storage),
        },
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
