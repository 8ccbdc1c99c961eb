"""DataFrames as TFRecord files and back, by TensorFlow on the executors: no jar is needed. Paths
are those that TensorFlow there can read and write.

A column of integers or booleans is an int64 feature, of floats a float feature, of text or bytes a
bytes feature; an array of these has all of its values in one feature.
"""

from __future__ import annotations

import posixpath
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pyspark import cloudpickle

from tfapp.errors import ExistsError, NotFoundError, UsageError

_INTEGERS = ("byte", "short", "integer", "long", "boolean")
_FLOATS = ("float", "double", "decimal")
_TEXTS = ("string", "binary")
_TEMPORARY = "_temporary"
_DONE = "_SUCCESS"
_FOLDER = "_tfapp_records"  # attribute of a DataFrame: the folder that it is from


def saveAsTFRecords(df: Any, output_dir: str) -> None:
    """Writes one file for each partition, `part-00000` and so on, into a folder that is not there
    yet, and `_SUCCESS` at last. ExistsError; UsageError for a column that no feature can hold,
    and for a path that TensorFlow cannot open; what Spark raises passes through."""
    types = [(field.name, field.dataType) for field in df.schema.fields]
    kinds = [(name, _kind(name, kind)) for name, kind in types]
    sc = df.sparkSession.sparkContext
    _on_executor(sc, _claim, output_dir)
    wrote = df.rdd.mapPartitionsWithIndex(_writer(kinds, output_dir))
    _on_executor(sc, _publish, output_dir, wrote.collect())


def loadTFRecords(
    sc: Any, input_dir: str, binary_features: Sequence[str] = (), schema: Any = None
) -> Any:
    """A DataFrame of the records of all files in a folder, read as Spark needs them, one file a
    partition. `schema`: a StructType, or as in "image array<float>, label long"; without one it is
    that of the first record, where a feature of one value becomes a number or text, one of several
    an array, and bytes are text but for `binary_features`. NotFoundError where there are no
    records, UsageError for a path that TensorFlow cannot open."""
    from pyspark.sql import SparkSession
    from pyspark.sql.types import _parse_datatype_string

    files, first = _on_executor(sc, _look, input_dir)
    if not files:
        raise NotFoundError(f"{input_dir} has no TFRecord files", "Check the path.")
    if schema is None:
        if first is None:
            raise NotFoundError(
                f"{input_dir} has no record to take the columns from", "Give the schema."
            )
        schema = _schema_of(first, binary_features)
    elif isinstance(schema, str):
        schema = _parse_datatype_string(schema)
    kinds = [(field.name, _kind(field.name, field.dataType)) for field in schema.fields]
    rows = sc.parallelize(files, len(files)).mapPartitions(_reader(kinds))
    session = SparkSession.getActiveSession() or SparkSession(sc)
    frame = session.createDataFrame(rows, schema, verifySchema=False)
    setattr(frame, _FOLDER, input_dir)
    return frame


def isLoadedDF(df: Any) -> bool:
    """Whether `loadTFRecords` has made it."""
    return _FOLDER in vars(df)


def infer_schema(example: bytes, binary_features: Sequence[str] = ()) -> Any:
    """The StructType of a serialized tf.train.Example: see `loadTFRecords`."""
    return _schema_of(_features(example), binary_features)


def _schema_of(features: Iterable[tuple[str, str, int]], binary_features: Sequence[str]) -> Any:
    from pyspark.sql import types

    found = []
    for name, kind, count in features:
        plain = {
            "integers": types.LongType(),
            "floats": types.FloatType(),
            "texts": types.BinaryType() if name in binary_features else types.StringType(),
        }[kind]
        found.append(types.StructField(name, plain if count == 1 else types.ArrayType(plain)))
    return types.StructType(found)


