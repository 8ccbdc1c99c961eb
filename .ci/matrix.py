"""Runs the README's first command with pairs of Python and TensorFlow, each in a new environment.

  python .ci/matrix.py ends            the oldest pair and the newest one that this machine can have
  python .ci/matrix.py all [3.9 ...]   all pairs, all that TensorFlow does with files on a real S3
                                       server, and the fast tests once for each Python
  python .ci/matrix.py fast [3.9 ...]  the newest pair of each Python, and the fast tests

Pythons are those on PATH and of pyenv, or those of them that are named. Prints a line for each pair
once it has trained, and one for the fast tests; the exit code is 1 if one failed. Environments are
deleted again: each has 2 GB.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".cache" / "matrix"
LIMIT = 3600.0  # seconds for one command
ONE_TEST = 700.0  # seconds: a test is ended after 600 (setup.cfg)
# The minor versions of Python 3 for which each TensorFlow has wheels that the extra `tensorflow`
# allows: up to 2.18, tf-keras makes no seed on Python 3.12.
TENSORFLOW = {
    "2.16": range(9, 12),
    "2.17": range(9, 12),
    "2.18": range(9, 12),
    "2.19": range(9, 13),
    "2.20": range(9, 14),
    "2.21": range(10, 14),
}
STORAGE = 10  # the first minor version of Python 3 that the extra `storage` has libraries for
FAST = ("-m", "pytest", "-q", "-n", "2", "-m", "not cluster", "-p", "no:cacheprovider")


class FailedError(Exception):
    """The text is the end of what a command has said."""


def pythons() -> dict[int, str]:
    """The interpreters that run here, by minor version."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = {sys.version_info[1]: sys.executable}
    for minor in sorted({each for minors in TENSORFLOW.values() for each in minors}):
        name = f"python3.{minor}"
        on_path = shutil.which(name, path=os.environ.get("PATH"))
        for path in (*([on_path] if on_path else ()), *pyenv.glob(f"3.{minor}.*/bin/{name}")):
            # A shim of pyenv is on PATH for versions that are not chosen, and then fails.
            if subprocess.run([path, "-c", "import ssl"], capture_output=True).returncode == 0:
                found.setdefault(minor, str(path))
    return found


def pairs(minors: list[int]) -> list[tuple[int, str]]:
    """The pairs of these Pythons, oldest Python first, with the oldest TensorFlow first."""
    return [(m, version) for m in sorted(minors) for version, of in TENSORFLOW.items() if m in of]


def run(command: list[str], environ: Mapping[str, str] | None = None) -> str:
    """What a command prints. FailedError."""
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, **(environ or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=LIMIT,
        )
    except subprocess.TimeoutExpired as error:
        said = (error.stdout or b"")[-4000:].decode(errors="replace")
        raise FailedError(f"{shlex.join(command)}\n{said}\nended after {LIMIT:g} s") from None
    if done.returncode:
        raise FailedError(f"{shlex.join(command)}\n{done.stdout[-4000:]}")
    return done.stdout


