"""The source of a program, read in any thread."""

import ast

import pytest

from tfapp.sources import parsed


def test_an_error_of_python_that_comes_and_goes_is_not_one_of_the_program(monkeypatch):
    errors = [SystemError("AST constructor recursion depth mismatch (before=156, after=64)")] * 3
    sound = ast.parse

    def parse(source):
        if errors:
            raise errors.pop()
        return sound(source)

    monkeypatch.setattr(ast, "parse", parse)
    assert ast.dump(parsed(b"a = 1")) == ast.dump(sound("a = 1"))


def test_one_that_stays_is_raised(monkeypatch):
    def parse(source):
        raise SystemError("it stays")

    monkeypatch.setattr(ast, "parse", parse)
    with pytest.raises(SystemError, match="it stays"):
        parsed("a = 1")


def test_a_program_that_is_none_is_told():
    with pytest.raises(SyntaxError):
        parsed("a =")