def toTFExample(dtypes: Sequence[tuple[str, str]]) -> Callable[[Iterable[Any]], Iterator[bytes]]:
    """For RDD.mapPartitions: rows as serialized tf.train.Examples. `dtypes`: a DataFrame's."""
    from pyspark.sql.types import _parse_datatype_string

    kinds = [(name, _kind(name, _parse_datatype_string(kind))) for name, kind in dtypes]
    return _encoder(kinds)


def fromTFExample(iter: Iterable[Any], binary_features: Sequence[str] = ()) -> list[Any]:
    """Serialized tf.train.Examples as Rows, each with the columns that it has itself. Pairs, as
    Hadoop's formats give them, are taken by their first item."""
    from pyspark.sql import Row

    found = []
    for one in iter:
        data = bytes(one[0] if isinstance(one, tuple) else one)
        schema = infer_schema(data, binary_features)
        kinds = [(field.name, _kind(field.name, field.dataType)) for field in schema.fields]
        found.append(Row(*schema.names)(*_decoded(data, kinds)))
    return found


class _Kind:
    """Of a column. `group`: "integers", "floats" or "texts"; `array`: whether it has several
    values; `text`: whether its bytes are text."""

    def __init__(self, group: str, array: bool, text: bool, truth: bool):
        self.group, self.array, self.text, self.truth = group, array, text, truth


def _kind(name: str, kind: Any) -> _Kind:
    array = kind.typeName() == "array"
    plain = kind.elementType if array else kind
    word = plain.typeName()
    for group, words in (("integers", _INTEGERS), ("floats", _FLOATS), ("texts", _TEXTS)):
        if word in words or word.partition("(")[0] in words:
            return _Kind(group, array, word == "string", word == "boolean")
    raise UsageError(
        f"column {name!r} is {kind.simpleString()}, which no TFRecord can hold",
        "There are numbers, booleans, text, bytes, and arrays of these.",
    )


# ---- On executors ------------------------------------------------------------------------------
def _on_executor(sc: Any, function: Callable[..., Any], *args: Any) -> Any:
    """Calls a function in a task: where the files are."""
    ((word, found),) = sc.parallelize([0], 1).map(lambda _: _told(function, args)).collect()
    if word == "there":
        raise ExistsError(found, "Give another folder, or delete it first.")
    if word == "missing":
        raise NotFoundError(found, "Check the path.")
    if word == "unknown":
        raise UsageError(
            f"TensorFlow on the executors opens no such path: {found}",
            "Give a folder that all executors have mounted; or TensorFlow 2.16 or older with "
            "tensorflow-io, for hdfs://.",
        )
    return found


def _told(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, ...]:
    import tensorflow as tf

    try:
        return "value", function(*args)
    except FileExistsError as error:
        return "there", str(error)
    except FileNotFoundError as error:
        return "missing", str(error)
    except tf.errors.UnimplementedError as error:
        return "unknown", error.message


def _claim(folder: str) -> None:
    import tensorflow as tf

    if tf.io.gfile.exists(folder):
        raise FileExistsError(f"{folder} is there already")
    tf.io.gfile.makedirs(posixpath.join(folder, _TEMPORARY))


def _publish(folder: str, wrote: Sequence[tuple[int, str]]) -> None:
    """Attempts that came too late leave their file among the temporary ones."""
    import tensorflow as tf

    for part, path in wrote:
        tf.io.gfile.rename(path, posixpath.join(folder, f"part-{part:05}"))
    tf.io.gfile.rmtree(posixpath.join(folder, _TEMPORARY))
    with tf.io.gfile.GFile(posixpath.join(folder, _DONE), "w") as file:
        file.write("")  # makes it


def _look(folder: str) -> tuple[list[str], list[tuple[str, str, int]] | None]:
    """Its record files, and the features of the first record."""
    import tensorflow as tf

    if not tf.io.gfile.exists(folder) or not tf.io.gfile.isdir(folder):
        raise FileNotFoundError(f"there is no folder {folder}")
    names = sorted(tf.io.gfile.listdir(folder))
    files = [posixpath.join(folder, n) for n in names if n[0] not in "._" and n[-1] != "/"]
    for path in files:
        for record in tf.data.TFRecordDataset(path).take(1):
            return files, list(_features(record.numpy()))
    return files, None


