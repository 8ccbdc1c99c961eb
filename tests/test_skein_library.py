"""Skein as it is imported: in fresh interpreters, since an import happens once."""

import pytest

from tests import programs
from tfapp.skein_library import LooseVersion

IMPORTED = """
import sys
from tfapp.skein_library import skein
loaded = [name for name in ("distutils", "setuptools", "pkg_resources") if name in sys.modules]
print(loaded, skein.ApplicationClient.__name__, skein.kv.__name__, skein.proto.__name__)
with skein.utils.grpc_fork_support_disabled():
    print(skein.exceptions.TimeoutError.__name__)
"""
OTHERS = """
import sys
import distutils.version
from tfapp.skein_library import skein
print(skein.utils.LooseVersion is distutils.version.LooseVersion)
"""
AFTERWARDS = """
from tfapp.skein_library import skein
from distutils.version import LooseVersion
print(LooseVersion("1.10") > LooseVersion("1.9"), LooseVersion is skein.utils.LooseVersion)
"""


def run(code: str) -> list[str]:
    return programs.printed("-W", "ignore", "-c", code).splitlines()


def test_it_comes_without_setuptools():
    assert run(IMPORTED) == ["[] ApplicationClient skein.kv skein.proto", "TimeoutError"]


@pytest.mark.parametrize(("code", "said"), [(OTHERS, "True"), (AFTERWARDS, "True False")])
def test_the_real_distutils_stays_whole_for_others(code, said):
    assert run(code) == [said]


@pytest.mark.parametrize(
    ("one", "other", "less"),
    [("1.9.1", "1.18.0", True), ("1.18.0", "1.18.0", False), ("1.60.0rc1", "1.18.0", False)],
)
def test_versions_are_compared_by_their_numbers(one, other, less):
    assert (LooseVersion(one) < other) is less
