"""HDFS alone, with Hadoop's KMS and an encryption zone, /zone."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

from tests.clusters.yarn.conftest import HERE, program
from tests.clusters.yarn.namenodes import do
from tests.clusters.yarn.realm import REALM, SecureCluster, adding
from tests.debian import alone

KMS = "org.apache.hadoop.crypto.key.kms.server.KMSWebServer"
KEYS = "org.apache.hadoop.crypto.key.KeyShell"
ZONES = "org.apache.hadoop.hdfs.tools.CryptoAdmin"
SHELL = "org.apache.hadoop.fs.FsShell"
PORT = "manager_web"  # of YARN, which is not started here
OF_KEYS = ("MANAGEMENT", "GENERATE_EEK", "DECRYPT_EEK", "READ")


class Keyed(program.Cluster):
    """`owner`: whose the zone is."""

    owner = program.user()

    def _write(self, size, ports: Mapping[str, int], jars: Path) -> None:
        super()._write(size, ports, jars)
        with alone(self.cache):
            more = program.fetch_jars(self.cache, self._inherited, HERE / "kms-pom.xml")
        place = self.folder / "jars"
        place.unlink()
        place.mkdir()
        for jar in (*jars.iterdir(), *more.iterdir()):
            (place / jar.name).symlink_to(jar)
        for name, values in self._settings(ports).items():
            site = self.folder / "conf" / f"{name}.xml"
            text = site.read_text() if site.exists() else "<configuration></configuration>"
            site.write_text(adding(text, values))

    def _settings(self, ports: Mapping[str, int]) -> dict[str, dict[str, object]]:
        address = f"kms://http@127.0.0.1:{ports[PORT]}/kms"
        kms: dict[str, object] = {
            "hadoop.kms.key.provider.uri": f"jceks://file@{self.folder}/data/keys.jceks",
            "hadoop.kms.http.host": "127.0.0.1",
            "hadoop.kms.http.port": ports[PORT],
        }
        return {
            "core-site": {"hadoop.security.key.provider.path": address},
            "kms-site": kms,
            "kms-acls": {f"default.key.acl.{operation}": "*" for operation in OF_KEYS},
        }

    def _java(self, main: str, heap: int) -> list[str]:
        java, *words = super()._java(main, heap)
        own = (f"-Dkms.config.dir={self.folder}/conf", "-Dlog4j.configuration=log4j.properties")
        return [java, *own, *words]

    def _launch(self, size) -> None:
        self._format()
        self._run("kms", KMS)
        self._run("namenode", program.NAMENODE)
        self._run("datanode", program.DATANODE)
        self._await(self._has_keys, "the KMS")
        self._await(self._storage_answers, "HDFS")
        do(self, KEYS, "create", "of-zone")
        do(self, SHELL, "-mkdir", "/zone")
        do(self, ZONES, "-createZone", "-keyName", "of-zone", "-path", "/zone")
        do(self, SHELL, "-chown", self.owner, "/zone")

    def _has_keys(self) -> bool:
        socket.create_connection(("127.0.0.1", self._ports()[PORT]), 10).close()
        return True


class SecureKeyed(Keyed, SecureCluster):
    """In a realm that has started, and that knows ann."""

    owner = "ann"

    def _settings(self, ports: Mapping[str, int]) -> dict[str, dict[str, object]]:
        found = super()._settings(ports)
        prefix = "hadoop.kms.authentication"
        kerberos = {
            f"{prefix}.type": "kerberos",
            f"{prefix}.kerberos.principal": f"HTTP/127.0.0.1@{REALM}",
            f"{prefix}.kerberos.keytab": self.realm.folder / "hadoop.cluster.keytab",
            # That of the other daemons' pages knows no tokens.
            "hadoop.http.filter.initializers": "org.apache.hadoop.http.lib.StaticUserWebFilter",
        }
        return {**found, "kms-site": {**found["kms-site"], **kerberos}}
