import pytest

from tfapp.master.service import MasterPages, Page
from tfapp.master.store import RequestError

BOARD = Page("board", "http://127.0.0.1:6006/x", "Board")


def test_added_and_removed():
    pages = MasterPages()
    pages.add(BOARD)
    pages.add(Page("plain", "https://host"))
    pages.add(Page("plain2", "https://host"))
    assert [page.route for page in pages.all()] == ["board", "plain", "plain2"]
    pages.remove("board")
    pages.add(BOARD)
    assert pages.all()[-1] == BOARD


@pytest.mark.parametrize(
    ("page", "code", "message"),
    [
        (Page("a/b", "http://x"), "INVALID_ARGUMENT", "routes must not contain '/'"),
        (Page("a", "nonsense"), "INVALID_ARGUMENT", "'nonsense' is an invalid URL"),
        (Page("a", "http://[x"), "INVALID_ARGUMENT", "is an invalid URL"),
        (Page("board", "http://x"), "ALREADY_EXISTS", "route 'board' already exists"),
        (Page("a", "http://x", "Board"), "ALREADY_EXISTS", "link name 'Board' already exists"),
    ],
)
def test_refused(page, code, message):
    pages = MasterPages()
    pages.add(BOARD)
    with pytest.raises(RequestError, match=message) as refused:
        pages.add(page)
    assert refused.value.code == code
    assert pages.all() == (BOARD,)


def test_removing_what_is_not_there():
    with pytest.raises(RequestError, match="doesn't exist") as refused:
        MasterPages().remove("a")
    assert refused.value.code == "FAILED_PRECONDITION"
