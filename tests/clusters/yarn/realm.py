"""A Kerberos realm of the tests' own, and a cluster in it: a real KDC, real keytabs, real tickets.

Everything listens on loopback addresses and lies in folders of the tests: nothing in /etc is read
or changed.
"""

from __future__ import annotations

import json
import signal
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

from tests.clusters.yarn.conftest import program, wait_for
from tests.debian import Packages

REALM = "TFAPP.TEST"
SERVICE = f"hadoop/cluster@{REALM}"  # who all daemons of the cluster are

PACKAGES = ("krb5-kdc", "krb5-admin-server", "krb5-user", "curl")
PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit", "klist", "curl")
LIMIT = 120.0  # seconds

PAGES_FILTER = "org.apache.hadoop.security.AuthenticationFilterInitializer"


class Realm:
    """A KDC on a free port, its files in `folder`, its programs in `cache`."""

    def __init__(self, folder: Path, cache: Path):
        self.folder = folder
        self.configuration = folder / "krb5.conf"
        self._packages = Packages(cache / "kerberos", PACKAGES, PROGRAMS)
        self._process: subprocess.Popen | None = None

    def start(self) -> None:
        """Makes the realm and starts its KDC. UnavailableError where it cannot be had."""
        self._packages.prepare()
        self.folder.mkdir(parents=True)
        self._write(program.free_ports(["127.0.0.1"])["manager"])
        self._run("kdb5_util", "create", "-s", "-P", "a master password", "-r", REALM)
        self.resume()

    def resume(self) -> None:
        """Starts the KDC, again after `stop`."""
        with (self.folder / "kdc.log").open("ab") as log:
            self._process = subprocess.Popen(
                ["krb5kdc", "-n", "-r", REALM],
                env=self.environ(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        said = self.folder / "krb5kdc.log"
        wait_for(lambda: said.exists() and "commencing operation" in said.read_text(), "KDC")

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGTERM)
            process.wait(LIMIT)
            (self.folder / "krb5kdc.log").unlink()

    def keytab(self, *principals: str) -> Path:
        """Makes the principals, and a file of their keys."""
        path = self.folder / f"{principals[0].replace('/', '.')}.keytab"
        for principal in principals:
            self._run("kadmin.local", "-r", REALM, "addprinc", "-randkey", principal)
        self._run("kadmin.local", "-r", REALM, "ktadd", "-k", str(path), *principals)
        return path

    def kinit(self, keytab: Path, principal: str, cache: Path, seconds: int = 600) -> None:
        """Gets a ticket that is good for so many seconds."""
        lifetime = ("-l", f"{seconds}s", "-kt", str(keytab))
        self._run("kinit", *lifetime, "-c", f"FILE:{cache}", principal)

    def environ(self) -> dict[str, str]:
        """This process's environment, with Kerberos' programs and configuration in it. For
        daemons in Java too, which do not know KRB5_CONFIG."""
        return {
            **self._packages.environ(),
            "KRB5_CONFIG": str(self.configuration),
            "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf"),
            "_JAVA_OPTIONS": f"-Djava.security.krb5.conf={self.configuration}",
        }

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            command, env=self.environ(), capture_output=True, text=True, timeout=LIMIT
        )
        assert done.returncode == 0, done.stderr

    def _write(self, port: int) -> None:
        plugins = next(self._packages.root.glob("usr/lib/*-linux-gnu/krb5/plugins/kdb"), None)
        modules = f"[dbmodules]\n db_module_dir = {plugins}\n" if plugins else ""
        self.configuration.write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n"
            " dns_canonicalize_hostname = false\n udp_preference_limit = 1\n"
            f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{port}\n }}\n{modules}"
        )
        files = self.folder / "kdc"
        (self.folder / "kdc.conf").write_text(
            f"[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n"
            f"[realms]\n {REALM} = {{\n  database_name = {files}.db\n"
            f"  key_stash_file = {files}.stash\n }}\n"
            f"[logging]\n kdc = FILE:{self.folder}/krb5kdc.log\n"
        )


