import os

import pytest

from tfapp.contract.log_times import Log, Times, TimesWriter, times_path


def opened(path):
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def test_a_log_that_is_a_file_keeps_its_times(tmp_path):
    path, moments = tmp_path / "log", iter([1000.0, 1000.05, 1001.0])
    descriptor = opened(path)
    log = Log(descriptor, lambda: next(moments))
    for text in (b"one\n", b"two\n", b"three\n"):
        log.write(text)
    os.close(descriptor)
    assert path.read_bytes() == b"one\ntwo\nthree\n"
    times = Times(path)
    assert times.at(0) is None
    assert times.update()
    # The second is within the resolution of the first.
    assert [times.at(place) for place in (0, 4, 8, 100)] == [1000.0, 1000.0, 1001.0, 1001.0]
    assert [times.since(at) for at in (0, 1000, 1000.5, 1001, 1002)] == [0, 0, 8, 8, None]


def test_what_others_have_written_into_a_log_counts(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"a shell's\n")
    descriptor = opened(path)
    Log(descriptor, lambda: 1000.0).write(b"a program's\n")
    os.close(descriptor)
    assert times_path(path).read_bytes() == b"10 1000.00\n"
    times = Times(path)
    times.update()
    assert times.at(0) == 1000.0  # not after it


def test_a_pipe_and_a_deleted_file_have_none(tmp_path):
    source, sink = os.pipe()
    Log(sink).write(b"text")
    os.close(sink)
    assert os.read(source, 10) == b"text"
    os.close(source)
    path = tmp_path / "log"
    descriptor = opened(path)
    path.unlink()
    Log(descriptor).write(b"text")
    assert os.fstat(descriptor).st_size == 4
    os.close(descriptor)
    assert list(tmp_path.iterdir()) == []


def test_where_its_times_cannot_be_written_a_log_goes_on(tmp_path):
    path = tmp_path / "log"
    times_path(path).mkdir()
    descriptor = opened(path)
    Log(descriptor).write(b"text\n")
    os.close(descriptor)
    assert path.read_bytes() == b"text\n"
    assert not Times(path).update()


def test_times_grow_and_a_copy_that_begins_anew_counts(tmp_path):
    path = tmp_path / "log"
    writer, times = TimesWriter(path), Times(path)
    assert not times.update()
    writer.note(0, 1000.0)
    writer.note(50, 1010.0)
    with times_path(path).open("ab") as file:
        file.write(b"70 10")  # unfinished
    assert times.update()
    assert (times.at(60), times.at(80)) == (1010.0, 1010.0)
    with times_path(path).open("ab") as file:
        file.write(b"15.00\n20 1020.00\n")
    times.update()
    assert [times.at(place) for place in (10, 30, 90)] == [1000.0, 1020.0, 1020.0]


def test_a_clock_that_is_set_back(tmp_path):
    path = tmp_path / "log"
    writer = TimesWriter(path)
    for offset, moment in ((0, 1000.0), (10, 900.0), (20, 900.05)):
        writer.note(offset, moment)
    assert times_path(path).read_text() == "0 1000.00\n10 900.00\n"


@pytest.mark.parametrize(
    "half", [b"1", b"12 17", b"12 1000.", b"", b"\xff\0", b"-1 -2", b"nan nan"]
)
def test_half_an_entry_hides_no_other(tmp_path, half):
    """A disk that was full for a moment, or whatever else stands there."""
    log = tmp_path / "log"
    TimesWriter(log).note(0, 1000.0)
    with times_path(log).open("ab") as file:
        file.write(half)
    TimesWriter(log).note(12, 2000.0)
    TimesWriter(log).note(20, 3000.0)
    times = Times(log)
    assert times.update()
    assert [times.at(place) for place in (0, 11, 12, 20)] == [1000.0, 1000.0, 2000.0, 3000.0]
