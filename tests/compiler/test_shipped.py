"""The app packages that ship with tfapp compile, for engines that say what "max" is or not."""

import pytest
import skein

from tests.compiler.packages import options
from tests.package.packages import sound
from tfapp.compiler.compile import compile_application
from tfapp.compiler.render import render_spec
from tfapp.shipped import app_packages_dir

PACKAGES = sorted(path for path in app_packages_dir().iterdir() if path.is_dir())


@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: path.name)
def test_a_shipped_package_compiles(path):
    built = sound(path)
    compiled = compile_application(built, options(runtime=None))
    assert compiled.problems == ()
    assert compiled == compile_application(built, options(runtime=None))
    assert skein.ApplicationSpec.from_yaml(render_spec(compiled.spec)) == compiled.spec
