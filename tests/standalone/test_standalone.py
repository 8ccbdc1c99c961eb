"""Each program needs the standard library alone, and the oldest Python that it meets reads it."""

import ast
import sys
from pathlib import Path

import pytest

import tfapp.standalone
from tests.import_graph import imports

FOLDER = Path(tfapp.standalone.__file__).parent
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")
OLDEST = {"portrait": (3, 6), "question": (3, 6)}  # the interpreter is any of the user's


@pytest.mark.parametrize("name", NAMES)
def test_an_old_python_reads_it(name):
    source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    ast.parse(source, feature_version=OLDEST.get(name, (3, 9)))


def test_they_need_the_standard_library_alone():
    if sys.version_info < (3, 10):
        pytest.skip("this machine has no Python 3.10: the list of standard modules is new there")
    used = {b.split(".")[0] for a, b in imports() if a.startswith("tfapp.standalone.")}
    assert used <= set(sys.stdlib_module_names)
