"""Classes of `@frozen` behave as the library's frozen dataclasses do."""

from __future__ import annotations

import copy
import dataclasses
import functools
import pickle

import pytest

from tfapp.frozen import frozen, replace


@frozen
class Place:
    """A place."""

    file: str
    line: int = 0
    tags: tuple[str, ...] = ()
    notes: dict[str, str] = dataclasses.field(default_factory=dict, compare=False)
    key: bytes = dataclasses.field(default=b"", repr=False)


@dataclasses.dataclass(frozen=True)
class Same:
    """A place, by the library."""

    file: str
    line: int = 0
    tags: tuple[str, ...] = ()
    notes: dict[str, str] = dataclasses.field(default_factory=dict, compare=False)
    key: bytes = dataclasses.field(default=b"", repr=False)


@frozen
class Inner(Place):
    """With one field more."""

    column: int = 1


@frozen
class Nothing:
    pass


ARGUMENTS = [
    (("a",), {}),
    (("a", 3, ("x",), {"n": "1"}, b"k"), {}),
    (("a",), {"tags": ("x",), "key": b"k"}),
    ((), {"line": 2, "file": "b"}),
]
WRONG = [
    ((), {}),
    ((), {"line": 1}),
    (("a",), {"file": "b"}),
    (("a",), {"size": 1}),
    (("a", 1, (), {}, b"", "one more"), {}),
]


@pytest.mark.parametrize(("args", "given"), ARGUMENTS)
def test_values_are_the_librarys(args, given):
    ours, theirs = Place(*args, **given), Same(*args, **given)
    assert vars(ours) == vars(theirs) and list(vars(ours)) == list(vars(theirs))
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert repr(ours) == repr(theirs).replace("Same", "Place")
    assert hash(ours) == hash(theirs)
    assert ours == Place(*args, **given) and ours != theirs and ours != "a"
    assert ours != dataclasses.replace(ours, file="other")


@pytest.mark.parametrize(("args", "given"), WRONG)
def test_what_the_library_refuses_is_refused(args, given):
    for made in (Same, Place):
        with pytest.raises(TypeError):
            made(*args, **given)


def test_what_is_not_compared_makes_no_difference():
    assert Place("a", notes={"n": "1"}) == Place("a")
    assert Place("a").notes is not Place("a").notes


def test_nothing_changes():
    place = Place("a")
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'line'"):
        place.line = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'line'"):
        del place.line
    assert place == Place("a")


def test_it_is_inherited_from():
    made = Inner("a", column=4)
    assert dataclasses.asdict(made)["column"] == 4
    assert made != Inner("a") and made == dataclasses.replace(Inner("a"), column=4)
    assert made != Place("a")


@pytest.mark.parametrize("place", [Place("a", notes={"n": "1"}), Inner("a"), Nothing()])
def test_it_can_be_copied_and_sent(place):
    for other in (copy.copy(place), copy.deepcopy(place), pickle.loads(pickle.dumps(place))):
        assert other == place and vars(other) == vars(place)
    assert hash(place) == hash(copy.copy(place))


def test_a_changed_copy_is_the_librarys():
    for place in (Place("a", 3, ("x",), {"n": "1"}, b"k"), Inner("a")):
        for changes in ({}, {"line": 4}, {"file": "b", "notes": {"n": "2"}}):
            ours, theirs = replace(place, **changes), dataclasses.replace(place, **changes)
            assert type(ours) is type(place) and vars(ours) == vars(theirs)
    with pytest.raises(TypeError, match=r"Place has no fields for \['size'\]"):
        replace(Place("a"), size=1)


def test_a_changed_copy_computes_anew():
    @frozen
    class Sized:
        """A size."""

        side: int

        @functools.cached_property
        def area(self) -> int:
            return self.side**2

    small = Sized(2)
    assert (small.area, replace(small, side=3).area) == (4, 9)


def test_a_class_keeps_its_own_methods():
    @frozen
    class Text:
        """A text."""

        text: str

        def __str__(self) -> str:
            return self.text

        def __repr__(self) -> str:
            return "a text"

    assert (str(Text("x")), repr(Text("x"))) == ("x", "a text")
