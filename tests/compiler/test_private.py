"""Environment of the user's programs, credentials, and what is struck out of reports."""

from __future__ import annotations

import pytest

from tests.compiler.packages import compile_with, component, package
from tfapp.compiler.private import build_private
from tfapp.contract.job import Private
from tfapp.errors import InvalidPackageError


def test_what_wins_over_what():
    configured = {"ps": {"A": "config", "B": "config"}, "worker": {}}
    private = build_private(configured, {"B": "file", "C": "12"}, {"KEY": "hunter22"})
    assert private == Private(
        env={
            "ps": {"A": "config", "B": "file", "C": "12", "KEY": "hunter22"},
            "worker": {"B": "file", "C": "12", "KEY": "hunter22"},
        },
        redact=("hunter22",),
    )


def test_plain_variables_are_not_secret():
    assert build_private({"worker": {"MODE": "train"}}, {"EXPERIMENT": "keras"}, {}).redact == ()


def test_only_files_that_are_declared_secret_are_struck_out():
    options = {"environment": {"A": "keras", "B": "plain"}, "secret_environment": {"B": "hunter22"}}
    private = compile_with(package(), **options).private
    assert private.redact == ("hunter22",)
    assert {"A": "keras", "B": "hunter22"}.items() <= private.env["worker"].items()


@pytest.mark.parametrize(
    ("secret", "redacted"),
    [
        ("abc", ()),
        ("abcd", ("abcd",)),
        (
            "-----BEGIN-----\nMIIEvQIBADAN\nab\n",
            ("-----BEGIN-----\nMIIEvQIBADAN\nab\n", "-----BEGIN-----", "MIIEvQIBADAN"),
        ),
    ],
)
def test_redacted(secret, redacted):
    assert build_private({}, {}, {"KEY": secret}).redact == redacted


def test_a_longer_secret_goes_before_one_inside_it():
    assert build_private({}, {}, {"A": "pass", "B": "password"}).redact == ("password", "pass")


@pytest.mark.parametrize(
    ("built", "secrets", "expected"),
    [
        (
            package(credentials={"db.password": "env:P"}),
            {"db.password": "x"},
            "app/appConfig.yaml:80:3: error: credential 'db.password' cannot be an "
            "environment variable of that name [credential]",
        ),
        (
            package(credentials={"KEY": "env:P"}),
            {},
            "app/appConfig.yaml:80:20: error: the value of credential 'KEY' was not given "
            "[credential]",
        ),
        (
            package(credentials={"TF_CONFIG": "env:P"}),
            {"TF_CONFIG": "x"},
            "app/appConfig.yaml:80:3: error: credential 'TF_CONFIG' cannot be an environment "
            "variable of that name [credential]",
        ),
        (
            package(
                component("ps"),
                component("worker"),
                settings={"env.KEY": "1"},
                credentials={"KEY": "env:P"},
            ),
            {"KEY": "hunter22"},
            "app/appConfig.yaml:12:3: error: env.KEY is also a credential (at "
            "app/appConfig.yaml:80:3) [credential]",
        ),
    ],
)
def test_credentials_that_cannot_be(built, secrets, expected):
    with pytest.raises(InvalidPackageError) as caught:
        compile_with(built, secrets=secrets)
    assert [str(problem) for problem in caught.value.problems] == [expected]
