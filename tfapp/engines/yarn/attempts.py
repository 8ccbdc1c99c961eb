"""What lasts when Skein's application master is lost, and YARN starts another attempt of the
application: its record, in the application's staging folder. Shipped to the master's container,
where the coordinator uses it (tfapp.coordinator.record).

Each call is a Java program of one or two seconds: Hadoop's own clients know every file system and
have the container's tokens."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from tfapp.contract.names import attempt_of
from tfapp.errors import UnavailableError

LIMIT = 30.0  # seconds for one call

_NAME = "tfapp-record"
RECORDS = f"{_NAME}.*"  # in the staging folder
_JAVA = ("-Xmx64m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_SETTINGS = {
    "fs.permissions.umask-mode": "077",
    "ipc.client.connect.max.retries": "2",
    "ipc.client.connect.max.retries.on.timeouts": "2",
}
_VARIABLE = re.compile(r"\{\{(\w+)\}\}|\$\{(\w+)\}|\$(\w+)")
# How YARN numbers the end of a container that used more memory, of both kinds, than it had.
OF_MEMORY = re.compile(r"exitCode: -10[34]\b")
MEMORY_USED = (
    "its container used more memory than it had asked for; yarn.memory of slider-appmaster says "
    "how much it gets"
)
_ABSENT = re.compile(
    r"\A(Exception in thread|Caused by).*FileNotFoundException|No such file or directory\Z"
)
_UNPRINTABLE = re.compile(r"[^\t\n -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # not in XML 1.0

# Calls, which Jetty, that Hadoop's pages need, makes out of XML.
_HEAD = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE Configure PUBLIC "-//Jetty//Configure//EN" "http://www.eclipse.org/jetty/configure.dtd">
"""

# A file in a folder that must be there: Hadoop's `put` would make one again that was deleted when
# the application ended, and nobody would delete it then.
_WRITE = """\
<Configure id="conf" class="org.apache.hadoop.conf.Configuration">
  {settings}
  <Call class="org.apache.hadoop.fs.FileSystem" name="get">
    <Arg><Ref refid="conf"/></Arg>
    <Call id="copies" name="getDefaultReplication"/>
    <Call id="block" name="getDefaultBlockSize"/>
    <Call name="createNonRecursive">
      <Arg><New class="org.apache.hadoop.fs.Path"><Arg type="String">{path}</Arg></New></Arg>
      <Arg type="boolean">true</Arg>
      <Arg type="int">4096</Arg>
      <Arg><Ref refid="copies"/></Arg>
      <Arg><Ref refid="block"/></Arg>
      <Arg/>
      <Call name="writeBytes"><Arg type="String">{line}</Arg></Call>
      <Call name="close"/>
    </Call>
  </Call>
</Configure>
"""
_SETTING = '<Call name="set"><Arg>{}</Arg><Arg>{}</Arg></Call>'

# Skein's master tells YARN of the end only if that is a success, or if there are no attempts left:
# YARN runs the application again after any other one. This tells YARN, and removes the staging
# folder, as Skein's master does with its last attempt.
_END = """\
<Configure class="org.apache.hadoop.yarn.client.api.impl.AMRMClientImpl">
  <Call name="init"><Arg><New id="conf" class="org.apache.hadoop.yarn.conf.YarnConfiguration"/></Arg></Call>
  <Call name="start"/>
  <Call name="unregisterApplicationMaster">
    <Arg><Call class="org.apache.hadoop.yarn.api.records.FinalApplicationStatus" name="valueOf"><Arg type="String">{state}</Arg></Call></Arg>
    <Arg type="String">{text}</Arg>
    <Arg type="String"></Arg>
  </Call>
  <Call class="org.apache.hadoop.fs.FileSystem" name="get">
    <Arg><Ref refid="conf"/></Arg>
    <Call name="delete">
      <Arg><New class="org.apache.hadoop.fs.Path"><Arg type="String">{folder}</Arg></New></Arg>
      <Arg type="boolean">true</Arg>
    </Call>
  </Call>
</Configure>
"""  # noqa: E501


class _AbsentError(UnavailableError):
    """A file is not there, or its folder."""


