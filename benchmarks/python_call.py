"""From the call of `tfapp.run` to the first line of its function, against `tfapp create` of the
same: two instances, a program of one line. And what `import tfapp` costs.

    python -m benchmarks.python_call yarn

The engine is local unless it is named. YARN is the cluster that the environment names, whose nodes
see this machine's files: that of examples/yarn-cluster does.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.commands import command
from benchmarks.medians import compare, parser
from tfapp.shipped import app_packages_dir

ROUNDS = 7
INSTANCES = 2
BAR, IMPORT_BAR = 1.15, 1.5
LIMIT = 300.0  # seconds for one application

# The last instance that begins counts.
BEGINS = """
import time
def begin():
    with open({times!r}, "a") as file:
        file.write(f"{{time.time()}}\\n")
"""

CALL = """
import sys, time, tfapp
print(time.time())
_, engine, name = sys.argv
tfapp.run(begin, tfapp.all_reduce({instances}), engine=engine, name=name, show=False)
"""


class Bench:
    """`folder` is for files."""

    def __init__(self, folder: Path, engine: str, environ: Mapping[str, str]):
        self._engine, self._environ = engine, environ
        self._times = folder / "times"
        begins = BEGINS.format(times=str(self._times))
        self._program, self._caller = folder / "program.py", folder / "caller.py"
        self._program.write_text(f"{begins}\nbegin()\n")
        self._caller.write_text(begins + CALL.format(instances=INSTANCES))
        self._numbers = itertools.count()

    def create(self) -> float:
        """Seconds by the command."""
        began = time.time()
        self._run(
            *("-m", "tfapp", "create", self._name(), "--engine", self._engine),
            *("--appdef", str(app_packages_dir() / "tensorflow")),
            *("--component", "worker", str(INSTANCES), "--files", str(self._program)),
            *("--option", "site.global.user.scripts.entry", self._program.name),
        )
        return self._latest() - began

    def call(self) -> float:
        """Seconds by the call, in a process that has begun."""
        began = float(self._run(str(self._caller), self._engine, self._name()).split()[0])
        return self._latest() - began

    def _name(self) -> str:
        return f"call-{os.getpid()}-{next(self._numbers)}"

    def _run(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            env=dict(self._environ),
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        if done.returncode:
            raise SystemExit(f"{words} ended with {done.returncode}:\n{done.stderr}")
        return done.stdout

    def _latest(self) -> float:
        moments = [float(line) for line in self._times.read_text().split()]
        if len(moments) != INSTANCES:
            raise SystemExit(f"{len(moments)} instances of {INSTANCES} have run")
        self._times.unlink()
        return max(moments)


def verdict(times: float, bar: float) -> str:
    """A ratio beside its bar."""
    return f"{times:.2f}x ({'met' if times <= bar else 'missed'}: at most {bar}x)"


def main(engine: str, rounds: int) -> None:
    """Prints the medians, and the ratios beside their bars."""
    ways = {"python -c pass": command("-c", "pass"), "import tfapp": command("-c", "import tfapp")}
    nothing, imported = compare(ways, 2 * rounds).values()
    print(verdict(imported / nothing, IMPORT_BAR))
    with tempfile.TemporaryDirectory() as text:
        environ = {**os.environ, "TFAPP_HOME": f"{text}/home"}
        measured = Bench(Path(text), engine, environ)
        if rounds > 1:
            measured.create()  # fills the caches, and on YARN starts a driver
        ways = {"tfapp create": measured.create, "tfapp.run": measured.call}
        by_command, by_call = compare(ways, rounds).values()
    print(verdict(by_call / by_command, BAR))


if __name__ == "__main__":
    arguments = parser(__doc__, ROUNDS)
    arguments.add_argument("engine", nargs="?", choices=("local", "yarn"), default="local")
    args = arguments.parse_args()
    main(args.engine, args.rounds)
