"""Runs a SavedModel on the rows of a DataFrame, in the Python workers of Spark's executors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tfapp.errors import NotFoundError, UsageError
from tfapp.feed.columns import Feature, arrays_of_batch, check, features_of

# TensorFlow's type -> Spark's type. Texts and bytes are one type in TensorFlow.
_TYPES = {
    "float32": "float",
    "float64": "double",
    "float16": "float",
    "bfloat16": "float",
    "int64": "long",
    "int32": "int",
    "int16": "short",
    "int8": "byte",
    "uint8": "short",
    "uint16": "int",
    "uint32": "long",
    "uint64": "long",
    "bool": "boolean",
    "string": "binary",
}

# NumPy's type -> Arrow's, where Spark has no such type.
_ARROW_TYPES = {
    "float16": "float32",
    "uint8": "int16",
    "uint16": "int32",
    "uint32": "int64",
    "uint64": "int64",
}

_models: dict[tuple[Any, ...], Any] = {}  # the model that this Python worker has loaded


def predict(
    dataset: Any,
    folder: str,
    inputs: Mapping[str, str],
    outputs: Mapping[str, str],
    *,
    signature: str,
    tags: Sequence[str],
    batch: int,
) -> Any:
    """Returns a DataFrame of the model's outputs, one row for each row of `dataset`, in the same
    order. `inputs`: {column of `dataset`: input}. `outputs`: {output: column of the result}.
    `batch`: rows for one call of the model.

    Raises NotFoundError if there is no such model or signature; UsageError for columns that
    `dataset` does not have, and for inputs and outputs that the signature does not have."""
    from pyspark import cloudpickle

    from tfapp.feed.driver.travel import travel_by_value

    travel_by_value()
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    unknown = [column for column in inputs if column not in dataset.columns]
    if unknown:
        raise UsageError(
            f"input_mapping names the column {unknown[0]!r}",
            f"The DataFrame has {', '.join(dataset.columns)}.",
        )
    which = folder, signature, tuple(tags)
    context = dataset.sparkSession.sparkContext
    (about,) = context.parallelize([which], 1).map(lambda each: _describe(*each)).collect()
    if "missing" in about:
        raise NotFoundError(f"{about['missing']}, where the executors are", "Check the folder.")
    types = {name: _type(*about["outputs"][name]) for name in _known("output", outputs, about)}
    _known("input", inputs.values(), about)
    schema = ", ".join(f"`{outputs[name]}` {types[name]}" for name in outputs)
    chosen = dataset.select(*inputs)
    kinds = {name: about["inputs"][name] for name in inputs.values()}
    return chosen.mapInArrow(_task(which, dict(inputs), dict(outputs), kinds, batch), schema)


def _known(what: str, names: Iterable[str], about: Mapping[str, Any]) -> list[str]:
    there = about[f"{what}s"]
    for name in names:
        if name not in there:
            raise UsageError(
                f"{what}_mapping names the {what} {name!r}",
                f"The signature has {', '.join(sorted(there))}.",
            )
    return list(names)


def _type(kind: str, shape: Sequence[int]) -> str:
    """Spark's type for the value of one row of an output. `shape`: that of the output, with the
    rows as its first dimension."""
    if kind not in _TYPES:
        raise UsageError(f"an output is {kind}, which no column can hold", "Give another one.")
    found = _TYPES[kind]
    for _ in shape[1:]:
        found = f"array<{found}>"
    return found


# ---- On executors ------------------------------------------------------------------------------
def _describe(folder: str, signature: str, tags: Sequence[str]) -> dict[str, Any]:
    """The inputs and outputs of a signature: {"inputs": {name: (type, shape)}, "outputs": the
    same}, where -1 in a shape is any number; or {"missing": the reason}."""
    import tensorflow as tf

    if not tf.io.gfile.exists(_file(folder)):
        return {"missing": f"there is no SavedModel in {folder}"}
    model = tf.saved_model.load(folder, tags=list(tags))
    if signature not in model.signatures:
        there = ", ".join(sorted(model.signatures)) or "none"
        return {"missing": f"{folder} has the signatures {there}, and no {signature!r}"}
    function = model.signatures[signature]

    def told(specs: Mapping[str, Any]) -> dict[str, tuple[str, tuple[int, ...]]]:
        found = {}
        for name, spec in specs.items():
            sizes = spec.shape.as_list() if spec.shape.rank is not None else [None]
            found[name] = spec.dtype.name, tuple(-1 if size is None else size for size in sizes)
        return found

    return {
        "inputs": told(function.structured_input_signature[1]),
        "outputs": told(function.structured_outputs),
    }


def _loaded(folder: str, signature: str, tags: Sequence[str]) -> Any:
    """The function of a signature. Each Python worker loads the model once, and again after its
    folder was rewritten."""
    import tensorflow as tf

    key = folder, signature, tuple(tags), tf.io.gfile.stat(_file(folder)).mtime_nsec
    if key not in _models:
        _models.clear()
        model = tf.saved_model.load(folder, tags=list(tags))
        _models[key] = model, model.signatures[signature]
    return _models[key][1]


def _file(folder: str) -> str:
    return f"{folder}/saved_model.pb"


def _task(
    which: tuple[Any, ...],
    inputs: Mapping[str, str],
    outputs: Mapping[str, str],
    kinds: Mapping[str, tuple[str, tuple[int, ...]]],
    size: int,
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def task(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import TaskContext

        function = _loaded(*which)
        part, done = TaskContext.get().partitionId(), 0
        features: tuple[Feature, ...] = ()
        for batch in batches:
            for first in range(0, batch.num_rows, size):
                rows = batch.slice(first, size)
                features = features or features_of(rows)
                check(rows, features, done, part)
                done += rows.num_rows
                arrays = arrays_of_batch(rows)
                given = {name: _tensor(arrays[c], *kinds[name]) for c, name in inputs.items()}
                found = function(**given)
                columns = [_column(name, found[name], rows.num_rows) for name in outputs]
                yield pa.RecordBatch.from_arrays(columns, names=list(outputs.values()))

    return task


def _tensor(values: Any, kind: str, shape: tuple[int, ...]) -> Any:
    """Values as an input of the model, in the shape that its signature declares."""
    import tensorflow as tf

    is_text = values.dtype == object
    tensor = tf.constant(values.tolist()) if is_text else tf.cast(tf.constant(values), kind)
    return tf.reshape(tensor, (-1, *shape[1:])) if min(shape[1:], default=0) > 0 else tensor


def _column(name: str, tensor: Any, rows: int) -> Any:
    """An output as an Arrow column with one value for each row. Raises ArrowInvalid if a number is
    too large for Spark."""
    import numpy as np
    import pyarrow as pa

    values = tensor.numpy()
    count = len(values) if values.ndim else 0
    if count != rows:
        raise ValueError(f"the model's output {name!r} has {count} values for {rows} rows")
    flat = values.reshape(-1)
    if values.dtype.name == "bfloat16":  # which Arrow does not know
        flat = flat.astype(np.float32)
    column = pa.array(flat, from_pandas=False)
    if values.dtype.name in _ARROW_TYPES:
        column = column.cast(_ARROW_TYPES[values.dtype.name])
    for axis in reversed(range(1, values.ndim)):
        lists = int(np.prod(values.shape[:axis]))
        offsets = values.shape[axis] * np.arange(lists + 1, dtype=np.int32)
        column = pa.ListArray.from_arrays(offsets, column)
    return column
