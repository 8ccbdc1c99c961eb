"""Outputs of a model become columns, whatever TensorFlow's type is."""

import numpy as np
import pyarrow as pa
import pytest

from tfapp.errors import UsageError
from tfapp.tensorflowonspark.predicting import _column, _type

TEXTS = np.array([b"a", b"\xff\xd8", b""], object)


class Tensor:
    def __init__(self, values):
        self._values = np.asarray(values)

    def numpy(self):
        return self._values


@pytest.mark.parametrize(
    ("kind", "values", "shape", "spark"),
    [
        ("string", TEXTS, (3,), "binary"),
        ("string", TEXTS, (3, 1), "array<binary>"),
        ("string", np.tile(TEXTS, 4), (3, 2, 2), "array<array<binary>>"),
        ("float32", [0.5, 1.5, 2.5], (3, 1), "array<float>"),
        ("float16", [0.5, 1.5, 2.5], (3,), "float"),
        ("uint8", [1, 255, 0], (3,), "short"),
        ("uint16", [1, 65535, 0], (3, 1), "array<int>"),
        ("uint32", [1, 2**32 - 1, 0], (3,), "long"),
        ("uint64", [1, 2**63 - 1, 0], (3,), "long"),
        ("int64", [], (3, 0), "array<long>"),
        ("bool", [True, False] * 9, (3, 2, 3), "array<array<boolean>>"),
    ],
)
def test_outputs(kind, values, shape, spark):
    array = np.asarray(values, object if kind == "string" else kind).reshape(shape)
    column = _column("out", Tensor(array), 3)
    assert column.to_pylist() == array.tolist()
    assert _type(kind, shape) == spark
    inner = column.type
    for word in spark.split("<")[:-1]:
        assert word == "array"
        inner = inner.value_type
    names = {"halffloat": "float", "int16": "short", "int32": "int", "int64": "long"}
    names |= {"bool": "boolean", "binary": "binary", "float": "float"}
    assert names[str(inner)] == spark.rpartition("<")[2].rstrip(">")


def test_what_no_column_can_hold():
    with pytest.raises(pa.ArrowInvalid, match="not in range"):
        _column("out", Tensor(np.array([2**63], "uint64")), 1)
    with pytest.raises(ValueError, match="'out' has 2 values for 3 rows"):
        _column("out", Tensor([1, 2]), 3)
    with pytest.raises(UsageError, match="an output is complex64"):
        _type("complex64", (3,))
