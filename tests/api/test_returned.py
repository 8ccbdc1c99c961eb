"""What programs returned is what the caller gets, or a ReturnedError."""

import base64
import collections
import enum
import io
import json
import math
import pickle
from pathlib import Path
from types import SimpleNamespace

import pytest

from tfapp.api.returned import Lazy, decode, fetch_returned
from tfapp.engines.base import LogFile
from tfapp.errors import ReturnedError
from tfapp.program import returned


@pytest.fixture
def write(tmp_path):
    """The bytes of the record of a value."""
    environ = {
        "TFAPP_COMPONENT": "worker",
        "TFAPP_LOG_DIR": str(tmp_path),
        "TFAPP_WORK_DIR": str(tmp_path / "container" / "work"),
        "TFAPP_CHECKPOINT_DIR": str(tmp_path / "checkpoints"),
    }

    def write(value, pickles=False):
        returned.write(value, pickles, environ)
        return (tmp_path / "tfapp-returned.json").read_bytes()

    return write


class Color(enum.IntEnum):
    RED = 3


class Text(str):
    pass


Pair = collections.namedtuple("Pair", "x y")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *(
            (same, same)
            for same in (
                None,
                True,
                0,
                -(1 << 63),
                1 << 70,
                0.1,
                math.inf,
                "é\n\ud800",
                b"\x00\xff",
                (),
                [(1, [2]), {"a": ({},)}],
                {"$": "pickle", "base64": ""},
                {1: "a", False: 0, None: "b", (2, b"c"): 1.5},
            )
        ),
        (bytearray(b"b"), b"b"),
        ([Color.RED], [3]),
        ({Text("k"): Text("v")}, {"k": "v"}),
        (Pair(1, 2), (1, 2)),
        (collections.OrderedDict(a=1), {"a": 1}),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_data_comes_back_as_it_was(write, value, expected):
    found = decode(write(value))
    assert found == expected
    assert repr(found) == repr(expected)  # of these very types, in this order


def test_an_integer_of_any_length_comes_back(write):
    assert decode(write(-(10**5000))) == -(10**5000)


def test_nan_comes_back(write):
    (found,) = decode(write([math.nan]))
    assert math.isnan(found)


def test_arrays_come_back(write):
    numpy = pytest.importorskip("numpy")
    table = numpy.array([(1, 2.5)], dtype=[("a", "<i4"), ("b", "<f8")])
    arrays = [
        numpy.arange(6, dtype="int16").reshape(2, 3).T,
        numpy.array(["2026-01-01"], dtype="datetime64[D]"),
        numpy.array(["a", "bc"]),
        numpy.array(3.5),
        numpy.zeros((0, 2), dtype="complex64"),
        table,
    ]
    scalars = [numpy.float32(0.25), numpy.float64(1), numpy.bool_(True), numpy.str_("x")]
    found = decode(write({"arrays": arrays, "scalars": scalars}))
    for array, other in zip(arrays, found["arrays"]):
        assert (array.dtype, array.shape) == (other.dtype, other.shape)
        assert (array == other).all()
    assert list(map(type, scalars)) == list(map(type, found["scalars"]))
    assert found["scalars"] == scalars
    assert decode(write({numpy.int64(3): 1})) == {3: 1}


class EagerTensor:
    __module__ = "tensorflow.python.framework.ops"

    def __init__(self, value):
        self.value = value

    def numpy(self):
        return self.value


def test_tensors_come_back_as_arrays(write):
    numpy = pytest.importorskip("numpy")
    assert decode(write(EagerTensor(numpy.float32(2)))) == numpy.float32(2)
    assert decode(write([EagerTensor(b"text")])) == [b"text"]
    assert decode(write(EagerTensor(numpy.array([b"a"], dtype=object)))) == [b"a"]


class Model:
    def __init__(self, weight):
        self.weight = weight


def test_a_pickle_is_loaded_for_who_asked_for_it(write):
    record = write({"model": Model(3), "loss": 0.5}, pickles=True)
    found = decode(record, pickles=True)
    assert (found["model"].weight, found["loss"]) == (3, 0.5)
    with pytest.raises(ReturnedError, match="has a pickle in it") as raised:
        decode(record)
    assert raised.value.hint == "With pickles=True it is loaded."


