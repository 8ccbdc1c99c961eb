"""A program that has changed sys.path before it calls tfapp, as `import cluster_pack` does."""

from tests import programs

# The packages that tfapp's libraries are made of, in versions with which nothing works.
OLD = ("attr", "attrs", "referencing", "rpds", "jsonschema", "grpc", "skein")
PROGRAM = """
import sys
from importlib.machinery import PathFinder
import tfapp
sys.path.insert(0, sys.argv[1])
class Finder:  # of the same packages
    def find_spec(self, name, path=None, target=None):
        return PathFinder.find_spec(name, [sys.argv[1]]) if path is None else None
sys.meta_path.insert(0, Finder())
from tfapp.package.load import load_package
from tfapp.shipped import app_packages_dir
loaded = load_package(app_packages_dir() / "tensorflow")
assert loaded.package is not None, loaded.problems
import jsonschema
from tfapp.skein_library import skein
assert not [m for m in (jsonschema, skein) if m.__file__.startswith(sys.argv[1])]
assert sys.path[0] == sys.argv[1]
assert isinstance(sys.meta_path[0], Finder)
"""


def test_old_packages_that_a_program_puts_first_are_not_taken(tmp_path):
    for name in OLD:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise TypeError('an old version')\n")
    done = programs.python("-c", PROGRAM, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
