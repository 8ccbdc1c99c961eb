"""Finds the parts of a Hadoop client on this machine: Java, `yarn` and the configuration."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from tfapp import tools
from tfapp.engines.yarn.kerberos import CACHE, CONFIGURATION, KEYTAB, PRINCIPAL
from tfapp.errors import UnavailableError

CLASS_PATH_LIMIT = 30.0  # seconds

# The environment variables that select the cluster and the user.
_DECISIVE = (
    "JAVA_HOME",
    "HADOOP_CONF_DIR",
    "YARN_CONF_DIR",
    "HADOOP_USER_NAME",
    CACHE,
    CONFIGURATION,
    KEYTAB,
    PRINCIPAL,
    "SKEIN_DRIVER_JAVA_OPTIONS",
)
_CONFIGURATION = "HADOOP_CONF_DIR is the folder of the cluster's core-site.xml and yarn-site.xml."


def find_java(environ: Mapping[str, str]) -> str:
    """The path of the `java` that Skein uses. UnavailableError if there is none."""
    home = environ.get("JAVA_HOME")
    if home:
        java = Path(home, "bin", "java")
        if os.access(java, os.X_OK):
            return str(java)
        raise UnavailableError(
            f"there is no Java in JAVA_HOME ({home})", "JAVA_HOME/bin/java must be a program."
        )
    found = shutil.which("java", path=environ.get("PATH"))
    if found is None:
        raise UnavailableError(
            "there is no Java: JAVA_HOME is not set, and java is not on PATH",
            "Install a Java runtime of version 8 to 22, the one that the cluster has if possible.",
        )
    return found


def find_yarn(environ: Mapping[str, str]) -> str:
    """The path of Hadoop's command `yarn`. UnavailableError if there is none."""
    found = shutil.which("yarn", path=environ.get("PATH"))
    if found is None:
        raise UnavailableError(
            "Hadoop's command yarn is not on PATH",
            "Add the bin folder of the Hadoop client to PATH, and set HADOOP_CONF_DIR.",
        )
    return found


def read_class_path(environ: Mapping[str, str]) -> str:
    """The output of `yarn classpath --glob`. UnavailableError if it fails, or if the class path has
    no yarn-site.xml: Hadoop's clients would look for a cluster on this machine."""
    try:
        told = tools.output([find_yarn(environ), "classpath", "--glob"], environ, CLASS_PATH_LIMIT)
    except tools.ToolError as error:
        words = f"`yarn classpath --glob` failed: {error.reason}"
        raise UnavailableError(words, _CONFIGURATION) from error
    class_path = told.strip()
    folders = [entry for entry in class_path.split(os.pathsep) if os.path.isdir(entry)]
    if not any(os.path.isfile(os.path.join(folder, "yarn-site.xml")) for folder in folders):
        where = environ.get("HADOOP_CONF_DIR")
        raise UnavailableError(
            "Hadoop's client has no yarn-site.xml "
            + (f"(HADOOP_CONF_DIR is {where})" if where else "(HADOOP_CONF_DIR is not set)"),
            _CONFIGURATION,
        )
    return class_path


def fingerprint(environ: Mapping[str, str]) -> str:
    """Identifies cluster, user and configuration files. Commands with equal values can share a
    driver."""
    digest = hashlib.sha256()
    for name in _DECISIVE:
        digest.update(f"{name}={environ.get(name)}\0".encode(errors="surrogateescape"))
    digest.update(f"{shutil.which('yarn', path=environ.get('PATH'))}\0".encode())
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        folder = environ.get(name)
        for path in sorted(Path(folder).glob("*.xml")) if folder else ():
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
