"""HDFS's encryption zones, where programs in containers open no files on a cluster with Kerberos:
hdfs-native gets keys by a ticket, and not by the tokens that containers have."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

from tfapp import tools
from tfapp.contract.names import HDFS_SCHEMES
from tfapp.engines.yarn import hadoop_fs, kerberos
from tfapp.engines.yarn.configuration import read_configuration
from tfapp.errors import UnavailableError

LIMIT = 30.0  # seconds
# The properties that name Hadoop's KMS, which has the keys: the present one and the old one.
_PROVIDERS = ("hadoop.security.key.provider.path", "dfs.encryption.key.provider.uri")
CLOSED = (
    "it lies in an encryption zone of HDFS: on a cluster with Kerberos programs in containers get "
    "no key of it, as hdfs-native takes no token for Hadoop's KMS"
)

# Only the owner of HDFS may list zones. Jetty, which Hadoop's pages need, makes calls out of XML.
_ASK = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE Configure PUBLIC "-//Jetty//Configure//EN" "http://www.eclipse.org/jetty/configure.dtd">
<Configure id="settings" class="org.apache.hadoop.conf.Configuration">
  <New class="org.apache.hadoop.fs.Path"><Arg type="String">{url}</Arg>
    <Call name="getFileSystem"><Arg><Ref refid="settings"/></Arg>
{looks}
    </Call>
  </New>
</Configure>
"""
_LOOK = """\
      <Call name="getFileStatus">
        <Arg><New class="org.apache.hadoop.fs.Path"><Arg type="String">{path}</Arg></New></Arg>
        <Call id="answer{number}" name="isEncrypted"/>
      </Call>
      <Get class="java.lang.System" name="out">
        <Call name="println"><Arg><Ref refid="answer{number}"/></Arg></Call>
      </Get>
"""


def why_closed(environ: Mapping[str, str], url: str) -> str:
    """Why programs in containers open no files at `url`, a folder that need not exist; "" where
    they do, or it is not known. Takes a Java program of two seconds where a KMS is configured."""
    settings = read_configuration(environ)
    if (
        url.partition("://")[0] in HDFS_SCHEMES
        and kerberos.is_asked(environ)
        and any(map(settings.get, _PROVIDERS))
        and _is_encrypted(environ, url)
    ):
        return CLOSED
    return ""


def _is_encrypted(environ: Mapping[str, str], url: str) -> bool:
    """Whether it is, or the last folder above it that exists."""
    scheme, _, rest = url.partition("://")
    host, _, name = rest.partition("/")
    parts = itertools.accumulate(filter(None, name.split("/")), "{}/{}".format, initial="")
    looks = (
        _LOOK.format(path=escape(path or "/"), number=number) for number, path in enumerate(parts)
    )
    asked = _ASK.format(url=escape(f"{scheme}://{host}/"), looks="".join(looks))
    try:
        with tempfile.TemporaryDirectory() as folder:
            calls = Path(folder, "calls.xml")
            calls.write_text(asked, encoding="utf-8")
            main = "org.eclipse.jetty.xml.XmlConfiguration"
            words = [*hadoop_fs.java(environ), main, str(calls)]
            # It fails at the first folder that does not exist.
            return "true" in tools.run(words, environ, LIMIT).text.split()
    except (OSError, UnavailableError, tools.ToolError):
        return False  # what is asked of the cluster next says why
