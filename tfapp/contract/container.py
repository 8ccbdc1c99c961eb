"""What a container finds in its working directory and in its environment."""

from __future__ import annotations

RUNTIME_DIR = "tfapp-runtime"  # this package, as far as a container needs it
PACKAGE_DIR = "tfapp-package"  # the app package: metainfo, scripts/
FILES_DIR = "files"  # the user's program: the package's files/ and --files
JOB_FILE = "tfapp-job.json"  # class Job
PRIVATE_FILE = "tfapp-private.json"  # class Private, mode 0600
PYTHON_DIR = "tfapp-python"  # a Python environment that travels along
PYTHON = f"{PYTHON_DIR}/bin/python"  # its interpreter
PEX_FILE = "tfapp-python.pex"  # or a PEX, which the start script unpacks as PYTHON_DIR
PEX_ROOT = "tfapp-pex"  # where to
# In a container's log folder: which instance logs there, as text.
INSTANCE_FILE = "tfapp-instance"

# "worker/1", given by the coordinator in add_container(env=). The containers that a service
# begins with share one environment without it: see `instances.initial_instance`.
ENV_INSTANCE = "TFAPP_INSTANCE"
ENV_GENERATION = "TFAPP_GENERATION"  # generation at the time of the container's request
ENV_GUARD = "TFAPP_GUARD"  # of a process that clears up after its runner and ends by itself