def _writer(
    kinds: Sequence[tuple[str, _Kind]], folder: str
) -> Callable[[int, Iterable[Any]], Iterator[tuple[int, str]]]:
    def write(part: int, rows: Iterable[Any]) -> Iterator[tuple[int, str]]:
        import tensorflow as tf
        from pyspark import TaskContext

        attempt = TaskContext.get().taskAttemptId()
        path = posixpath.join(folder, _TEMPORARY, f"part-{part:05}-{attempt}")
        with tf.io.TFRecordWriter(path) as writer:
            for record in _encoder(kinds)(rows):
                writer.write(record)
        yield part, path

    return write


def _reader(
    kinds: Sequence[tuple[str, _Kind]],
) -> Callable[[Iterable[str]], Iterator[tuple[Any, ...]]]:
    def read(paths: Iterable[str]) -> Iterator[tuple[Any, ...]]:
        import tensorflow as tf

        for path in paths:
            for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
                yield _decoded(record, kinds)

    return read


def _encoder(kinds: Sequence[tuple[str, _Kind]]) -> Callable[[Iterable[Any]], Iterator[bytes]]:
    def encode(rows: Iterable[Any]) -> Iterator[bytes]:
        import tensorflow as tf

        train = tf.train
        for row in rows:
            features = {}
            for (name, kind), value in zip(kinds, row):
                if value is None:
                    continue
                values = value if kind.array else [value]
                if kind.group == "integers":
                    feature = train.Feature(int64_list=train.Int64List(value=map(int, values)))
                elif kind.group == "floats":
                    feature = train.Feature(float_list=train.FloatList(value=map(float, values)))
                else:
                    data = [v.encode() if isinstance(v, str) else bytes(v) for v in values]
                    feature = train.Feature(bytes_list=train.BytesList(value=data))
                features[name] = feature
            example = train.Example(features=train.Features(feature=features))
            yield example.SerializeToString()

    return encode


def _decoded(record: bytes, kinds: Sequence[tuple[str, _Kind]]) -> tuple[Any, ...]:
    """The values of columns; None for a feature that is not there."""
    found = _values(record)
    row: list[Any] = []
    for name, kind in kinds:
        values = found.get(name)
        if values is None:
            row.append(None)
            continue
        if kind.text:
            values = [value.decode() for value in values]
        elif kind.truth:
            values = [bool(value) for value in values]
        elif kind.group == "texts":
            values = [bytearray(value) for value in values]
        if kind.array:
            row.append(values)
        elif len(values) == 1:
            row.append(values[0])
        else:
            raise ValueError(
                f"feature {name!r} has {len(values)} values in a record, and its column takes one: "
                "declare it as an array in the schema"
            )
    return tuple(row)


def _values(record: bytes) -> Mapping[str, list[Any]]:
    import tensorflow as tf

    found = {}
    for name, feature in tf.train.Example.FromString(record).features.feature.items():
        group = feature.WhichOneof("kind")
        if group is not None:
            found[name] = list(getattr(feature, group).value)
    return found


def _features(example: bytes) -> Iterator[tuple[str, str, int]]:
    """(name, group, number of values), by name."""
    import tensorflow as tf

    groups = {"int64_list": "integers", "float_list": "floats", "bytes_list": "texts"}
    features = tf.train.Example.FromString(bytes(example)).features.feature
    for name in sorted(features):
        group = features[name].WhichOneof("kind")
        if group is not None:
            yield name, groups[group], len(getattr(features[name], group).value)


# The executors have no tfapp: what tasks call travels with them.
cloudpickle.register_pickle_by_value(sys.modules[__name__])