class SecureCluster(program.Cluster):
    """The cluster that users start for themselves, in a realm: its RPC asks for Kerberos, and so
    do its pages. All daemons share one principal, which is the administrator's too."""

    def __init__(self, folder: Path, cache: Path, realm: Realm):
        """`realm`: one that has started, as its programs' libraries are found then."""
        super().__init__(folder, cache, realm.environ())
        self.realm = realm
        self._ticket = folder / "administrator.ticket"

    def environ(self) -> dict[str, str]:
        """See Cluster.environ: the administrator's."""
        return {**super().environ(), "KRB5CCNAME": f"FILE:{self._ticket}"}

    def make_home(self, user: str) -> None:
        url = f"http://127.0.0.1:{self._ports()['namenode_web']}/webhdfs/v1/user"
        for change in ("?op=MKDIRS", f"/{user}?op=MKDIRS", f"/{user}?op=SETOWNER&owner={user}"):
            self._curl(f"{url}{change}", "-X", "PUT")

    def staged(self, user: str) -> list[str]:
        url = f"http://127.0.0.1:{self._ports()['namenode_web']}/webhdfs/v1/user/{user}/.skein"
        found = json.loads(self._curl(f"{url}?op=LISTSTATUS"))["FileStatuses"]["FileStatus"]
        return [file["pathSuffix"] for file in found]

    def _write(self, size, ports: Mapping[str, int], jars: Path) -> None:
        super()._write(size, ports, jars)
        hosts = ("localhost", "127.0.0.1", *(self.host(node) for node in range(1, size.nodes + 1)))
        keytab = self.realm.keytab("hadoop/cluster", *(f"HTTP/{host}" for host in hosts))
        self.realm.kinit(keytab, "hadoop/cluster", self._ticket, seconds=3600)
        secret = self.folder / "signature-secret"
        secret.write_text("of the cookies")
        for name, values in settings(keytab, secret).items():
            site = self.folder / "conf" / f"{name}-site.xml"
            site.write_text(adding(site.read_text(), values))
        show_logs_to_all(jars, self.folder / "conf")

    def _http(self, url: str, data: object = None) -> bytes:
        if data is None:
            return self._curl(url)
        return self._curl(url, "-H", "Content-Type: application/json", "-d", json.dumps(data))

    def _curl(self, url: str, *words: str) -> bytes:
        """OSError when it fails."""
        command = ["curl", "-sS", "--fail", "--max-time", "60", "--negotiate", "-u", ":", *words]
        done = subprocess.run([*command, url], env=self.environ(), capture_output=True)
        if done.returncode:
            raise OSError(f"{url}: {done.stderr.decode()}")
        return done.stdout


def show_logs_to_all(jars: Path, place: Path) -> None:
    """Has NodeManagers read logs without a look at whose files they are: all belong to who runs
    the tests, and looking takes Hadoop's native library, which is not among its jars. A changed
    copy of the class that looks goes to `place`: whether security is on it hears from a method
    that is false for all who log in by a keytab."""
    name, asked, other = "SecureIOUtils", b"isSecurityEnabled", b"isLoginTicketBased"
    (jar,) = jars.glob("hadoop-common-*.jar")
    path = f"org/apache/hadoop/io/{name}.class"
    with zipfile.ZipFile(jar) as archive:
        code = archive.read(path)
    old, new = (len(text).to_bytes(2, "big") + text for text in (asked, other))
    assert code.count(old) == 1
    (place / path).parent.mkdir(parents=True)
    (place / path).write_bytes(code.replace(old, new))


def settings(keytab: Path, secret: Path) -> dict[str, dict[str, object]]:
    """The properties that make a cluster ask for Kerberos, by configuration file."""
    core = {
        "hadoop.security.authentication": "kerberos",
        "hadoop.security.authorization": "true",
        "hadoop.http.filter.initializers": PAGES_FILTER,
        "hadoop.http.authentication.type": "kerberos",
        "hadoop.http.authentication.signature.secret.file": secret,
        "hadoop.http.authentication.kerberos.principal": "*",
        "hadoop.http.authentication.kerberos.keytab": keytab,
    }
    hdfs: dict[str, object] = {
        "dfs.block.access.token.enable": "true",
        # A DataNode proves who it is by a privileged port, or by TLS; this one is on loopback.
        "ignore.secure.ports.for.testing": "true",
        "dfs.web.authentication.kerberos.principal": "*",
        "dfs.web.authentication.kerberos.keytab": keytab,
    }
    for daemon in ("namenode", "datanode"):
        hdfs[f"dfs.{daemon}.kerberos.principal"] = SERVICE
        hdfs[f"dfs.{daemon}.keytab.file"] = keytab
    passed_on = (
        "JAVA_HOME",
        "HADOOP_CONF_DIR",
        "PATH",
        "LANG",
        "_JAVA_OPTIONS",
        "JDK_JAVA_OPTIONS",
    )
    yarn: dict[str, object] = {
        "yarn.admin.acl": "hadoop",
        "yarn.nodemanager.env-whitelist": ",".join(passed_on),
        program.MASTER_EXPIRY: 600000,  # Skein's masters ask every 5 s, as on other clusters
    }
    for daemon in ("resourcemanager", "nodemanager"):
        yarn[f"yarn.{daemon}.principal"] = SERVICE
        yarn[f"yarn.{daemon}.keytab"] = keytab
    return {"core": core, "hdfs": hdfs, "yarn": yarn}


def adding(text: str, values: Mapping[str, object]) -> str:
    """`text`, a configuration file, with more settings."""
    entries = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in values.items()
    )
    return text.replace("</configuration>", f"{entries}</configuration>")
