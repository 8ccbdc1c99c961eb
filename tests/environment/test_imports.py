import pytest

from tfapp.environment.imports import AT_LOAD, IN_FUNCTION, PERHAPS, imports_of, variables_of

SOURCE = """\
import os, tensorflow.keras as keras
from . import sibling
from ..above import name
with scope():
    import inside
try:
    import tried
except (ImportError, OSError):
    import instead
try:
    import closed
finally:
    pass
if TYPE_CHECKING:
    import types_alone
elif late:
    import conditional
def main():
    import called
    def nested():
        import nested_too
class Any:
    import of_a_class
    async def method(self):
        import in_method
with contextlib.suppress(ImportError):
    import suppressed
for one in two:
    from star import *
else:
    import otherwise
"""


def test_each_import_has_its_line_and_whether_it_is_carried_out():
    found = imports_of(SOURCE, "pkg.sub")
    assert [(one.line, one.module, one.when) for one in found if one.sure] == [
        (1, "os", AT_LOAD),
        (1, "tensorflow.keras", AT_LOAD),
        (2, "pkg.sub", AT_LOAD),
        (3, "pkg.above", AT_LOAD),
        (5, "inside", AT_LOAD),
        (7, "tried", PERHAPS),
        (9, "instead", PERHAPS),
        (11, "closed", AT_LOAD),
        (17, "conditional", PERHAPS),
        (19, "called", IN_FUNCTION),
        (21, "nested_too", IN_FUNCTION),
        (23, "of_a_class", AT_LOAD),
        (25, "in_method", IN_FUNCTION),
        (27, "suppressed", PERHAPS),
        (29, "star", AT_LOAD),
        (31, "otherwise", AT_LOAD),
    ]
    assert [one.module for one in found if not one.sure] == ["pkg.sub.sibling", "pkg.above.name"]


def test_functions_that_are_called_count():
    when = {one.module: one.when for one in imports_of(SOURCE, called=("main",))}
    assert (when["called"], when["nested_too"], when["in_method"]) == (
        AT_LOAD,
        IN_FUNCTION,
        IN_FUNCTION,
    )
    assert {one.when for one in imports_of(SOURCE, called=None)} == {AT_LOAD, PERHAPS}


def test_a_relative_import_without_a_package_means_nothing():
    assert imports_of("from . import a\nfrom ..b import c") == []
    assert imports_of("from ... import a", "pkg") == []


@pytest.mark.parametrize("source", ["if x\n", b"x\0", "(" * 10_000])
def test_what_this_python_cannot_read(source):
    assert imports_of(source) == []


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ('import os\nprint(os.environ["A"], os.environ.get("B", 1), os.getenv("C"))', "ABC"),
        ('from os import environ, getenv\nenviron["A"]; getenv("B"); environ.get("C")', "ABC"),
        ('os.environ.setdefault("A", "1"); os.environ.pop("B", None)', "AB"),
        ('def f():\n  class X:\n    y = lambda: os.environ["A"]', "A"),
        ('os.environ["A"] = "1"; del os.environ["B"]; "C" in os.environ', ""),
        ('os.environ[name]; os.getenv(name); os.getenv(); os.environ[1]; d.get("A")', ""),
        ("os.environ[", ""),
        ("print('environ')", ""),
    ],
)
def test_variables(source, names):
    assert [one.name for one in variables_of(source.encode())] == list(names)


def test_where_they_are_read():
    (one,) = variables_of(b'import os\nif 1:\n  a = os.environ["A"]\n')
    assert (one.line, one.column) == (3, 7)
