"""A pretended `hadoop fs`, on a folder: what the shared folder of a user is made of."""

import sys
from pathlib import Path

from tfapp.contract.encoding import encode
from tfapp.contract.status import ApplicationStatus
from tfapp.engines.yarn.layout import YarnHome
from tfapp.engines.yarn.shared_folder import SharedFolder

FOLDER = "/user/ann/.tfapp"
CACHE = f"{FOLDER}/cache"
URL = f"hdfs://namenode:9000{CACHE}"

# `java ... FsShell -Dumask COMMAND WORDS`: a file system of its own below "there".
JAVA = f"""#!{sys.executable}
import glob, os, pathlib, shutil, sys
base = pathlib.Path(BASE)
given = sys.argv[sys.argv.index("org.apache.hadoop.fs.FsShell") + 1:]
command, *words = (word for word in given if not word.startswith("-D"))
private = "-Dfs.permissions.umask-mode=077" in given
assert private or command == "-mkdir"
with open(base / "calls", "a") as calls:
    print(command, *words, file=calls)
code = 0
def there(path):
    path = os.path.join("/user/ann", path)
    assert (path + "/").startswith("/user/ann/"), path
    return base / "there" / path[1:]
def complain(text):
    global code
    code = 1
    print(f"{{command[1:]}}: {{text}}", file=sys.stderr)
if (base / "down").exists():
    sys.exit(command[1:] + ": Call From here to there:1 failed on connection exception: refused")
if (base / "broken").exists():
    sys.exit(command[1:] + ": Name node is in safe mode.")
if command == "-df":
    print("Filesystem  Size  Used  Available  Use%")
    print((base / "system").read_text(), "1 2 3 4%")
elif command == "-mkdir":
    os.umask(0o077 if private else 0o022)
    if words[0] == "-p":
        for path in words[1:]:
            os.makedirs(there(path), exist_ok=True)  # as HDFS does, all with the same mode
    else:
        for path in words:
            if there(path).exists():
                complain(f"`{{path}}': File exists")
            elif there(path).parent.exists():
                there(path).mkdir()
            else:
                complain(f"`{{os.path.dirname(path)}}': No such file or directory")
elif command == "-ls":
    for path in there(words[1]).iterdir():
        print(words[1] + path.name)
elif command == "-stat":
    assert words[0] == "%Y %b %n"
    found = glob.glob(str(there(words[1])))
    for path in map(pathlib.Path, found):
        size = 0 if path.is_dir() else path.stat().st_size
        print(int(path.stat().st_mtime * 1000), size, path.name)
    if not found:
        complain(f"`{{words[1]}}': No such file or directory")
elif command == "-du":
    assert words[0] == "-s"
    if there(words[1]).exists():
        size = sum(path.stat().st_size for path in there(words[1]).iterdir())
        print(f"{{size}}  {{3 * size}}  {{words[1]}}")
    else:
        complain(f"`{{words[1]}}': No such file or directory")
elif command == "-cat":
    for path in words:
        found = glob.glob(str(there(path)))
        for one in found:
            print(pathlib.Path(one).read_text(), end="")
        if not found:
            complain(f"`{{path}}': No such file or directory")
elif command == "-rm":
    assert words[:3] == ["-r", "-f", "-skipTrash"]
    for path in map(there, words[3:]):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
elif command == "-put":
    *names, target = words
    for name in names:
        if (there(target) / name).exists():
            complain(f"`{{target}}{{name}}': File exists")
        elif (base / "locked").exists():
            complain("Name node is in safe mode.")
        elif there(target).exists():
            shutil.copy(name, there(target) / name)
        else:
            complain(f"`{{target}}': No such file or directory: `{{URL}}'")
sys.exit(code)
"""


class FileSystem:
    """Below `base`, which has a file "broken", "locked" or "down" while it is that."""

    def __init__(self, base: Path):
        self.base = base
        conf, binaries = base / "conf", base / "bin"
        for folder in (conf, binaries, base / "there"):
            folder.mkdir(parents=True)
        (conf / "yarn-site.xml").touch()
        (base / "system").write_text("hdfs://namenode:9000")
        self._program(binaries / "yarn", f"#!/bin/sh\necho {conf}\n")
        java = JAVA.replace("(BASE)", f"({str(base)!r})").replace("{URL}", URL)
        self._program(binaries / "java", java)
        self.environ = {"PATH": f"{binaries}:/usr/bin:/bin"}
        self.folder = base / "there" / CACHE[1:]

    def record(self, application: str, status: ApplicationStatus) -> None:
        """Keeps what a coordinator records for the next master."""
        folder = self.base / "there/user/ann/.skein" / application
        folder.mkdir(parents=True)
        (folder / "tfapp-record.1.1").write_bytes(b"\n1 1 " + encode(status) + b"\n")

    def _program(self, path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)

    def shared_folder(self, home: str = "home", now: float = 1000.0) -> SharedFolder:
        return SharedFolder(YarnHome(self.base / home), self.environ, "ann", lambda: now)

    def files(self) -> set[str]:
        return {path.name for path in self.folder.glob("*")}

    def marks(self) -> set[str]:
        return {path.name for path in self.folder.parent.glob("destroyed/*")}

    def calls(self) -> list[str]:
        """The commands since the last look."""
        path = self.base / "calls"
        found = path.read_text().splitlines() if path.exists() else []
        path.write_text("")
        return found
