"""Values of credentials, from the places where users keep them."""

from __future__ import annotations

import os

import pytest

from tests.compiler.packages import values
from tfapp.compiler.credentials import MAX_CREDENTIAL, read_credentials


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
