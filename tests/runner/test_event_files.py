"""Reading of TensorBoard's event files."""

import math
import os
import struct

import pytest

from tests import programs
from tests.runner.event_writer import (
    crc32c,
    event,
    field,
    float_field,
    record,
    simple,
    tensor,
    varint,
)
from tfapp.runner import event_files
from tfapp.runner.event_files import NoEventFileError, Scalar, read_new

FLOAT, DOUBLE, INT32, STRING, INT64 = 1, 2, 3, 7, 9


@pytest.fixture
def file(tmp_path):
    """A file to write to, as `write(bytes)`, and to read, as `descriptor`."""
    path = tmp_path / "events.out.tfevents.1"
    path.touch()

    class File:
        descriptor = os.open(path, os.O_RDONLY)

        def write(self, data: bytes) -> None:
            with open(path, "ab") as opened:
                opened.write(data)

        def read(self, offset: int = 0) -> tuple[int, list[Scalar]]:
            return read_new(self.descriptor, offset)

    yield File()
    os.close(File.descriptor)


def test_the_checksum_is_the_standard_one():
    assert crc32c(b"123456789") == 0xE3069283  # RFC 3720 names the polynomial


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (simple("t", 0.1), 0.1),
        (simple("t", -2.5), -2.5),
        (tensor("t", field(1, FLOAT) + field(5, struct.pack("<f", 0.31))), 0.31),
        (tensor("t", field(1, FLOAT) + field(2, b"") + float_field(5, 0.31)), 0.31),
        (tensor("t", field(1, FLOAT) + field(4, struct.pack("<f", 0.31))), 0.31),
        (tensor("t", field(1, FLOAT) + field(2, b"")), 0.0),  # protobuf leaves out zeros
        (tensor("t", field(1, DOUBLE) + field(6, struct.pack("<d", 1 / 3))), 1 / 3),
        (tensor("t", field(1, INT32) + field(7, varint(-7))), -7.0),
        (tensor("t", field(1, INT64) + field(10, varint(1 << 40))), float(1 << 40)),
        (tensor("t", field(1, INT64) + field(4, struct.pack("<q", -9))), -9.0),
        (field(1, "t") + float_field(2, 3.0), 3.0),
    ],
    ids=range(11),
)
def test_scalars_of_all_kinds_are_read(file, value, number):
    file.write(record(event(12, 1.5e9, value)))
    offset, scalars = file.read()
    assert scalars == [Scalar("t", number, 12, 1.5e9)]
    assert file.read(offset) == (offset, [])


@pytest.mark.parametrize(
    "value",
    [
        tensor("t", field(1, FLOAT) + field(2, field(2, field(1, 2))) + field(5, bytes(8))),
        tensor("t", field(1, STRING) + field(8, "text"), "text"),
        tensor("t", field(1, FLOAT) + float_field(5, 1.0), "hparams"),
        field(1, "t") + field(5, b"a histogram"),
        float_field(2, 1.0),  # without a tag
        b"\xff\xff\xff",
    ],
    ids=["vector", "text", "another plugin", "histogram", "no tag", "no message"],
)
def test_what_is_no_scalar_is_passed_over(file, value):
    file.write(record(event(1, 1.0, value)) + record(event(2, 2.0, simple("next", 4.0))))
    assert file.read()[1] == [Scalar("next", 4.0, 2, 2.0)]


def test_nan_and_infinity_are_values(file):
    file.write(record(event(1, 1.0, simple("a", math.nan), simple("b", -math.inf))))
    nan, infinity = file.read()[1]
    assert math.isnan(nan.value)
    assert infinity == Scalar("b", -math.inf, 1, 1.0)


def test_a_file_is_read_as_it_grows_and_a_record_when_it_is_whole(file):
    first = record(field(1, 1.0) + field(3, "brain.Event:2"))
    second = record(event(1, 1.0, simple("a", 1.0)))
    file.write(first + second[:-3])
    assert file.read() == (len(first), [])
    file.write(second[-3:])
    assert file.read(len(first)) == (len(first + second), [Scalar("a", 1.0, 1, 1.0)])
    file.write(second[:5])
    assert file.read(len(first + second)) == (len(first + second), [])


def test_a_graph_is_passed_over_unread(file):
    graph = bytes(3 * event_files.MOST_READ)
    file.write(record(field(4, graph), checked=False))
    file.write(record(event(1, 1.0, simple("a", 1.0))))
    assert file.read()[1] == [Scalar("a", 1.0, 1, 1.0)]


def test_a_look_parses_the_newest_of_very_many(file, monkeypatch):
    many = b"".join(record(event(n, 1.0, simple("a", float(n)))) for n in range(3000))
    file.write(many)
    offset, scalars = file.read()
    assert offset == len(many)
    assert [scalar.step for scalar in scalars] == list(range(2000, 3000))
    monkeypatch.setattr(event_files, "MOST_READ", len(many) // 3)
    offsets, steps, offset = [], [], 0
    while (now := file.read(offset))[0] != offset:
        offset = now[0]
        offsets.append(offset)
        steps += [scalar.step for scalar in now[1]]
    assert len(offsets) > 1
    assert (offset, steps[-1]) == (len(many), 2999)


@pytest.mark.parametrize("data", [b"a text of more than twelve bytes", bytes(64)], ids=repr)
def test_another_file_is_refused(file, data):
    file.write(data)
    with pytest.raises(NoEventFileError):
        file.read()


def test_a_file_that_was_written_anew_is_read_from_its_beginning(file):
    file.write(record(event(1, 1.0, simple("a", 1.0))))
    assert file.read(10_000)[1] == [Scalar("a", 1.0, 1, 1.0)]


WRITES = """
import math, os, sys
os.environ["CUDA_VISIBLE_DEVICES"] = ""
sys.modules["sklearn"] = None  # Keras would load it, which takes long
import tensorflow as tf
writer = tf.summary.create_file_writer(sys.argv[1])
with writer.as_default():
    tf.summary.scalar("double", tf.constant(0.1, tf.float64), step=7)
    tf.summary.scalar("whole", 3, step=8)
    tf.summary.scalar("zero", 0.0, step=8)
    tf.summary.histogram("histogram", [1.0, 2.0], step=8)
    tf.summary.text("text", "words", step=8)
    tf.summary.image("image", tf.zeros((1, 4, 4, 3)), step=8)
    tf.summary.scalar("nan", math.nan, step=1 << 40)
writer.close()
with tf.compat.v1.Graph().as_default():
    old = tf.compat.v1.summary.FileWriter(sys.argv[1])
    summary = tf.compat.v1.Summary()
    summary.value.add(tag="simple", simple_value=0.25)
    old.add_summary(summary, 5)
    old.close()
"""


@pytest.mark.trains
def test_what_tensorflow_writes_is_read(tmp_path):
    """Its own writers, with all kinds of summaries."""
    programs.printed("-c", WRITES, tmp_path)
    found = {}
    for path in sorted(tmp_path.iterdir()):
        descriptor = os.open(path, os.O_RDONLY)
        for scalar in read_new(descriptor, 0)[1]:
            found[scalar.tag] = (scalar.value, scalar.step)
        os.close(descriptor)
    assert math.isnan(found.pop("nan")[0])
    assert found == {"double": (0.1, 7), "whole": (3.0, 8), "zero": (0.0, 8), "simple": (0.25, 5)}
