"""HDFS alone, with two NameNodes of one name service, `pair`, and a DataNode; and a file system
`viewfs://cluster` over it and another HDFS. Failover is by hand, and edits are in a folder."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.clusters.yarn.conftest import program, wait_for
from tests.clusters.yarn.realm import Realm, SecureCluster, adding

ADMIN = "org.apache.hadoop.hdfs.tools.DFSHAAdmin"
PROVIDER = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
FETCHER = "org.apache.hadoop.hdfs.tools.DelegationTokenFetcher"
NAMES = ("one", "two")
TOKENS_LAST = 110.0  # seconds, of a realm; hdfs-native uses none that ends within a minute


def do(cluster: program.Cluster, main: str, *words: str) -> bytes:
    """The output of a program of Hadoop, as the administrator."""
    command = [*cluster._java(main, 256), *words]
    done = subprocess.run(command, env=cluster.environ(), capture_output=True)
    if done.returncode:
        raise program.ClusterError(done.stderr[-2000:].decode(errors="replace"))
    return done.stdout


class Pair(program.Cluster):
    """`other`: the URL of a folder of another HDFS, the mount point /other."""

    def __init__(self, folder: Path, cache: Path, other: str, *more: Realm):
        super().__init__(folder, cache, *more)
        self._other = other

    def _write(self, size, ports: Mapping[str, int], jars: Path) -> None:
        super()._write(size, ports, jars)
        settings = self._settings(ports)
        for name in ("core", "hdfs"):
            site = self.folder / "conf" / f"{name}-site.xml"
            site.write_text(adding(site.read_text(), settings[name]))

    def _settings(self, ports: Mapping[str, int]) -> dict[str, dict[str, object]]:
        # Of YARN, which is not started here, there are ports.
        rpc = {"one": ports["namenode"], "two": ports["manager"]}
        web = {"one": ports["namenode_web"], "two": ports["manager_web"]}
        data = f"file://{self.folder}/data"
        hdfs: dict[str, object] = {
            "dfs.nameservices": "pair",
            "dfs.ha.namenodes.pair": ",".join(NAMES),
            "dfs.namenode.shared.edits.dir": f"{data}/edits",
            "dfs.client.failover.proxy.provider.pair": PROVIDER,
            "dfs.ha.fencing.methods": "shell(/bin/true)",
        }
        for name in NAMES:
            hdfs[f"dfs.namenode.rpc-address.pair.{name}"] = f"127.0.0.1:{rpc[name]}"
            hdfs[f"dfs.namenode.http-address.pair.{name}"] = f"127.0.0.1:{web[name]}"
            hdfs[f"dfs.namenode.name.dir.pair.{name}"] = f"{data}/{name}"
        mounted = "fs.viewfs.mounttable.cluster.link"
        core = {
            "fs.defaultFS": "viewfs://cluster",
            f"{mounted}./pair": "hdfs://pair/",
            f"{mounted}./other": self._other,
            f"{mounted}Fallback": "hdfs://pair/",  # hdfs-native needs one
        }
        return {"core": core, "hdfs": hdfs}

    def _launch(self, size) -> None:
        self._format()
        shutil.copytree(self.folder / "data/one", self.folder / "data/two")
        for name in NAMES:
            self._run(name, program.NAMENODE, "-D", f"dfs.ha.namenode.id={name}")
        self._run("datanode", program.DATANODE)
        for port in ("namenode", "manager"):
            self._await(lambda port=port: self._listens(port), "the NameNodes")
        self.activate("one")
        self._await(self._storage_answers, "HDFS")

    def _listens(self, port: str) -> bool:
        socket.create_connection(("127.0.0.1", self._ports()[port]), 10).close()
        return True

    def _format(self) -> None:
        options = ["-D", "dfs.ha.namenode.id=one", "-format", "-force", "-nonInteractive"]
        do(self, program.NAMENODE, *options)

    def activate(self, name: str) -> None:
        """Makes a NameNode the active one. It waits until that is so."""
        # The other one may be lost, so it is not asked.
        do(self, ADMIN, "-transitionToActive", "--forceactive", name)

    def kill(self, name: str) -> None:
        process = self._processes()[name]
        process.send(signal.SIGKILL)
        wait_for(lambda: not process.alive(), f"end of NameNode {name}")


class SecurePair(Pair, SecureCluster):
    """In a realm that has started."""

    def __init__(self, folder: Path, cache: Path, realm: Realm):
        super().__init__(folder, cache, "hdfs://pair/", realm)

    def _settings(self, ports: Mapping[str, int]) -> dict[str, dict[str, object]]:
        lifetime = int(1000 * TOKENS_LAST)
        tokens = "dfs.namenode.delegation.token"
        more = {f"{tokens}.max-lifetime": lifetime, f"{tokens}.renew-interval": lifetime}
        made = super()._settings(ports)
        return {**made, "hdfs": {**made["hdfs"], **more}}

    def fetch_token(self, path: Path, environ: Mapping[str, str]) -> None:
        """Writes a delegation token of the name service for who has the tickets of `environ`."""
        command = [
            *self._java(FETCHER, 256),
            "-fs",
            "hdfs://pair",
            "--renewer",
            "nobody",
            str(path),
        ]
        done = subprocess.run(command, env=environ, capture_output=True, text=True)
        if done.returncode or not path.exists():
            raise program.ClusterError(done.stderr[-2000:])
