"""Whether a folder lies in an encryption zone, asked of a pretended Java. tests/clusters/yarn/
test_zones.py has a real one."""

import sys

import pytest

from tests.clusters.yarn.realm import adding
from tfapp.engines.yarn.zones import CLOSED, why_closed

# Makes the calls of a document, on folders of which some are encrypted.
JAVA = f"""#!{sys.executable}
import pathlib, sys, xml.etree.ElementTree as xml
assert sys.argv[-2] == "org.eclipse.jetty.xml.XmlConfiguration"
pathlib.Path("asked").touch()
folders = {{"/": False, "/user": False, "/user/ann": True, "/user/ann/a & b": True}}
root, known = xml.parse(sys.argv[-1]).getroot(), {{}}
system = root.find("New")
assert system.findtext("Arg") == "hdfs://namenode:9000/"
for call in system.find("Call[@name='getFileSystem']"):
    if call.get("name") == "getFileStatus":
        path = call.findtext("New/Arg") or call.findtext("Arg/New/Arg")
        if path not in folders:
            sys.exit(f"java.io.FileNotFoundException: File does not exist: {{path}}")
        known[call.find("Call[@name='isEncrypted']").get("id")] = folders[path]
    elif call.tag == "Get":
        print(str(known[call.find("Call[@name='println']/Arg/Ref").get("refid")]).lower())
"""
KERBEROS = {"hadoop.security.authentication": "kerberos"}
KMS = {"hadoop.security.key.provider.path": "kms://http@keys:9600/kms"}


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Makes the environment of a machine whose core-site.xml has these properties."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "yarn-site.xml").write_text("<configuration></configuration>")
    for name, text in (("java", JAVA), ("yarn", f"#!/bin/sh\necho {tmp_path}\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)

    def make(**properties: str) -> dict[str, str]:
        site = adding("<configuration></configuration>", properties)
        (tmp_path / "core-site.xml").write_text(site)
        return {"PATH": f"{tmp_path}:/usr/bin:/bin", "HADOOP_CONF_DIR": str(tmp_path)}

    return make


@pytest.mark.parametrize(
    ("folder", "why"),
    [
        ("user/ann", CLOSED),
        ("user/ann/a & b/", CLOSED),
        ("user/ann/tfapp/checkpoints", CLOSED),  # is not there yet
        ("user/bob/tfapp", ""),
        ("", ""),
    ],
)
def test_a_folder_is_where_its_parent_is(machine, folder, why):
    environ = machine(**KERBEROS, **KMS)
    assert why_closed(environ, f"hdfs://namenode:9000/{folder}") == why


@pytest.mark.parametrize(
    ("properties", "url"),
    [
        (KMS, "hdfs://namenode:9000/user/ann"),  # names are enough for this KMS
        (KERBEROS, "hdfs://namenode:9000/user/ann"),
        ({**KERBEROS, **KMS}, "s3://bucket/user/ann"),
        ({**KERBEROS, **KMS}, "/user/ann"),
    ],
)
def test_it_is_not_asked_where_there_is_nothing_to_hinder(machine, tmp_path, properties, url):
    assert why_closed(machine(**properties), url) == ""
    assert not (tmp_path / "asked").exists()


def test_without_an_answer_it_is_not_known(machine, tmp_path):
    environ = machine(**KERBEROS, **KMS)
    (tmp_path / "java").write_text("#!/bin/sh\nexit 1\n")
    assert why_closed(environ, "hdfs://namenode:9000/user/ann") == ""
    (tmp_path / "java").unlink()
    assert why_closed(environ, "hdfs://namenode:9000/user/ann") == ""