def readme() -> tuple[list[str], list[str]]:
    """The README's first command: what `pip install` installs, and the words of `tfapp`."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    _, install, train = re.findall(r"(?ms)^```sh\n(.*?)^```$", text)[0].splitlines()
    return shlex.split(install.rstrip("& "))[2:], shlex.split(train)[1:]


def check(uv: str, python: str, version: str, tests: bool, s3: Mapping[str, str]) -> Iterator[str]:
    """Trains with TensorFlow `version`, uses the S3 server of the variables `s3`, if there are any,
    and yields the versions that were installed; with `tests`, runs the fast tests, and yields how
    many there were. FailedError."""
    what, words = readme()
    if s3:
        what = [each.replace("[tensorflow]", "[tensorflow,storage]") for each in what]
    if tests:
        what = [each.replace("[tensorflow", "[test,tensorflow") for each in what]
    environment, home = WORK / "environment", WORK / "home"
    bounds = WORK / "constraints.txt"
    bounds.write_text(f"tensorflow=={version}.*\n")
    try:
        venv = (uv, "venv", "--clear", "--seed", "--no-project")  # with pip, for the tests
        run([*venv, "--python", python, str(environment)])
        own = str(environment / "bin" / "python")
        install = [uv, "pip", "install", "--no-cache", "--python", own, "-c", str(bounds)]
        run([*install, *what], {"UV_HTTP_TIMEOUT": "300"})  # TensorFlow has 0.6 GB
        said = run([str(environment / "bin" / "tfapp"), *words], {"TFAPP_HOME": str(home)})
        if "digits: Succeeded" not in said:
            raise FailedError(said[-4000:])
        if s3:
            run([own, "-m", "tests.storage.operations", "s3://tests/matrix"], s3)
        listed = run([uv, "pip", "freeze", "--python", own])
        named = dict(line.split("==") for line in listed.splitlines() if "==" in line)
        own_s3 = ", S3" if s3 else ""
        yield f"TensorFlow {named['tensorflow']}, tf-keras {named['tf-keras']}{own_s3}"
        if tests:
            # Before `run` would cut it off, pytest ends by itself and names what has failed.
            until = str(time.time() + LIMIT - ONE_TEST)
            path = f"{environment / 'bin'}:{os.environ['PATH']}"
            said = run([own, *FAST], {"PATH": path, "TESTS_UNTIL": until})
            yield "the fast tests, " + counted(said)
    finally:
        if home.exists():  # an application outlives a command that was ended
            end = [str(environment / "bin" / "tfapp"), "destroy", "digits", "--force"]
            subprocess.run(end, env={**os.environ, "TFAPP_HOME": str(home)}, capture_output=True)
        shutil.rmtree(environment, ignore_errors=True)
        shutil.rmtree(home, ignore_errors=True)


def counted(said: str) -> str:
    """How many tests have passed, as pytest says it at its end."""
    return re.findall(r"(?m)^(?:=+ )?(\d+ passed.*?) in [\d.]+s", said)[-1]


def install_uv() -> str:
    """Returns the program. pip takes three to four times as long for an environment."""
    target = WORK / "uv"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*command, "--upgrade", "--target", str(target), "uv"])
    return str(target / "bin" / "uv")


def main(what: str = "", *only: str) -> int:
    if what not in ("ends", "all", "fast"):
        print(__doc__, file=sys.stderr)
        return 2
    WORK.mkdir(parents=True, exist_ok=True)
    uv, found = install_uv(), pythons()
    if lacking := [each for each in only if each not in {f"3.{minor}" for minor in found}]:
        print(f"this machine has no Python {', '.join(lacking)}", file=sys.stderr)
        return 2
    chosen = pairs([minor for minor in found if not only or f"3.{minor}" in only])
    newest = dict(chosen)  # of each Python the last
    if what != "all":
        chosen = [chosen[0], chosen[-1]] if what == "ends" else list(newest.items())
    failed = False
    with contextlib.ExitStack() as stack:
        s3 = served(stack) if what == "all" else {}
        for minor, version in chosen:
            begun = time.monotonic()
            tests = what != "ends" and newest[minor] == version
            told = check(uv, found[minor], version, tests, s3 if minor >= STORAGE else {})
            try:
                for line in told:
                    print(
                        f"Python 3.{minor}: {line} ({time.monotonic() - begun:.0f} s)", flush=True
                    )
                    begun = time.monotonic()
            except FailedError as error:
                failed = True
                took = time.monotonic() - begun
                print(f"Python 3.{minor}: {version} FAILED after {took:.0f} s: {error}", flush=True)
    return int(failed)


def served(stack: contextlib.ExitStack) -> dict[str, str]:
    """A real S3 server with the bucket "tests", until the end of `stack`: its variables."""
    sys.path.insert(0, str(ROOT))
    from tests.storage import s3_server

    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    return stack.enter_context(s3_server.running(folder / "buckets", ("tests",)))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
