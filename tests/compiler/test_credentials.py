"""Values of credentials, from the places where users keep them."""

import os

import pytest

from tests.compiler.packages import compile_with, component, package, values
from tfapp.compiler.credentials import MAX_CREDENTIAL, build_private, read_credentials
from tfapp.contract.job import Private
from tfapp.errors import InvalidPackageError, UsageError


def read(source, environ, folder):
    found, problems = read_credentials(values(80, {"KEY": source}), environ, folder)
    return found, [str(problem) for problem in problems]


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"hunter2", "hunter2"),
        (b"hunter2\n", "hunter2"),
        (b"hunter2\r\n", "hunter2"),
        (b" two\nlines \n\n", " two\nlines \n"),
        (b"", ""),
    ],
)
def test_a_file(tmp_path, content, value):
    (tmp_path / "key").write_bytes(content)
    expected = ({"KEY": value}, [])
    assert read("file:key", {}, tmp_path) == expected
    assert read(f"file:{tmp_path}/key", {}, tmp_path / "elsewhere") == expected
    assert read("file:~/key", {"HOME": str(tmp_path)}, tmp_path / "elsewhere") == expected


def test_a_variable(tmp_path):
    assert read("env:P", {"P": "hunter2\n"}, tmp_path) == ({"KEY": "hunter2\n"}, [])


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("env:GONE", "the environment variable GONE is not set"),
        ("file:gone", "{}/gone cannot be read: No such file or directory"),
        ("file:folder", "{}/folder cannot be read: Is a directory"),
        ("file:large", f"{{}}/large is longer than {MAX_CREDENTIAL} bytes"),
        ("file:latin", "its value is not UTF-8 text"),
        ("env:LATIN", "its value is not UTF-8 text"),
        ("file:nul", "its value holds a NUL, which no environment variable can"),
        ("hunter2", "expected file:PATH or env:NAME, found 'hunter2'"),
    ],
)
def test_what_cannot_be_had(tmp_path, source, why):
    (tmp_path / "folder").mkdir()
    (tmp_path / "large").write_bytes(b"x" * (MAX_CREDENTIAL + 1))
    (tmp_path / "latin").write_bytes(b"caf\xe9")
    (tmp_path / "nul").write_bytes(b"a\0b")
    environ = {"LATIN": os.fsdecode(b"caf\xe9")}
    found, problems = read(source, environ, tmp_path)
    assert (found, problems) == (
        {},
        [f"app/appConfig.yaml:80:20: error: credential 'KEY': {why.format(tmp_path)} [credential]"],
    )


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
    ("variables", "told"),
    [
        ({"A": "x" * 131069}, ""),
        ({"A": "x" * 131070}, "variable A of worker has 131073 bytes"),
        ({"A": "é" * 65535}, "variable A of worker has 131073 bytes"),
        ({f"V{n:03}": "x" * 130_000 for n in range(16)}, ""),
        ({f"V{n:03}": "x" * 130_000 for n in range(17)}, "variables of worker have 2210102 bytes"),
    ],
)
def test_more_than_a_process_can_be_given_is_refused(variables, told):
    """One that is secret as well. No value is in the message."""
    for words in (({"worker": variables}, {}, {}), ({"worker": {}}, {}, variables)):
        if not told:
            assert build_private(*words).env["worker"] == variables
            continue
        with pytest.raises(UsageError) as error:
            build_private(*words)
        assert told in str(error.value)
        assert "xxx" not in str(error.value)


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


def test_the_receiver_of_the_end_may_be_a_secret_of_either_kind():
    told = package(settings={"site.global.on.end": "slack credential:HOOK"})
    for kind in ("secrets", "secret_environment"):
        compiled = compile_with(told, **{kind: {"HOOK": "https://x/secret"}})
        assert "x/secret" not in str(compiled.spec.to_dict()) + str(compiled.job)
    with pytest.raises(InvalidPackageError) as error:
        compile_with(told, environment={"HOOK": "https://x/secret"})
    (problem,) = [p for p in error.value.problems if p.code == "credential"]
    assert "there is no credential 'HOOK'" in problem.message
