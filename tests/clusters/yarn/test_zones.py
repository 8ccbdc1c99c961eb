"""TensorFlow in an encryption zone of a real HDFS, whose keys a real KMS of Hadoop has."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.clusters.yarn.conftest import ROOT, start
from tests.clusters.yarn.keys import SHELL, Keyed, SecureKeyed
from tests.clusters.yarn.namenodes import do
from tests.clusters.yarn.realm import Realm
from tests.debian import UnavailableError
from tests.lacking import lacking
from tests.storage import programs
from tfapp.engines.yarn.zones import CLOSED, why_closed
from tfapp.storage import base, folders, hdfs

CACHE = Path(os.environ.get("TFAPP_TEST_CACHE") or "~/.cache/tfapp").expanduser()
PLAIN = b"plain text " * 200_000


@pytest.fixture
def keyed(tmp_path, monkeypatch) -> Iterator[Keyed]:
    made = Keyed(tmp_path / "keyed", CACHE)
    try:
        start(made)
        for name, value in made.variables().items():
            monkeypatch.setenv(name, value)
        yield made
    finally:
        made.stop()


@pytest.mark.weekly
@pytest.mark.trains
def test_tensorflow_in_an_encryption_zone(keyed):
    """Without Kerberos. On the disk is nothing that can be read."""
    programs.check_operations(f"{keyed.storage}/zone/operations", keyed.environ())
    folders.put(hdfs.Hdfs(), [PLAIN], f"{keyed.storage}/zone/file")
    assert folders.read(hdfs.Hdfs(), f"{keyed.storage}/zone/file", len(PLAIN)) == PLAIN
    assert do(keyed, SHELL, "-cat", "/zone/file") == PLAIN
    raw = do(keyed, SHELL, "-cat", "/.reserved/raw/zone/file")
    assert len(raw) == len(PLAIN) and b"plain" not in raw


@pytest.fixture
def secure(tmp_path) -> Iterator[SecureKeyed]:
    realm = Realm(tmp_path / "realm", CACHE)
    try:
        realm.start()
    except UnavailableError as error:
        lacking(f"this machine has no Kerberos: {error}")
    made = SecureKeyed(tmp_path / "keyed", CACHE, realm)
    try:
        start(made)
        made.make_home("ann")
        yield made
    finally:
        made.stop()
        realm.stop()


# Writes a file to each folder and reads it.
WRITES = """
import sys
from tfapp.storage import base, folders, hdfs
for folder in sys.argv[1:]:
    try:
        folders.put(hdfs.Hdfs(), [b"x" * 3_000_000], f"{folder}/file")
        print(len(folders.read(hdfs.Hdfs(), f"{folder}/file", 3_000_000)))
    except base.Failed as error:
        print(error.code, error)
"""

# Fetches the tokens that YARN's clients fetch for containers, those of the KMS among them.
TOKENS = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE Configure PUBLIC "-//Jetty//Configure//EN" "http://www.eclipse.org/jetty/configure.dtd">
<Configure id="settings" class="org.apache.hadoop.conf.Configuration">
  <New id="tokens" class="org.apache.hadoop.security.Credentials"/>
  <Call class="org.apache.hadoop.fs.FileSystem" name="get"><Arg><Ref refid="settings"/></Arg>
    <Call name="addDelegationTokens"><Arg>nobody</Arg><Arg><Ref refid="tokens"/></Arg></Call>
  </Call>
  <Ref refid="tokens"><Call name="writeTokenStorageFile">
    <Arg><New class="org.apache.hadoop.fs.Path"><Arg type="String">file://{path}</Arg></New></Arg>
    <Arg><Ref refid="settings"/></Arg>
  </Call></Ref>
</Configure>
"""


def writes(environ: Mapping[str, str], *folders: str) -> list[str]:
    command = [sys.executable, "-c", WRITES, *folders]
    done = subprocess.run(command, cwd=ROOT, env=environ, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.weekly
def test_a_ticket_opens_a_zone_and_tokens_do_not(secure, tmp_path):
    """Which is known before a start."""
    by_ticket = {**secure.environ(), "KRB5CCNAME": f"FILE:{tmp_path}/ticket"}
    secure.realm.kinit(secure.realm.keytab("ann"), "ann", tmp_path / "ticket")
    (tmp_path / "tokens.xml").write_text(TOKENS.format(path=tmp_path / "tokens"))
    xml = "org.eclipse.jetty.xml.XmlConfiguration"
    command = [*secure._java(xml, 256), str(tmp_path / "tokens.xml")]
    subprocess.run(command, env=by_ticket, check=True)
    kinds = (tmp_path / "tokens").read_bytes()
    assert b"HDFS_DELEGATION_TOKEN" in kinds and b"kms-dt" in kinds
    by_tokens = {**secure.environ(), "KRB5CCNAME": f"FILE:{tmp_path}/none"}
    by_tokens["HADOOP_TOKEN_FILE_LOCATION"] = f"{tmp_path}/tokens"
    own, zone = f"{secure.storage}/user/ann", f"{secure.storage}/zone"
    assert writes(by_ticket, own, zone) == ["3000000", "3000000"]
    outside, inside = writes(by_tokens, own, zone)
    assert outside == "3000000"
    assert inside.startswith(f"{base.UNAUTHENTICATED} ") and "encryption zone" in inside
    assert why_closed(by_ticket, f"{zone}/tfapp/checkpoints") == CLOSED
    assert why_closed(by_ticket, f"{own}/tfapp/checkpoints") == ""
