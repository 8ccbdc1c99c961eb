"""Records of TensorFlow, without Spark. With it: tests/clusters/spark/test_pipeline.py."""

import importlib
import json
import os

import pytest

from tests import programs
from tests.storage import s3_server

PROGRAM = """
import importlib
import json
import os
import sys

import tensorflow as tf
from pyspark.sql import types

from tfapp.tensorflowonspark import dfutil

kinds = {"string": types.StringType(), "float": types.FloatType()}
kinds["array<int>"] = types.ArrayType(types.IntegerType())
types._parse_datatype_string = kinds.get  # Spark's needs Java
folder = sys.argv[1]
rows = [("a", 1.5, [1, 2]), ("b", 2.5, [3, 4])]
dtypes = [("s", "string"), ("x", "float"), ("n", "array<int>")]
pairs = list(dfutil.toTFExample(dtypes)(rows))
assert [(type(record), none) for record, none in pairs] == [(bytearray, None)] * 2
example = tf.train.Example.FromString(bytes(pairs[0][0]))
told = {dfutil.infer_schema(one).simpleString() for one in (example, pairs[0][0])}
assert told == {"struct<n:array<bigint>,s:string,x:float>"}
assert dfutil.fromTFExample(pairs)[1].asDict() == {"s": "b", "x": 2.5, "n": [3, 4]}
for name in ("a/part-0", "a/part-1", "a/_SUCCESS", "a/.crc", "b/part-0", "c"):
    os.makedirs(os.path.dirname(f"{folder}/{name}"), exist_ok=True)
    with tf.io.TFRecordWriter(f"{folder}/{name}") as writer:
        writer.write(bytes(pairs[0][0]))
found = {}
for path in ("", "/a", "/a/", "/c", "/a/part-*", "/[ab]", "/*", "/no", "/no-*"):
    try:
        files, first = dfutil._look(folder + path)
        assert [each[0] for each in first or ()] == (["n", "s", "x"] if files else [])
        found[path] = sorted(os.path.relpath(file, folder) for file in files)
    except FileNotFoundError as error:
        found[path] = str(error)[: str(error).index(folder)]
print(json.dumps(found))
"""
MISSING = "there is no file and no folder "


@pytest.mark.trains
def test_records_are_found_by_folder_file_and_pattern(spark_packages, tmp_path):
    """As Hadoop's input formats find them."""
    printed = programs.printed("-c", PROGRAM, tmp_path, environ={"PYTHONPATH": str(spark_packages)})
    in_a = ["a/part-0", "a/part-1"]
    assert json.loads(printed.splitlines()[-1]) == {
        "": ["c"],
        "/a": in_a,
        "/a/": in_a,
        "/c": ["c"],
        "/a/part-*": in_a,
        "/[ab]": [*in_a, "b/part-0"],
        "/*": [*in_a, "b/part-0", "c"],
        "/no": MISSING,
        "/no-*": MISSING,
    }


@pytest.mark.parametrize("name", ["dfutil", "predicting"])
def test_a_module_that_travels_by_value_can(pyspark, name):
    """Whole: a function of the user's that calls one of it takes it along."""
    module = importlib.import_module(f"tfapp.tensorflowonspark.{name}")
    cloudpickle = importlib.import_module("pyspark.cloudpickle")
    assert cloudpickle.dumps(module)
    assert cloudpickle.dumps(lambda rows: module)


ON_S3 = """
import sys
import types

import tensorflow as tf
import pyspark
from pyspark.sql.types import FloatType, LongType

pyspark.TaskContext.get = staticmethod(lambda: types.SimpleNamespace(taskAttemptId=lambda: 7))
from tfapp.tensorflowonspark import dfutil

folder = sys.argv[1]
kinds = [("x", dfutil._kind("x", FloatType())), ("n", dfutil._kind("n", LongType()))]
if len(sys.argv) == 2:
    assert dfutil._told(dfutil._claim, (folder,)) == ("value", None)
    print(list(dfutil._writer(kinds, folder)(3, [(1.5, 2), (2.5, None)])))
    sys.exit()
assert dfutil._told(dfutil._claim, (folder,))[0] == "there"
wrote = eval(sys.argv[2])
dfutil._told(dfutil._publish, (folder, wrote))
word, (files, first) = dfutil._told(dfutil._look, (folder,))
assert files == [folder + "/part-00003"], files
assert sorted(tf.io.gfile.listdir(folder)) == ["_SUCCESS", "part-00003"]
assert list(dfutil._reader(kinds)(files)) == [(1.5, 2), (2.5, None)]
assert dfutil._told(dfutil._look, (folder + "/no",))[0] == "missing"
assert dfutil._told(dfutil._look, ("webhdfs://h/a",))[0] == "unknown"
"""


@pytest.mark.trains
def test_records_are_written_and_read_on_an_object_store(spark_packages, tmp_path):
    with s3_server.running(tmp_path / "s3", ("bucket",)) as given:
        environ = {**os.environ, **given, "PYTHONPATH": str(spark_packages)}

        def task(*more):
            """Each runs in a process of its own."""
            return programs.printed("-c", ON_S3, "s3://bucket/records", *more, environ=environ)

        task(task())
