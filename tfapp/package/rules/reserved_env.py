"""`env.NAME` with a name that is not the user's to set.

What tfapp and YARN put into the environment of a program would be destroyed by a value from
appConfig, or destroy it.

    env.OMP_NUM_THREADS: 4      PASS
    env.LOG_DIRS: /tmp          FAIL
"""

from __future__ import annotations

from collections.abc import Iterator

from tfapp.package.model import AppPackage
from tfapp.package.rules.written import ENV, all_values
from tfapp.problems import Problem

CODE = "reserved-env"
NEEDS = ("appConfig",)
NAMES = (
    "CONTAINER_ID",
    "HADOOP_TOKEN_FILE_LOCATION",
    "LOCAL_DIRS",
    "LOG_DIRS",
    "NM_HOST",
    "NM_HTTP_PORT",
    "NM_PORT",
    "TF_GRPC_REUSE_PORT",
    "TOT_WORKERS",
    "WORKER_NUMBER",
)


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports at the key."""
    for key, value in all_values(package):
        if key.startswith(ENV) and key[len(ENV) :] in NAMES:
            message = f"the environment variable {key[len(ENV) :]} is set for each container"
            hint = "read what it is set to, or use a name of your own"
            yield Problem(value.key_at, CODE, message, hint=hint)
