"""Converts DataFrames to TFRecord files and back. TensorFlow on the executors reads and writes the
files, so no jar is needed, and paths are those that TensorFlow there can open; with tfapp[storage]
on the executors, these are URLs such as hdfs:// and s3://, too.

Columns of integers or booleans become int64 features, floats become float features, and text or
bytes become bytes features. A column of arrays becomes a feature with several values.
"""

from __future__ import annotations

import contextlib
import functools
import posixpath
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

from pyspark import cloudpickle

from tfapp.errors import ExistsError, NotFoundError, UsageError

_INTEGERS = ("byte", "short", "integer", "long", "boolean")
_FLOATS = ("float", "double", "decimal")
_TEXTS = ("string", "binary")
_TEMPORARY = "_temporary"
_CLAIM = "_claim"  # in there, since an object store has no empty folders
_DONE = "_SUCCESS"
_FOLDER = "_tfapp_records"  # attribute of a DataFrame: the folder that it was loaded from

CallT = TypeVar("CallT", bound=Callable[..., Any])


def _telling_in_full(function: CallT) -> CallT:
    """Its errors have their hints in their text. The module travels to executors with it, so it
    holds no generator, as `told_in_full` itself would as a decorator."""

    @functools.wraps(function)
    def told(*args: Any, **given: Any) -> Any:
        from tfapp.api.errors import told_in_full

        with told_in_full():
            return function(*args, **given)

    return cast("CallT", told)


@_telling_in_full
def saveAsTFRecords(df: Any, output_dir: str) -> None:
    """Writes one file for each partition, `part-00000` and so on, into a new folder, and at the end
    an empty file `_SUCCESS`.

    Raises ExistsError if the folder exists; UsageError for a column type that TFRecords cannot
    hold, and for a path that TensorFlow cannot open; and the errors of Spark."""
    types = [(field.name, field.dataType) for field in df.schema.fields]
    kinds = [(name, _kind(name, kind)) for name, kind in types]
    sc = df.sparkSession.sparkContext
    _on_executor(sc, _claim, output_dir)
    wrote = df.rdd.mapPartitionsWithIndex(_writer(kinds, output_dir))
    _on_executor(sc, _publish, output_dir, wrote.collect())


@_telling_in_full
def loadTFRecords(
    sc: Any, input_dir: str, binary_features: Sequence[str] = (), schema: Any = None
) -> Any:
    """Returns a DataFrame of the records in all files of a folder, one partition for each file.
    Spark reads the files when it needs them. `input_dir` may also be a file, or a pattern such as
    "/data/part-*" of files and folders.

    `schema`: a StructType, or text such as "image array<float>, label long". Without it, the schema
    is inferred from the first record: a feature with one value becomes a number or a string, a
    feature with several values an array. Bytes become strings, except in `binary_features`.

    Raises NotFoundError if there are no records; UsageError for a path that TensorFlow cannot
    open."""
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
    """Whether `loadTFRecords` has made this DataFrame."""
    return _FOLDER in vars(df)


def infer_schema(example: Any, binary_features: Sequence[str] = ()) -> Any:
    """The schema of a tf.train.Example, which may be serialized, as a StructType: see
    `loadTFRecords`."""
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


@_telling_in_full
def toTFExample(
    dtypes: Sequence[tuple[str, str]],
) -> Callable[[Iterable[Any]], Iterator[tuple[bytearray, None]]]:
    """Returns a function for RDD.mapPartitions that turns rows into pairs of a serialized
    tf.train.Example and None, as Hadoop's output formats take them. `dtypes`: the `dtypes` of the
    DataFrame."""
    from pyspark.sql.types import _parse_datatype_string

    kinds = [(name, _kind(name, _parse_datatype_string(kind))) for name, kind in dtypes]
    encode = _encoder(kinds)
    return lambda rows: ((bytearray(record), None) for record in encode(rows))


def fromTFExample(iter: Iterable[Any], binary_features: Sequence[str] = ()) -> list[Any]:
    """Converts serialized tf.train.Examples to Rows, each with the columns of its own features. Of
    pairs, as Hadoop's input formats return them, the first item is the Example."""
    from pyspark.sql import Row

    found = []
    for one in iter:
        data = bytes(one[0] if isinstance(one, tuple) else one)
        schema = infer_schema(data, binary_features)
        kinds = [(field.name, _kind(field.name, field.dataType)) for field in schema.fields]
        found.append(Row(*schema.names)(*_decoded(data, kinds)))
    return found


