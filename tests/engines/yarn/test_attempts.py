"""The record of an application and its end, with a pretended Java.
tests/clusters/yarn/test_faults.py has a real one."""

import json
import shlex
import signal
import subprocess
import sys
import xml.etree.ElementTree as xml

import pytest

from tfapp.contract.encoding import encode
from tfapp.engines.yarn import attempts
from tfapp.engines.yarn.attempts import MEMORY_USED, Attempt
from tfapp.errors import UnavailableError

APPLICATION = "application_1700000000000_0007"

JAVA = f"""#!{sys.executable}
import glob, os, pathlib, sys, xml.etree.ElementTree as xml
words = sys.argv[1:]
at = words.index("-cp")
pathlib.Path("class-path").write_text(words[at + 1])
assert "JAVA_TOOL_OPTIONS" not in os.environ
main, *rest = words[at + 2:]
if os.path.exists("down"):
    sys.exit("log4j: noise\\nput: Call From a to b failed\\n\\tat a.stack(Frame.java:1)")
if main == "org.eclipse.jetty.xml.XmlConfiguration":
    calls = xml.parse(rest[0]).getroot()
    create = calls.find(".//Call[@name='createNonRecursive']")
    if create is None:
        pathlib.Path("end.xml").write_bytes(pathlib.Path(rest[0]).read_bytes())
        sys.exit(0)
    settings = {{call[0].text: call[1].text for call in calls.findall("Call[@name='set']")}}
    assert settings["fs.permissions.umask-mode"] == "077"
    path = pathlib.Path(create.findtext("Arg/New/Arg"))
    if not path.parent.exists():
        parent = f"java.io.FileNotFoundException: Parent directory doesn't exist: {{path.parent}}"
        sys.exit(f"Exception in thread \\"main\\" {{parent}}\\n\\tat a.stack(Frame.java:1)")
    path.write_bytes(create.findtext("Call[@name='writeBytes']/Arg").encode("latin-1"))
    sys.exit(0)
if main == "org.apache.hadoop.yarn.client.cli.ApplicationCLI":
    assert rest == ["applicationattempt", "-status", "appattempt_1700000000000_0007_000001"]
    print("Application Attempt Report : \\n" + pathlib.Path("diagnostics").read_text())
    sys.exit(0)
assert main == "org.apache.hadoop.fs.FsShell"
command, *given = [word for word in rest if not word.startswith("-D")]
assert command == "-cat"
found = sorted(glob.glob(given[0]))
if not found:
    sys.exit(f"cat: `{{given[0]}}': No such file or directory")
sys.stdout.buffer.write(b"".join(pathlib.Path(path).read_bytes() for path in found))
"""


@pytest.fixture
def attempt(tmp_path, monkeypatch):
    """Makes an attempt by its number."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text(JAVA)
    (tmp_path / "bin" / "java").chmod(0o755)
    (tmp_path / ".skein" / APPLICATION).mkdir(parents=True)

    def make(number: int) -> Attempt:
        environ = {
            "CONTAINER_ID": f"container_e17_1700000000000_0007_{number:02}_000001",
            "SKEIN_APPLICATION_ID": APPLICATION,
            "JAVA_HOME": str(tmp_path),
            "JAVA_TOOL_OPTIONS": "-XX:+UseSerialGC",
            "HADOOP_HOME": "/opt/hadoop",
        }
        return Attempt(environ, "$HADOOP_HOME/etc, ${HADOOP_HOME}/lib/*,{{HADOOP_HOME}}/x")

    return make


def test_an_attempt_reads_the_newest_record_of_the_earlier_ones(attempt, tmp_path):
    first, second = attempt(1), attempt(2)
    assert (first.number, second.number) == (1, 2)
    assert second.read() is None
    for number in range(1, 12):
        first.write(b'{"is": %d}' % number)
    assert second.read() == b'{"is": 11}'
    second.write(b'{"is": "the second"}')
    first.write(b'{"is": "late"}')
    assert attempt(3).read() == b'{"is": "the second"}'
    path = (tmp_path / "class-path").read_text()
    assert path == "/opt/hadoop/etc:/opt/hadoop/lib/*:/opt/hadoop/x"


def test_a_write_that_was_cut_off_hides_no_whole_record(attempt, tmp_path):
    attempt(1).write(b'{"is": "whole"}')
    folder = tmp_path / ".skein" / APPLICATION
    (folder / "tfapp-record.1.0._COPYING_").write_bytes(b'1 9 {"is": "cu')
    assert attempt(2).read() == b'{"is": "whole"}'


def test_a_folder_that_is_gone(attempt, tmp_path):
    (tmp_path / ".skein" / APPLICATION).rmdir()
    with pytest.raises(UnavailableError, match=f"^.skein/{APPLICATION} is not there"):
        attempt(1).write(b"{}")
    assert not (tmp_path / ".skein" / APPLICATION).exists()


def test_a_record_may_have_any_text(attempt):
    said = '<&"\\ \x1b\x7f\uffff Größe \U0001f600 ]]> %s {}'
    attempt(1).write(encode({"said": said}))
    assert json.loads(attempt(2).read()) == {"said": said}


def test_a_file_system_that_is_away(attempt, tmp_path, monkeypatch):
    (tmp_path / "down").touch()
    with pytest.raises(UnavailableError, match=r"\Aput: Call From a to b failed\Z"):
        attempt(1).write(b"{}")
    (tmp_path / "bin" / "java").write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(attempts, "LIMIT", 0.2)
    with pytest.raises(UnavailableError, match="no answer within 0.2 s"):
        attempt(2).read()
    (tmp_path / "bin" / "java").unlink()
    with pytest.raises(UnavailableError, match="No such file or directory"):
        attempt(2).read()


@pytest.mark.parametrize(
    ("code", "told"), [(-103, MEMORY_USED), (-104, MEMORY_USED), (-1040, ""), (137, "")]
)
def test_a_user_can_mend_what_memory_a_master_had(attempt, tmp_path, code, told):
    said = f"AM Container for appattempt_1700000000000_0007_000001 exited with  exitCode: {code}\n"
    (tmp_path / "diagnostics").write_text(f"\tDiagnostics : {said}Failing this attempt.")
    assert attempt(2).why_lost() == told


def test_the_end_is_told_word_for_word(attempt, tmp_path):
    text = 'Failed: <a> & "b"\x1b[0m. \n{"last": "]]>"}'
    attempt(1).end("FAILED", text)
    root = xml.parse(tmp_path / "end.xml").getroot()
    state, told, _ = root.findall("./Call[@name='unregisterApplicationMaster']/Arg")
    assert state.findtext("./Call/Arg") == "FAILED"
    assert told.text == text.replace("\x1b", "?")
    assert (
        root.findtext(".//New[@class='org.apache.hadoop.fs.Path']/Arg") == f".skein/{APPLICATION}"
    )


def test_a_master_that_does_not_answer_is_killed():
    """It is what has started this process."""
    program = f"from {attempts.__name__} import Attempt; Attempt({{}}, '').end_master()"
    words = shlex.join([sys.executable, "-c", program])
    done = subprocess.run(["sh", "-c", f"{words}; echo goes on"], capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGKILL, b"", b"")
