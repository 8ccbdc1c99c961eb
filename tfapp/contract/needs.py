"""What tfapp's own part of a container needs of a Python interpreter, as setup.cfg has it."""

from __future__ import annotations

NEEDED = {"grpc": "grpcio", "google.protobuf": "protobuf"}  # module: the distribution that has it
# For an interpreter that tfapp makes. Docker is for run mode docker alone.
REQUIREMENTS = ("grpcio>=1.50", "protobuf>=4", "docker>=6")


def unfit(needed):  # without types, in words of Python 2: it is asked of very old ones too
    """The reason why this interpreter cannot run tfapp, as the end of a sentence; "" if it can."""
    import sys

    oldest = (3, 9)
    if sys.version_info < oldest:
        return "is Python {}.{}.{}, tfapp needs 3.9 or newer".format(*sys.version_info)
    from importlib.util import find_spec

    def lacks(module):
        try:
            return find_spec(module) is None
        except ImportError:  # the package around it
            return True

    missing = [needed[module] for module in needed if lacks(module)]
    return "lacks " + ", ".join(missing) + ", which tfapp needs" if missing else ""


def question(libraries: bool = True) -> str:
    """A program for `python -c` whose variable `problem` is what `unfit` says of the interpreter.
    Without `libraries`, only its version matters."""
    import inspect  # which containers do not need, and starts slowly

    return f"{inspect.getsource(unfit)}\nproblem = unfit({NEEDED if libraries else {}!r})\n"
