"""Documents that fit are checked once; all else is checked again."""

import jsonschema
import pytest

from tests import programs
from tfapp.documents import Document
from tfapp.launch import submission
from tfapp.launch.submission import remembering
from tfapp.schema import check_document, check_extension
from tfapp.shipped import app_packages_dir

VALIDATOR = jsonschema.Draft202012Validator
GOOD = {"global": {"site.global.run.mode": "local"}}
BAD = {"global": {"site.global.run.mode": "lokal"}}
EXTENSION = {"properties": {"site.global.batch": {"type": "integer", "default": 32}}}


@pytest.fixture
def checks(monkeypatch):
    """The data that jsonschema checks."""
    asked = []

    class Counted:
        META_SCHEMA = jsonschema.Draft202012Validator.META_SCHEMA

        def __init__(self, schema):
            self._validator = VALIDATOR(schema)

        def iter_errors(self, data):
            asked.append(data)
            return self._validator.iter_errors(data)

    monkeypatch.setattr(jsonschema, "Draft202012Validator", Counted)
    return asked


def problems(value, extra=None):
    return check_document(Document.from_value(value, "f"), "appConfig", extra)[1]


def test_what_fits_is_checked_once(tmp_path, checks):
    for _ in range(2):
        with remembering(tmp_path / "cache" / "known", keep=True):
            assert problems(GOOD) == ()
            assert check_extension(Document.from_value(EXTENSION, "s"))[1] == ()
    first = len(checks)
    with remembering(tmp_path / "cache" / "known", keep=True):
        assert problems(GOOD) == ()
    assert len(checks) == first == 3  # the document, the extension, its defaults


def test_what_does_not_fit_is_found_again(tmp_path):
    for _ in range(2):
        with remembering(tmp_path / "known", keep=True):
            (problem,) = problems(BAD)
            assert problem.code == "wrong-value"


def test_a_changed_schema_is_another(tmp_path):
    document = {"global": {"site.global.batch": "32"}}
    extra = check_extension(Document.from_value(EXTENSION, "s"))[0]
    with remembering(tmp_path / "known", keep=True):
        assert problems(document, extra) == ()
        assert problems(document) != ()


@pytest.mark.parametrize("text", [None, b"", b"\xff\x00", b"not a digest"])
def test_a_file_that_is_not_there_or_damaged_knows_nothing(tmp_path, text, checks):
    path = tmp_path / "known"
    if text is not None:
        path.write_bytes(text)
    with remembering(path, keep=True):
        assert problems(GOOD) == ()
    assert len(checks) == 1


def test_nothing_is_written_unless_wanted_and_a_full_disk_does_not_matter(tmp_path):
    with remembering(tmp_path / "known", keep=False):
        assert problems(GOOD) == ()
    assert not (tmp_path / "known").exists()
    (tmp_path / "file").write_text("")
    with remembering(tmp_path / "file" / "known", keep=True):
        assert problems(GOOD) == ()


def test_the_file_does_not_grow_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(submission, "MOST_KNOWN", 2)
    path = tmp_path / "known"
    path.write_text("a\nb")
    with remembering(path, keep=True):
        assert problems(GOOD) == ()
    (kept,) = path.read_text().split()
    assert kept not in ("a", "b")


def test_a_second_command_does_without_jsonschema(tmp_path):
    words = ["compile", str(app_packages_dir() / "tensorflow")]
    code = f"import sys; from tfapp.cli.main import main; assert main({words}) == 0; " + (
        "print('jsonschema' in sys.modules, file=sys.stderr)"
    )
    environ = {"TFAPP_HOME": str(tmp_path)}
    said = [programs.python("-c", code, environ=environ).stderr for _ in range(2)]
    assert [text.splitlines()[-1] for text in said] == ["True", "False"]
