"""Flags of `tfapp create` for a TensorFlow in a Docker container."""

import sys

from tests.runner.docker.engine import BASE


def python_mounts() -> str:
    """This Python with its TensorFlow, for an image that has none."""
    folders = dict.fromkeys((sys.prefix, sys.base_prefix))
    return ",".join(f"{folder}:ro" for folder in folders if folder not in ("/", "/usr"))


def in_docker() -> tuple[str, ...]:
    """An image that has neither TensorFlow nor tfapp nor Skein, with this Python mounted."""
    return (
        *("--option", "site.global.run.mode", "docker"),
        *("--option", "site.global.docker.image", BASE),
        *("--option", "site.global.docker.mounts", python_mounts()),
        *("--option", "site.global.python.executable", sys.executable),
    )
