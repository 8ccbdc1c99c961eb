"""Inference: Spark tasks send rows to the programs as questions, and get one answer for each row,
in the same order.

A task first asks the driver's server for a program: {"route": PART} -> {"address": "host:port"} |
{"error": "..."}. It sends {"rows": N} and a batch (see tfapp.feed.memory) to the program, which
answers with {"size": BYTES} and a batch, or with {"error": "..."}. After an error that every
attempt would get, the task sends {"wrong": "...", "stage": S} to the server. If the program is
gone, it sends {"lost": true}, and fails when the server ends the connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tfapp.errors import FeedError
from tfapp.feed import memory
from tfapp.feed.columns import ANSWER, check, features_of, pieces
from tfapp.feed.pool import connections, telling_of_loss
from tfapp.feed.rows import batches_of
from tfapp.feed.sender import Order
from tfapp.feed.travel import once_per_worker
from tfapp.feed.wire import Line

if TYPE_CHECKING:
    from tfapp.feed.driver import Feeder

AHEAD = 2  # questions that a task sends before it waits for an answer


# ---- In the driver ---------------------------------------------------------------------------
def infer(feeder: Feeder, data: Any, schema: str) -> Any:
    """Implements `Application.infer`."""
    from tfapp.feed.source import Source

    source = Source(data)
    source.check(None)
    order = feeder.order(source.context)
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
    """A function for DataFrame.mapInArrow. `wanted`: the Arrow schema of the answers."""
    work, told = once_per_worker(_ask_frame), tuple(order)
    return lambda batches: work(told, wanted, batches)


def rdd_task(order: Any) -> Callable[[int, Iterable[Any]], Iterator[Any]]:
    """A function for RDD.mapPartitionsWithIndex."""
    work, told = once_per_worker(_ask_elements), tuple(order)
    return lambda part, elements: work(told, part, elements)


# ---- In the task -----------------------------------------------------------------------------
def _ask_frame(order: tuple[Any, ...], wanted: Any, batches: Iterable[Any]) -> Iterator[Any]:
    import pyarrow as pa
    from pyspark import TaskContext

    place = TaskContext.get()
    asked = ask(Order(*order), batches, place.partitionId(), place.stageId(), wanted)
    for batch, answers in asked:
        names = [*batch.schema.names, *wanted.names]
        yield pa.RecordBatch.from_arrays([*batch.columns, *answers], names=names)


def _ask_elements(order: tuple[Any, ...], part: int, elements: Iterable[Any]) -> Iterator[Any]:
    from pyspark import TaskContext

    stage = TaskContext.get().stageId()
    for _, answers in ask(Order(*order), batches_of(elements, part), part, stage, None):
        columns = [answer.to_pylist() for answer in answers]
        yield from columns[0] if len(columns) == 1 else zip(*columns)


def ask(
    order: Order, batches: Iterable[Any], part: int, stage: int, wanted: Any
) -> Iterator[tuple[Any, list[Any]]]:
    """Yields each batch of partition `part` with the columns of its answers. `wanted`: the Arrow
    schema of the answers, None for any. FeedError if they are wrong; OSError if this attempt cannot
    go on."""
    with connections(order.credentials) as connect:
        server = connect(order.server, "asker")
        try:
            route = server.ask({"route": part})
            if "error" in route:
                raise FeedError(route["error"])
            with telling_of_loss(server):
                line = connect(route["address"], "questions")
            yield from _asked(line, server, batches, part, wanted)
        except FeedError as error:
            server.say({"wrong": f"partition {part}: {error}", "stage": stage})
            server.body(1)  # waits until Spark cancels the stage, and with it this task
            raise


def _asked(
    line: Line, server: Line, batches: Iterable[Any], part: int, wanted: Any
) -> Iterator[tuple[Any, list[Any]]]:
    waiting: deque[Any] = deque()
    features, first, number = None, 0, 0
    for batch in pieces(batches):
        if not batch.num_rows:
            continue
        features = features or features_of(batch)
        check(batch, features, first, part)
        first += batch.num_rows
        with telling_of_loss(server):
            memory.send(line, {"rows": batch.num_rows}, batch, number % (AHEAD + 1))
        number += 1
        waiting.append(batch)
        if len(waiting) > AHEAD:
            yield _heard(line, server, waiting.popleft(), wanted)
    while waiting:
        yield _heard(line, server, waiting.popleft(), wanted)


def _heard(line: Line, server: Line, batch: Any, wanted: Any) -> tuple[Any, list[Any]]:
    import pyarrow as pa

    with telling_of_loss(server):
        said = line.hear()
        body = line.body(said["size"]) if "size" in said else b""
    if "error" in said:
        raise FeedError(said["error"])
    with pa.ipc.open_stream(body) as stream:
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
