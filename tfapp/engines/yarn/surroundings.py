"""What a command must find around it to reach a cluster: Java, `yarn`, a configuration."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tfapp.errors import UnavailableError

CLASS_PATH_LIMIT = 30.0  # seconds

# Hadoop's own names for them: its commands read them too.
KEYTAB = "KRB5KEYTAB"
PRINCIPAL = "KRB5PRINCIPAL"

# What of the environment decides which cluster it is, and who asks.
_DECISIVE = (
    "JAVA_HOME",
    "HADOOP_CONF_DIR",
    "YARN_CONF_DIR",
    "HADOOP_USER_NAME",
    "KRB5CCNAME",
    KEYTAB,
    PRINCIPAL,
    "SKEIN_DRIVER_JAVA_OPTIONS",
)
_CONFIGURATION = "HADOOP_CONF_DIR is the folder of the cluster's core-site.xml and yarn-site.xml."


def find_java(environ: Mapping[str, str]) -> str:
    """Path of the `java` that Skein will take. UnavailableError when there is none."""
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
    """Path of Hadoop's `yarn` command. UnavailableError when there is none."""
    found = shutil.which("yarn", path=environ.get("PATH"))
    if found is None:
        raise UnavailableError(
            "Hadoop's command yarn is not on PATH",
            "Add the bin folder of the Hadoop client to PATH, and set HADOOP_CONF_DIR.",
        )
    return found


def find_keytab(environ: Mapping[str, str]) -> tuple[str, str] | None:
    """Path of the keytab and the principal to log in with, None where the user's Kerberos ticket
    counts. UnavailableError for a keytab that cannot be used."""
    keytab, principal = environ.get(KEYTAB), environ.get(PRINCIPAL)
    if not keytab:
        return None
    if not os.access(keytab, os.R_OK) or not os.path.isfile(keytab):
        reason = "cannot be read" if os.path.exists(keytab) else "does not exist"
        raise UnavailableError(
            f"the Kerberos keytab {keytab} {reason}", f"{KEYTAB} names it; unset it to use kinit."
        )
    if not principal:
        raise UnavailableError(
            f"{KEYTAB} names a Kerberos keytab, and {PRINCIPAL} is not set",
            f"Set {PRINCIPAL} to whose key is in it; `klist -kt {keytab}` lists them.",
        )
    return os.path.abspath(keytab), principal


def find_user(environ: Mapping[str, str], login: str) -> str:
    """Who the cluster takes the caller for, whose name on this machine is `login`."""
    if environ.get(KEYTAB):
        return re.split("[/@]", environ.get(PRINCIPAL, ""))[0] or login
    return environ.get("HADOOP_USER_NAME") or login


def read_class_path(environ: Mapping[str, str]) -> str:
    """What `yarn classpath --glob` prints. UnavailableError when it fails, or when there is no
    yarn-site.xml on it: Hadoop's clients would look for a cluster on this machine."""
    try:
        done = subprocess.run(
            [find_yarn(environ), "classpath", "--glob"],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=CLASS_PATH_LIMIT,
        )
    except subprocess.TimeoutExpired:
        raise UnavailableError(
            f"`yarn classpath --glob` printed nothing within {CLASS_PATH_LIMIT:g} s"
        ) from None
    if done.returncode:
        words = done.stderr.strip().splitlines()[-1:] or ["it gave no reason"]
        raise UnavailableError(f"`yarn classpath --glob` failed: {words[0]}", _CONFIGURATION)
    class_path = done.stdout.strip()
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
    """Equal for two commands that can share a driver: same cluster, same user, same files of
    configuration."""
    digest = hashlib.sha256()
    for name in _DECISIVE:
        digest.update(f"{name}={environ.get(name)}\0".encode(errors="surrogateescape"))
    digest.update(f"{shutil.which('yarn', path=environ.get('PATH'))}\0".encode())
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        folder = environ.get(name)
        for path in sorted(Path(folder).glob("*.xml")) if folder else ():
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