def test_a_pickle_that_cannot_be_read_here():
    broken = {"$": "pickle", "base64": "Y2Fic2VudC5tb2R1bGUKZgou"}
    with pytest.raises(ReturnedError, match="cannot be read here: ModuleNotFoundError"):
        decode(json.dumps({"value": broken}).encode(), pickles=True)


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b'{"value":{"$":"unheard"}}',
        b'{"value":{"$":["bytes"]}}',
        b'{"value":{"$":"bytes","base64":"*"}}',
        b'{"value":{"$":"int","hex":7}}',
        b'{"value":{"$":"tuple"}}',
        b'{"value":{"$":"dict","items":[[[],1]]}}',
        b'{"value":{"$":"array","npy":"k05VTVBZ"}}',
        b'{"file":{"path":"/tmp"}}',
        b'{"file":null}',
    ],
)
def test_damaged_records(record):
    with pytest.raises(ReturnedError, match="^what it returned is damaged"):
        decode(record)


def test_an_array_of_objects_is_never_loaded():
    numpy = pytest.importorskip("numpy")
    file = io.BytesIO()
    numpy.save(file, numpy.array([{}], dtype=object), allow_pickle=True)
    npy = base64.b64encode(file.getvalue()).decode()
    with pytest.raises(ReturnedError, match="damaged: Object arrays cannot be loaded"):
        decode(json.dumps({"value": {"$": "array", "npy": npy}}).encode(), pickles=True)


LARGE = ["x" * returned.LIMIT]


def test_a_large_value_is_read_from_its_file(write, tmp_path):
    record = write(LARGE)
    path = tmp_path / "checkpoints" / "returned" / "worker-0.json"
    assert decode(record) == LARGE
    with path.open("ab") as file:
        file.write(b" ")
    with pytest.raises(ReturnedError, match="is not what it wrote"):
        decode(record)
    path.unlink()
    with pytest.raises(ReturnedError, match="1 MiB, is in .*worker-0.json, which cannot be read"):
        decode(record)
    path.mkdir()
    with pytest.raises(ReturnedError):
        decode(record)


def test_what_programs_said_is_raised_with_their_name(write, tmp_path):
    def log(instance, content):
        path = tmp_path / f"{instance.replace('/', '-')}.json"
        path.write_bytes(content)
        return LogFile(instance, path)

    files = (
        log("chief/0", write([1])),
        log("worker/0", write({"h": {1}})),
        LogFile("worker/1", Path("/nonexistent/a")),
        LogFile("worker/2", Path("/nonexistent/b"), "its node h is lost"),
    )
    asked = []
    engine = SimpleNamespace(returned=lambda name, run: (asked.append((name, run)), files)[1])
    found = fetch_returned(engine, "app", 2)
    assert asked == []
    assert list(found) == ["chief/0", "worker/0", "worker/1", "worker/2"]
    assert found["chief/0"] is found["chief/0"]
    assert found.get("evaluator/0") is None
    files[0].path.unlink()  # an application that is destroyed
    assert found["chief/0"] == [1]
    for instance, said in [
        ("worker/0", "worker/0: returned['h'] is a set, which is no data; return a list, or "),
        ("worker/1", "worker/1: what it returned cannot be read: No such file or directory: "),
        ("worker/2", "worker/2: what it returned cannot be read: its node h is lost"),
    ]:
        with pytest.raises(ReturnedError) as raised:
            found[instance]
        assert raised.value.message.startswith(said)
    assert "worker/0" in found and asked == [("app", 2)]


def test_nothing_is_unpickled_by_the_way(write, monkeypatch):
    def loads(data):
        raise AssertionError("a pickle was loaded")

    monkeypatch.setattr(pickle, "loads", loads)
    assert decode(write({"a": [1, (2, b"3")]}), pickles=True) == {"a": [1, (2, b"3")]}


@pytest.mark.parametrize(
    ("names", "about", "text"),
    [
        (["worker/0"], "", "<worker/0>"),
        ([], "", "<nothing>"),
        ([], "returned by ", "<returned by nobody>"),
    ],
)
def test_a_mapping_is_shown_by_its_instances(names, about, text):
    assert repr(Lazy(lambda: names, str, about)) == text
