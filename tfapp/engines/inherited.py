"""The variables that masters and containers on this machine inherit from the submitting user."""

from __future__ import annotations

from collections.abc import Mapping

# The variables that every process needs, that YARN's node manager passes on, and that locate this
# machine's libraries, certificates and Docker.
_INHERITED = {
    *("PATH", "HOME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH"),
    *("JAVA_HOME", "HADOOP_COMMON_HOME", "HADOOP_HDFS_HOME", "HADOOP_YARN_HOME"),
    *("HADOOP_MAPRED_HOME", "HADOOP_CONF_DIR", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY"),
    "XDG_RUNTIME_DIR",
}


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that containers get from the submitting user's environment: PATH, HOME, SHELL,
    LANG, LANGUAGE, LC_*, TZ, TMPDIR, LD_LIBRARY_PATH, JAVA_HOME,
    HADOOP_{COMMON,HDFS,YARN,MAPRED}_HOME, HADOOP_CONF_DIR, SSL_CERT_FILE, SSL_CERT_DIR,
    DOCKER_{HOST,CONFIG,CERT_PATH,TLS_VERIFY} and XDG_RUNTIME_DIR. Nothing else, as on a cluster: a
    package declares the variables of its programs by `env.NAME`."""
    return {
        name: value
        for name, value in environ.items()
        if name in _INHERITED or name.startswith("LC_")
    }
