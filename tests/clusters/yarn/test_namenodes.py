"""A name service of two NameNodes, and viewfs over it and the cluster's own HDFS."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.clusters.yarn.conftest import ROOT, program, start
from tests.clusters.yarn.namenodes import Pair, SecurePair
from tests.clusters.yarn.realm import Realm
from tests.debian import UnavailableError
from tests.lacking import lacking
from tfapp.storage import base, folders, hdfs

PART = 3 << 20  # bytes: more than a writer keeps


@pytest.fixture
def pair(cluster, tmp_path, monkeypatch):
    """/other of its viewfs is a folder of the cluster's HDFS."""
    for name, value in cluster.variables().items():
        monkeypatch.setenv(name, value)
    other = f"{cluster.storage}/user/{program.user()}/mounted"
    hdfs.Hdfs().make_folder(other, parents=True)
    made = Pair(tmp_path / "pair", cluster.cache, other)
    try:
        made.start()
        for name, value in made.variables().items():
            monkeypatch.setenv(name, value)
        yield made
    finally:
        made.stop()


@pytest.mark.weekly
def test_a_lost_namenode_and_two_mount_points(pair, cluster):
    """What is being written then is whole, or an error and not seen; all else goes on at the other
    NameNode. What is below one mount point can be renamed there, and not to another."""
    store, top = hdfs.Hdfs(), "viewfs://cluster"
    folders.put(store, [b"kept"], f"{top}/pair/a b/kept")
    writer = store.writer(f"{top}/pair/a b/half", append=False)
    writer.append(b"x" * PART)
    pair.kill("one")
    pair.activate("two")
    names = ["half", "kept", "more"]
    try:
        writer.append(b"y" * PART)
        writer.close()
    except base.Failed as error:
        assert error.code == base.UNAVAILABLE
        names.remove("half")
    folders.put(store, [b"more"], f"{top}/pair/a b/more")
    for url in ("hdfs://pair/a b", f"{top}/pair/a b", "viewfs:///pair/a b"):
        assert store.children(url) == names
        assert folders.read(store, f"{url}/kept", 4) == b"kept"
    folders.put(store, [b"other"], f"{top}/other/file")
    store.rename(f"{top}/other/file", f"{top}/other/named")
    there = f"{cluster.storage}/user/{program.user()}/mounted/named"
    assert folders.read(hdfs.Hdfs(), there, 5) == b"other"
    with pytest.raises(base.Failed):
        store.rename(f"{top}/other/named", f"{top}/pair/named")


@pytest.fixture
def secure_pair(tmp_path) -> Iterator[SecurePair]:
    """Its realm knows ann."""
    cache = Path(os.environ.get("TFAPP_TEST_CACHE") or "~/.cache/tfapp").expanduser()
    realm = Realm(tmp_path / "realm", cache)
    try:
        realm.start()
    except UnavailableError as error:
        lacking(f"this machine has no Kerberos: {error}")
    made = SecurePair(tmp_path / "pair", cache, realm)
    try:
        start(made)
        made.make_home("ann")
        yield made
    finally:
        made.stop()
        realm.stop()


# Writes a file at once, and one when it is told to. Where it has tokens, it then waits for their
# end. A connection that is open outlives them.
WRITES = """
import math, os, sys, time
from tfapp.storage import base, expiry, folders, hdfs
store, who = hdfs.Hdfs(), sys.argv[1]
print(hdfs.credentials(os.environ), flush=True)
for number in (1, 2):
    folders.put(store, [b"x" * (3 << 20)], f"hdfs://pair/user/ann/{who}{number}")
    print("wrote", number, flush=True)
    sys.stdin.readline()
end = expiry.of_hdfs(os.environ)
while math.isfinite(end) and time.time() < end - expiry.LAST:
    time.sleep(1)
try:
    print(hdfs.Hdfs().stat(f"hdfs://pair/user/ann/{who}2").length)
except base.Failed as error:
    print(error.code, error)
"""


class Writer:
    """That program, which has the credentials of `environ`."""

    def __init__(self, who: str, environ: Mapping[str, str]):
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        command = [sys.executable, "-c", WRITES, who]
        self._process = subprocess.Popen(command, cwd=ROOT, env=environ, text=True, **pipes)
        self.credentials = self.says()

    def says(self) -> str:
        line = self._process.stdout.readline().strip()
        return line or self._process.communicate()[1]

    def goes_on(self) -> None:
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def ends(self) -> str:
        """The last line."""
        return self._process.communicate(timeout=300)[0]

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.mark.weekly
def test_a_lost_namenode_in_a_realm(secure_pair, tmp_path):
    """By a ticket and by a token, which ends some time later."""
    by_ticket = {**secure_pair.environ(), "KRB5CCNAME": f"FILE:{tmp_path}/ticket"}
    secure_pair.realm.kinit(secure_pair.realm.keytab("ann"), "ann", tmp_path / "ticket")
    secure_pair.fetch_token(tmp_path / "token", by_ticket)
    by_token = {**secure_pair.environ(), "KRB5CCNAME": f"FILE:{tmp_path}/none"}
    by_token["HADOOP_TOKEN_FILE_LOCATION"] = f"{tmp_path}/token"
    writers = [Writer("ticket", by_ticket), Writer("token", by_token)]
    try:
        assert [one.says() for one in writers] == ["wrote 1", "wrote 1"]
        secure_pair.kill("one")
        secure_pair.activate("two")
        for one in writers:
            one.goes_on()
        assert [one.says() for one in writers] == ["wrote 2", "wrote 2"]
        by_name, by_token = writers
        assert by_name.credentials.startswith("the tickets of KRB5CCNAME")
        assert "HADOOP_TOKEN_FILE_LOCATION, which end at " in by_token.credentials
        assert by_name.ends() == f"{3 << 20}\n"
        last = by_token.ends()
        assert last.startswith(f"{base.UNAUTHENTICATED} ") and "by default after 7 days" in last
    finally:
        for one in writers:
            one.kill()