class Attempt:
    """The attempt of the application whose master has started this process. `environ`: that of the
    container; `class_path`: yarn.application.classpath."""

    def __init__(self, environ: Mapping[str, str], class_path: str):
        self.number = attempt_of(environ.get("CONTAINER_ID", ""))
        self._environ = environ
        parts = [part.strip() for part in class_path.split(",")]
        self._class_path = os.pathsep.join(
            _VARIABLE.sub(lambda m: environ.get(m[1] or m[2] or m[3], ""), part) for part in parts
        )
        self._folder = f".skein/{environ.get('SKEIN_APPLICATION_ID', '')}"
        self._written = 0
        self._master = os.getppid()

    def read(self) -> bytes | None:
        """The newest record of the earlier attempts; None if they have left none. UnavailableError
        if it cannot be read now."""
        try:
            settings = (f"-D{name}={value}" for name, value in _SETTINGS.items())
            shell = ("org.apache.hadoop.fs.FsShell", *settings)
            return newest(self._java(*shell, "-cat", f"{self._folder}/{RECORDS}"))
        except _AbsentError:
            return None

    def write(self, record: bytes) -> None:
        """Writes a record, of one line. It takes turns with two names: one of them is whole at any
        time. A file that was cut off ends at the next one's first line feed. UnavailableError if it
        cannot be written, or the folder is not there any more."""
        self._written += 1
        path = f"{self._folder}/{_NAME}.{self.number}.{self._written % 2}"
        text = json.dumps(json.loads(record))  # ASCII, of which XML can have all that JSON has
        line = f"\n{self.number} {self._written} {text}\n"
        settings = "".join(_SETTING.format(*setting) for setting in _SETTINGS.items())
        try:
            self._make_calls(_WRITE, settings=settings, path=escape(path), line=escape(line))
        except _AbsentError as error:
            raise UnavailableError(f"{self._folder} is not there") from error

    def end(self, state: str, diagnostics: str) -> None:
        """Tells YARN that the application has ended: there is no further attempt.
        UnavailableError if that fails."""
        text = escape(_UNPRINTABLE.sub("?", diagnostics))
        self._make_calls(_END, state=state, text=text, folder=escape(self._folder))

    def why_lost(self) -> str:
        """See tfapp.coordinator.record.Attempt."""
        id = self._environ.get("SKEIN_APPLICATION_ID", "").removeprefix("application_")
        last = f"appattempt_{id}_{self.number - 1:06}"
        client = "org.apache.hadoop.yarn.client.cli.ApplicationCLI"
        told = self._java(client, "applicationattempt", "-status", last)
        return MEMORY_USED if OF_MEMORY.search(told.decode(errors="replace")) else ""

    def end_master(self) -> None:
        """Kills the master that has started this process, if it lives. YARN notices that one hangs
        after yarn.am.liveness-monitor.expiry-interval-ms, ten minutes, and that it has ended at
        once."""
        if os.getppid() == self._master:
            os.kill(self._master, signal.SIGKILL)

    def nodes(self) -> str:
        """YARN's list of the nodes that work, as `yarn node -list -showDetails` prints it.
        UnavailableError if YARN does not tell."""
        words = ("org.apache.hadoop.yarn.client.cli.NodeCLI", "-list", "-showDetails")
        return self._java(*words).decode(errors="replace")

    def _make_calls(self, form: str, **parts: str) -> None:
        try:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "calls.xml")
                path.write_text(_HEAD + form.format(**parts), encoding="utf-8")
                self._java("org.eclipse.jetty.xml.XmlConfiguration", str(path))
        except OSError as error:
            raise UnavailableError(str(error)) from error

    def _java(self, *words: str) -> bytes:
        """The output of a Java program. _AbsentError if it says that a file is not there."""
        home = self._environ.get("JAVA_HOME", "")
        java = f"{home}/bin/java" if home else "java"
        command: Sequence[str] = (java, *_JAVA, "-cp", self._class_path, *words)
        # The sizes of the master's own JVM are in it.
        environ = {k: v for k, v in self._environ.items() if k != "JAVA_TOOL_OPTIONS"}
        try:
            done = subprocess.run(command, capture_output=True, env=environ, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            raise UnavailableError(f"no answer within {LIMIT:g} s") from None
        except OSError as error:
            raise UnavailableError(str(error)) from error
        if done.returncode:
            lines = done.stderr.decode(errors="replace").splitlines()
            told = [line for line in lines if line.strip() and not line.startswith("\t")]
            if any(_ABSENT.search(line) for line in told):
                raise _AbsentError(f"{words[-1]} is not there")
            raise UnavailableError(told[-1] if told else f"exit code {done.returncode}")
        return done.stdout


def newest(records: bytes) -> bytes | None:
    """The newest of all records that the masters of an application have left; None if none is
    whole."""
    found = [line.split(b" ", 2) for line in records.splitlines()]
    whole = [(int(words[0]), int(words[1]), words[2]) for words in found if _is_whole(words)]
    return max(whole)[2] if whole else None


def _is_whole(words: Sequence[bytes]) -> bool:
    try:
        return len(words) == 3 and isinstance(json.loads(words[2]), dict)
    except ValueError:
        return False
