"""Options of a submission that cannot be used."""

from pathlib import Path

import pytest

from tests.compiler.packages import compile_with, options, package
from tfapp.compiler.options import check_options
from tfapp.errors import UnavailableError, UsageError


@pytest.mark.parametrize("name", ["", "Digits", "1st", "a b", "a/b", "-a", "a\n"])
def test_names(name):
    with pytest.raises(UsageError, match="cannot be the name of an application"):
        check_options(options(name=name))


def test_a_value_that_no_variable_can_hold():
    with pytest.raises(UsageError, match="cannot be set"):
        check_options(options(environment={"A": "a\0b"}))


@pytest.mark.parametrize("variable", ["", "1A", "A-B", "A=B", "TF_CONFIG", "SKEIN_X"])
def test_variables(variable):
    with pytest.raises(UsageError, match="cannot be set"):
        check_options(options(environment={variable: "x"}))


@pytest.mark.parametrize(
    ("cache", "why"),
    [
        ("~/.tfapp/cache", "starts with '~'"),
        ("tfapp/cache", "is relative"),
        ("/home/a#b/cache", "holds '#'"),
        ("/home/a?b/cache", r"holds '\?'"),
        ("/home/a,b/cache", "holds ','"),
        ("/home/a\nb/cache", r"holds '\\n'"),
        ("/home/\udcff/cache", "is not UTF-8"),
    ],
)
def test_cache_paths_that_skein_would_misread(cache, why):
    with pytest.raises(UnavailableError, match=why) as caught:
        check_options(options(cache=Path(cache)))
    assert caught.value.hint == "Set TFAPP_HOME to another folder."


def test_secrets_need_a_key():
    with pytest.raises(ValueError, match="private_key"):
        check_options(options(environment={"A": "secret"}, private_key=b""))
    compile_with(package(settings={"env.A": "1"}), private_key=b"")


def test_the_key_names_the_private_file():
    built = package(settings={"env.A": "1"})
    one = compile_with(built, private_key=b"one").files[-1]
    two = compile_with(built, private_key=b"two").files[-1]
    assert one.data == two.data
    assert one.path != two.path
