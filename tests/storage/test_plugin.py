"""TensorFlow on a real S3 server; and open files without TensorFlow."""

import ctypes

import pytest

from tests.lacking import needs_storage
from tests.storage import programs
from tfapp.storage.plugin import Files

pytestmark = needs_storage


@pytest.mark.trains
def test_tensorflow_uses_s3_as_its_own_file_system(s3):
    programs.check_operations("s3://bucket/operations", s3)


@pytest.mark.trains
@pytest.mark.parametrize(("how", "code"), [("exit", 3), ("raise", 1)])
def test_a_program_ends_in_the_middle_of_a_pipeline_with_its_own_code(s3, how, code):
    done = programs.run("leaving", "s3a://bucket/leaving", how, environ=s3)
    assert (done.returncode, done.stdout) == (code, "leaves\n"), done.stderr
    assert how != "raise" or "ValueError: as asked for" in done.stderr


@pytest.mark.weekly
@pytest.mark.trains
@pytest.mark.timeout(1800)
def test_of_three_hundred_ends_none_hangs_or_loses_its_code(s3):
    programs.check_ends("s3://bucket/leaving", s3, 43)


class OneFile:
    """A store with one writer, which it is itself."""

    def __init__(self, fails=()):
        self.fails, self.content, self.done = fails, b"", []

    def writer(self, path, append):
        return self

    def append(self, content):
        self.content += content
        self._do("append")

    def flush(self):
        self._do("flush")

    def close(self):
        self._do("close")

    def _do(self, what):
        self.done.append(what)
        if what in self.fails:
            raise ConnectionError(what)


def opened(store):
    """The functions of an open file, and its number."""
    files, number = Files(), [0]
    files.open_writer(store, "s3://bucket/file", number, append=False)
    assert files.paths == {number[0]: "s3://bucket/file"}
    return files, number[0]


@pytest.mark.parametrize("closes", [True, False])
def test_a_file_is_closed_once_also_by_its_end(closes):
    store = OneFile()
    files, number = opened(store)
    content = ctypes.create_string_buffer(b"abc")
    files.functions["append"](number, ctypes.addressof(content), 3)
    if closes:
        files.functions["close"](number)
    files.functions["writer_end"](number)
    assert (store.content, store.done, files.paths) == (b"abc", ["append", "close"], {})


@pytest.mark.parametrize("what", ["append", "flush"])
def test_a_file_that_could_not_be_written_is_never_closed(what):
    store = OneFile(fails=(what,))
    files, number = opened(store)
    content = ctypes.create_string_buffer(b"abc")
    with pytest.raises(ConnectionError):
        files.functions["append"](number, ctypes.addressof(content), 3)
        files.functions["flush"](number)
    with pytest.raises(ConnectionError, match=what):  # the reason, again
        files.functions["close"](number)
    files.functions["writer_end"](number)
    assert store.done[-1] == what
