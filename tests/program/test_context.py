"""Which functions get the context, and what it says where there is no application."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import tfapp.program.context
from tfapp.errors import ProgramError
from tfapp.program.context import Context, accepts_context


class Callable:
    def __call__(self, where: Any) -> None:
        pass


def two(first, second):
    pass


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda: 0, False),
        (lambda anything: 0, True),
        (lambda rate=0.1: 0, False),
        (lambda context=None: 0, True),
        (lambda context, rate=0.1: 0, True),
        (lambda *args, **kwargs: 0, False),
        (functools.partial(two, 1), True),
        (functools.partial(two, 1, 2), False),
        (functools.partial(two, second=2), True),
        (Callable(), True),
        (dict, False),
    ],
)
def test_a_function_with_one_parameter_gets_the_context(function, wanted):
    assert accepts_context(function) is wanted


def test_an_annotation_says_it_too():
    def by_class(where: tfapp.program.context.Context = None):  # type: ignore[assignment]
        pass

    def other(where: int = 0):
        pass

    by_class.__annotations__["where"] = Context
    assert accepts_context(by_class)
    assert not accepts_context(other)


@pytest.mark.parametrize("function", [two, lambda *, context: 0, lambda first, *, second: 0])
def test_a_function_that_needs_more_is_refused(function):
    with pytest.raises(ProgramError, match="has the parameters .*, and is called with nothing"):
        accepts_context(function)


def test_without_an_application_there_are_defaults():
    assert Context.from_environ({}) == Context()
    assert Context().instance == "worker/0"
    assert Context().exports == {}
