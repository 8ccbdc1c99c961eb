"""Inference: Spark tasks ask the programs about their rows, and get as many answers in their order.

A task asks the driver's server whom to ask: {"route": PART} -> {"address": "host:port"}. There it
says {"rows": N, "size": BYTES} and a batch, and hears {"size": BYTES} and a batch, or
{"error": "..."}. When no attempt can do better, it says {"wrong": "...", "stage": S} to the server.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tfapp.errors import FeedError
from tfapp.feed.columns import ANSWER, check, features_of, pieces, serialized
from tfapp.feed.wire import Credentials, Line, connect

if TYPE_CHECKING:
    from tfapp.feed.driver import Feeder
    from tfapp.feed.receiver import Receiver

AHEAD = 2  # questions that have no answer yet


# ---- In the program --------------------------------------------------------------------------
def serve(receiver: Receiver, answer: Callable[[Any], Any]) -> None:
    """As `Feed.serve`."""
    receiver.asks()
    while (question := receiver.question()) is not None:
        try:
            question.reply(_answered(answer(question.arrays), question.rows))
        except FeedError as error:
            question.refuse(str(error))
        except OSError:
            continue  # the task is gone


def _answered(found: Any, rows: int) -> Mapping[str, Any]:
    columns = found if isinstance(found, Mapping) else {ANSWER: found}
    arrays = {name: np.asarray(values) for name, values in columns.items()}
    for name, values in arrays.items():
        count = len(values) if values.ndim else 0
        if count != rows:
            which = f" in {name!r}" if isinstance(found, Mapping) else ""
            raise FeedError(f"the program gave {count} results{which} for {rows} rows")
    return arrays


# ---- In the driver ---------------------------------------------------------------------------
def infer(feeder: Feeder, data: Any, schema: str) -> Any:
    """As `Application.infer`."""
    from tfapp.feed.source import Source, travel_by_value

    source = Source(data)
    source.check(None)
    order = feeder.order(source.context)
    travel_by_value()
    if not source.is_frame:
        return data.mapPartitionsWithIndex(rdd_task(order))
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType, _parse_datatype_string

    wanted = _parse_datatype_string(schema)
    if not isinstance(wanted, StructType):
        raise FeedError(f'schema is {schema!r}; name the columns: "prediction int"')
    both = [name for name in wanted.names if name in data.columns]
    if both:
        raise FeedError(f"the data has a column {both[0]!r} already; call the answer otherwise")
    fields = StructType([*data.schema.fields, *wanted.fields])
    return data.mapInArrow(frame_task(order, to_arrow_schema(wanted)), fields)


def frame_task(order: Any, wanted: Any) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """For DataFrame.mapInArrow. `wanted`: the Arrow schema of the answers."""

    def task(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import TaskContext

        place = TaskContext.get()
        asked = ask(order, batches, place.partitionId(), place.stageId(), wanted)
        for batch, answers in asked:
            names = [*batch.schema.names, *wanted.names]
            yield pa.RecordBatch.from_arrays([*batch.columns, *answers], names=names)

    return task


def rdd_task(order: Any) -> Callable[[int, Iterable[Any]], Iterator[Any]]:
    """For RDD.mapPartitionsWithIndex."""
    from tfapp.feed.rows import batches_of  # here, so that it travels

    def task(part: int, elements: Iterable[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        stage = TaskContext.get().stageId()
        for _, answers in ask(order, batches_of(elements, part), part, stage, None):
            columns = [answer.to_pylist() for answer in answers]
            yield from columns[0] if len(columns) == 1 else zip(*columns)

    return task


# ---- In the task -----------------------------------------------------------------------------
def ask(
    order: Any, batches: Iterable[Any], part: int, stage: int, wanted: Any
) -> Iterator[tuple[Any, list[Any]]]:
    """Each batch of partition `part`, and the columns of its answers. `wanted`: their Arrow
    schema, None for any. FeedError when they are wrong, OSError when this attempt cannot go on."""
    tls = Credentials.unpacked(order.credentials).tls(server=False)
    server = connect(order.server, tls, {"role": "asker"})
    line = None
    try:
        line = connect(server.ask({"route": part})["address"], tls, {"role": "questions"})
        yield from _asked(line, batches, part, wanted)
    except FeedError as error:
        server.say({"wrong": f"partition {part}: {error}", "stage": stage})
        server.body(1)  # until the stage is cancelled, and this task with it
        raise
    finally:
        for each in (line, server):
            if each is not None:
                each.close()


def _asked(
    line: Line, batches: Iterable[Any], part: int, wanted: Any
) -> Iterator[tuple[Any, list[Any]]]:
    waiting: deque[Any] = deque()
    features, first = None, 0
    for batch in pieces(batches):
        if not batch.num_rows:
            continue
        features = features or features_of(batch)
        check(batch, features, first, part)
        first += batch.num_rows
        line.send({"rows": batch.num_rows}, serialized(batch))
        waiting.append(batch)
        if len(waiting) > AHEAD:
            yield _heard(line, waiting.popleft(), wanted)
    while waiting:
        yield _heard(line, waiting.popleft(), wanted)


def _heard(line: Line, batch: Any, wanted: Any) -> tuple[Any, list[Any]]:
    import pyarrow as pa

    said = line.hear()
    if "error" in said:
        raise FeedError(said["error"])
    with pa.ipc.open_stream(line.body(said["size"])) as stream:
        found = stream.read_next_batch()
    if wanted is None:
        return batch, found.columns
    names = found.schema.names
    if names == [ANSWER] and len(wanted) == 1:
        names = wanted.names
    lacking = [name for name in wanted.names if name not in names]
    if lacking:
        raise FeedError(f"the program gives {', '.join(names)}, and no {lacking[0]!r}")
    answers = []
    for field in wanted:
        column = found.column(names.index(field.name))
        try:
            answers.append(column.cast(field.type))
        except pa.ArrowException as error:
            raise FeedError(
                f"the program gives {field.name!r} as {column.type}, and the schema says "
                f"{field.type}: {error}"
            ) from None
    return batch, answers
