"""From `tfapp create --engine yarn` to the first line of the user's program, against submitting
the same containers with Skein alone: same resources, same files, a script of one line.

On the cluster that the environment names, whose nodes see this machine's files: that of
examples/yarn-cluster does. Both ways find a driver that runs already.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import skein
import yaml

from benchmarks.medians import compare, parser
from tfapp.engines.yarn.driver_daemon import JAVA_OPTIONS
from tfapp.shipped import app_packages_dir

ROUNDS = 7
INSTANCES = 2
BAR = 1.10
LIMIT = 300.0  # seconds for one application

# Every instance says when it begins; the last one counts.
PROGRAM = """
import os, sys, time
with open(os.path.join({folder!r}, sys.argv[1] if sys.argv[1:] else "tfapp"), "a") as file:
    file.write(f"{{time.time()}}\\n")
"""


# Submits the file argv[1] by the driver at argv[2], whose credentials lie in the folder argv[3].
SUBMIT = """
import skein, sys
from pathlib import Path
spec, address, folder = sys.argv[1:]
cert, key = (Path(folder, name).read_bytes() for name in ("skein.crt", "skein.pem"))
client = skein.Client(address=address, security=skein.Security(cert_bytes=cert, key_bytes=key))
print(client.submit(spec))
"""


class Bench:
    """`folder` is for files, and has the credentials of `client`'s driver."""

    def __init__(self, folder: Path, environ: Mapping[str, str], client: skein.Client):
        self._times = folder / "times"
        self._times.mkdir()
        self._program = folder / "program.py"
        self._program.write_text(PROGRAM.format(folder=str(self._times)))
        self._folder = folder
        self._environ = environ
        self._client = client
        self._numbers = itertools.count()

    def tfapp(self) -> float:
        """Seconds by tfapp."""
        name = f"startup-{os.getpid()}-{next(self._numbers)}"
        began = time.time()
        self._run("-m", "tfapp", "create", name, *self._flags())
        return self._latest("tfapp") - began

    def bare(self) -> float:
        """Seconds by Skein."""
        spec = self._bare_spec()
        began = time.time()
        words = (str(spec), self._client.address, str(self._folder))
        application = self._run("-c", SUBMIT, *words).stdout.strip()
        while self._client.application_report(application).final_status == "UNDEFINED":
            if time.time() > began + LIMIT:
                raise SystemExit(f"{application} has not ended after {LIMIT:g} s")
            time.sleep(0.5)
        return self._latest("bare") - began

    def _bare_spec(self) -> Path:
        printed = self._run("-m", "tfapp", "compile", *self._flags()[1:], "--name", "bare")
        spec: dict[str, Any] = yaml.safe_load(printed.stdout)
        spec["master"]["script"] = ""
        for service in spec["services"].values():
            service["script"] = f"exec {sys.executable} files/program.py bare\n"
        path = self._folder / "bare.yaml"
        path.write_text(yaml.safe_dump(spec))
        return path

    def _flags(self) -> list[str]:
        count = ("--component", "worker", str(INSTANCES))
        files = ("--files", str(self._program), "--option", "site.global.user.scripts.entry")
        package = str(app_packages_dir() / "tensorflow")
        return ["--appdef", package, *count, *files, self._program.name, "--engine", "yarn"]

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, *words],
            env=dict(self._environ),
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        if done.returncode:
            raise SystemExit(f"{words} ended with {done.returncode}:\n{done.stderr}")
        return done

    def _latest(self, who: str) -> float:
        """When the last instance of a run began; the next run writes anew."""
        path = self._times / who
        moments = [float(line) for line in path.read_text().split()]
        if len(moments) != INSTANCES:
            raise SystemExit(f"{len(moments)} instances of {INSTANCES} have run")
        path.unlink()
        return max(moments)


@contextmanager
def bench() -> Iterator[Bench]:
    """With a driver for the bare submissions of its own; of TFAPP_HOME too, if it is not set."""
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        security = skein.Security.new_credentials()
        security.to_directory(str(folder), force=True)
        environ = {"TFAPP_HOME": str(folder / "home"), **os.environ}
        with skein.Client(security=security, java_options=JAVA_OPTIONS) as client:
            yield Bench(folder, environ, client)


def main() -> None:
    """Prints the medians, and the ratio beside its bar."""
    rounds = parser(__doc__, ROUNDS).parse_args().rounds
    with bench() as measured:
        if rounds > 1:
            measured.tfapp()  # starts tfapp's driver, and brings the files to the cluster
        ways: dict[str, Callable[[], float]] = {
            "a bare Skein submission": measured.bare,
            "tfapp create --engine yarn": measured.tfapp,
        }
        bare, ours = compare(ways, rounds).values()
    times = ours / bare
    print(f"{times:.2f}x ({'met' if times <= BAR else 'missed'}: at most {BAR}x)")


if __name__ == "__main__":
    main()
