"""Errors go from one process to another, as multiprocessing and concurrent.futures send them."""

import copy
import pickle
import re

import pytest

from tests import programs
from tfapp import errors
from tfapp.api.errors import told_in_full
from tfapp.engines.kubernetes.pod.failures import AwayError, ExecError, RefusedObjectError
from tfapp.errors import ExitCode, InvalidPackageError, TfappError
from tfapp.problems import Position, Problem

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type)
    and issubclass(kind, TfappError)
    and kind.__init__ is TfappError.__init__
]


@pytest.mark.parametrize(
    "error",
    [
        *(kind("it is so", "Do this.", ExitCode.IN_USE) for kind in KINDS),
        InvalidPackageError((Problem(Position("a.yaml", 3, 1), "code", "it is wrong"),)),
        AwayError("it is away", "Wait.", sent=False),
        RefusedObjectError("no", "", (("spec.x", "too large"),)),
        ExecError("it failed", 3, "no such file\n"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("sent", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy])
def test_an_error_arrives_as_it_was(error, sent):
    with pytest.raises(TfappError) as caught, told_in_full():
        raise error
    arrived = sent(caught.value)
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    assert vars(arrived) == vars(error)


CELL = """
from types import SimpleNamespace
from tfapp.api.errors import told_in_full
from tfapp.errors import ApplicationFailedError, remote_error
trace = "".join(f"line {number}\\n" for number in range({lines})) + "ValueError: no"
result = SimpleNamespace(
    summary="Failed: it is so.", last_lines="", exit_code=65,
    raised=remote_error("ValueError", "chief/0", trace),
)
def mine():
    with told_in_full():
        raise ApplicationFailedError(result)
mine()
"""


@pytest.mark.parametrize("lines", [3, 1000])
def test_a_notebook_shows_one_screen_without_the_inside_of_tfapp(lines, tmp_path):
    script = f"""if 1:
        from IPython.core.interactiveshell import InteractiveShell
        shell = InteractiveShell.instance()
        shell.run_cell({CELL.replace("{lines}", str(lines))!r}, store_history=True)
    """
    environ = {"IPYTHONDIR": str(tmp_path), "NO_COLOR": "1"}
    done = programs.python("-c", script, environ=environ)
    marks = re.compile(r" *[~^]+")  # below a line of code, from Python 3.13 on
    lines_shown = done.stdout.rstrip().splitlines()
    shown = [line for line in lines_shown if not marks.fullmatch(line)]
    assert shown[-6:] == [
        "Traceback (most recent call last):",
        '  File "In[1]", line 12, in <module>',
        "    mine()",
        '  File "In[1]", line 11, in mine',
        "    raise ApplicationFailedError(result)",
        "tfapp.errors.ApplicationFailedError: Failed: it is so.",
    ], done.stdout
    assert f"line {lines - 1}" in shown and "ValueError: no" in shown
    if lines > 3:
        assert (shown[0], len(lines_shown)) == ("...", 41)
    else:
        assert (shown[0], len(shown)) == ("ValueError: in chief/0:", 14)