class _Kind:
    """The kind of a column. `group`: "integers", "floats" or "texts". `array`: whether its values
    are arrays. `text`: whether its bytes are text. `truth`: whether its integers are booleans."""

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
    """Calls `function(*args)` in a Spark task and returns its result. Raises the errors of `_told`
    as tfapp's."""
    ((word, found),) = sc.parallelize([0], 1).map(lambda _: _told(function, args)).collect()
    if word == "there":
        raise ExistsError(found, "Give another folder, or delete it first.")
    if word == "missing":
        raise NotFoundError(found, "Check the path.")
    if word == "unknown":
        raise UsageError(
            f"TensorFlow on the executors opens no such path: {found}",
            "Give a folder that all executors have mounted; or, for hdfs://, s3:// and abfss://, "
            "install tfapp[storage] in the Python of the executors.",
        )
    return found


def _tensorflow() -> Any:
    """TensorFlow, with the file systems of tfapp.storage where the executors have them."""
    import tensorflow

    try:
        from tfapp import storage
        from tfapp.errors import UnavailableError
    except ImportError:
        return tensorflow
    with contextlib.suppress(UnavailableError):  # TensorFlow says which scheme it does not have
        storage.register()
    return tensorflow


def _told(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, ...]:
    tf = _tensorflow()
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
    temporary = posixpath.join(folder, _TEMPORARY)
    tf.io.gfile.makedirs(temporary)
    _write_empty(posixpath.join(temporary, _CLAIM))


def _write_empty(path: str) -> None:
    import tensorflow as tf

    with tf.io.gfile.GFile(path, "w") as file:
        file.write("")  # creates the file


def _publish(folder: str, wrote: Sequence[tuple[int, str]]) -> None:
    """Moves the files `wrote`, (partition, path), into the folder and deletes the temporary folder,
    with the files of superseded attempts."""
    import tensorflow as tf

    for part, path in wrote:
        tf.io.gfile.rename(path, posixpath.join(folder, f"part-{part:05}"))
    tf.io.gfile.rmtree(posixpath.join(folder, _TEMPORARY))
    _write_empty(posixpath.join(folder, _DONE))


def _look(path: str) -> tuple[list[str], list[tuple[str, str, int]] | None]:
    """The record files that `loadTFRecords` reads, and the features of the first record; None if
    there is none."""
    import tensorflow as tf

    found = [path] if tf.io.gfile.exists(path) else sorted(tf.io.gfile.glob(path))
    if not found:
        raise FileNotFoundError(f"there is no file and no folder {path}")
    files = [file for each in found for file in _files(each)]
    for file in files:
        for record in tf.data.TFRecordDataset(file).take(1):
            return files, list(_features(record.numpy()))
    return files, None


def _files(path: str) -> list[str]:
    """The record files in a folder, or the file itself."""
    import tensorflow as tf

    if not tf.io.gfile.isdir(path):
        return [path]
    names = [name for name in sorted(tf.io.gfile.listdir(path)) if name[0] not in "._"]
    files = [posixpath.join(path, name) for name in names]
    return [file for file in files if not tf.io.gfile.isdir(file)]


def _writer(
    kinds: Sequence[tuple[str, _Kind]], folder: str
) -> Callable[[int, Iterable[Any]], Iterator[tuple[int, str]]]:
    def write(part: int, rows: Iterable[Any]) -> Iterator[tuple[int, str]]:
        from pyspark import TaskContext

        tf = _tensorflow()
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
        tf = _tensorflow()
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
    """The values of the columns in a record; None for a missing feature."""
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


def _features(example: Any) -> Iterator[tuple[str, str, int]]:
    """(name, group, number of values) of each feature of a tf.train.Example, sorted by name."""
    import tensorflow as tf

    groups = {"int64_list": "integers", "float_list": "floats", "bytes_list": "texts"}
    if isinstance(example, (bytes, bytearray)):
        example = tf.train.Example.FromString(bytes(example))
    features = example.features.feature
    for name in sorted(features):
        group = features[name].WhichOneof("kind")
        if group is not None:
            yield name, groups[group], len(getattr(features[name], group).value)


# The executors have no tfapp: this module is pickled by value with the tasks that call it.
cloudpickle.register_pickle_by_value(sys.modules[__name__])
