"""Tags that a user cannot give."""

import pytest

from tfapp.engines.definition import check_tags
from tfapp.errors import UsageError


@pytest.mark.parametrize("tag", ["", "x" * 101, "caf\u00e9", "a\n"])
def test_tags(tag):
    with pytest.raises(UsageError, match="is not a tag"):
        check_tags((tag,))


def test_too_many_tags():
    check_tags(tuple("abcdefgh"))
    with pytest.raises(UsageError, match="9 tags, YARN leaves room for 8"):
        check_tags(tuple("abcdefghi"))


def test_a_tag_of_our_own():
    with pytest.raises(UsageError, match="is a tag of tfapp's own"):
        check_tags(("tfapp-definition-1",))
