"""The command of a pod, which checks the Python of the image before tfapp runs."""

from __future__ import annotations

from collections.abc import Sequence

from tfapp.contract.names import CANNOT_START, CANNOT_START_CODE, ENV_IMAGE_DIR
from tfapp.contract.needs import question

# For any POSIX shell. $0: the interpreter, $1: the image, $2: the key that names the interpreter,
# $3: what follows. The first process of a container is not ended by a signal without a handler.
_SHELL = f"""\
trap 'exit 143' TERM
if ! command -v "$0" > /dev/null 2>&1; then
  echo "{CANNOT_START}there is no Python interpreter $0 in the image $1$2"
  exit {CANNOT_START_CODE}
fi
if ! command -v bash > /dev/null 2>&1; then
  echo "{CANNOT_START}there is no bash in the image $1"
  exit {CANNOT_START_CODE}
fi
export {ENV_IMAGE_DIR}="$PWD"
exec "$0" -u -c "$3" "$@"
"""

# For any Python, also one that is too old. It becomes the program: another process would cost its
# start. sys.argv: -c, image, key, this text, the program and its arguments.
_LOOK = """\
import os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
if sys.path[:1] == [""]:
    del sys.path[0]
image, key, start = sys.argv[1], sys.argv[2], sys.argv[4:]
{question}
if problem:
    print("{mark}" + sys.executable + " of the image " + image + " " + problem + key)
    sys.exit({code})
import runpy
sys.argv = start + {last}
runpy.run_path(start[0], run_name="__main__")
"""


def command(
    python: str,
    image: str,
    key: str,
    program: Sequence[str],
    last: Sequence[str] = (),
    libraries: bool = True,
) -> list[str]:
    """The command that runs `program` (a Python file and its first arguments) by `python` in
    `image`; then follow the container's `args` and `last`. If bash or the interpreter is missing,
    or the interpreter is too old or, with `libraries`, lacks a library, it prints one line and
    exits with CANNOT_START_CODE. `key`: the key that names the interpreter; "" for none."""
    look = _LOOK.format(
        mark=CANNOT_START,
        code=CANNOT_START_CODE,
        question=question(libraries),
        last=list(last),
    )
    named = f" ({key})" if key else ""
    return ["sh", "-c", _SHELL, python, image, named, look, *program]
