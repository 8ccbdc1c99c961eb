"""Inference in a Spark task: sends rows to the programs as questions, and gets one answer for each
row, in the same order."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tfapp.errors import FeedError
from tfapp.feed import memory
from tfapp.feed.columns import ANSWER, check, features_of, is_pickled, pieces, value_batch
from tfapp.feed.task.pool import connections, telling_of_loss
from tfapp.feed.task.rows import Elements, batches_of, checked_or_pickles
from tfapp.feed.task.sender import FeedOrder, named
from tfapp.feed.wire import Line

AHEAD = 2  # questions that a task sends before it waits for an answer


def ask_frame(
    order: tuple[Any, ...],
    wanted: Any,
    columns: Sequence[str] | None,
    names: Sequence[str],
    batches: Iterable[Any],
) -> Iterator[Any]:
    """For DataFrame.mapInArrow. `wanted`: the Arrow schema of the answers. `columns`: those of the
    questions, None for all. `names`: those of the data's columns."""
    import pyarrow as pa
    from pyspark import TaskContext

    place = TaskContext.get()
    part, stage = place.partitionId(), place.stageId()
    for batch, answers in ask(
        FeedOrder(*order), named(batches, names), part, stage, wanted, columns
    ):
        whole = [*names, *wanted.names]
        yield pa.RecordBatch.from_arrays([*batch.columns, *answers], names=whole)


def ask_elements(
    order: tuple[Any, ...], columns: Sequence[str] | None, part: int, elements: Iterable[Any]
) -> Iterator[Any]:
    """For RDD.mapPartitionsWithIndex. `columns`: see `ask_frame`."""
    from pyspark import TaskContext

    stage = TaskContext.get().stageId()
    batches = batches_of(elements, part, columns)
    for _, answers in ask(FeedOrder(*order), batches, part, stage, None):
        yield from answers[0] if len(answers) == 1 else zip(*answers)


def ask(
    order: FeedOrder,
    batches: Iterable[Any],
    part: int,
    stage: int,
    wanted: Any,
    columns: Sequence[str] | None = None,
) -> Iterator[tuple[Any, list[Any]]]:
    """Yields each batch of partition `part` with the columns of its answers. `wanted`: the Arrow
    schema of the answers, None for any, which are lists then. `columns`: those that the program
    gets, None for all. FeedError if the answers are wrong; OSError if this attempt cannot go
    on."""
    with connections(order.credentials) as connect:
        server = connect(order.server, "asker")
        try:
            route = server.ask({"route": part})
            if "error" in route:
                raise FeedError(route["error"])
            if isinstance(batches, Elements):
                batches.objects = route["objects"]
            with telling_of_loss(server):
                line = connect(route["address"], "questions")
            yield from _asked(line, server, batches, part, wanted, columns)
        except FeedError as error:
            server.say({"wrong": f"partition {part}: {error}", "stage": stage})
            server.body(1)  # waits until Spark cancels the stage, and with it this task
            raise


def _asked(
    line: Line,
    server: Line,
    batches: Iterable[Any],
    part: int,
    wanted: Any,
    columns: Sequence[str] | None,
) -> Iterator[tuple[Any, list[Any]]]:
    waiting: dict[int, Any] = {}  # number -> batch, in the order of the questions
    heard: dict[int, tuple[dict[str, Any], bytes]] = {}
    features = None

    def checked(batch: Any, first: int) -> Any:
        nonlocal features
        asked = batch.select(list(columns)) if columns else batch
        features = features or features_of(asked)
        check(asked, features, first, part)
        return batch

    for number, batch in enumerate(pieces(checked_or_pickles(batches, checked))):
        asked = batch.select(list(columns)) if columns else batch
        head = {"question": number, "rows": batch.num_rows}
        with telling_of_loss(server):
            memory.send(line, head, asked, number % (AHEAD + 1))
        waiting[number] = batch
        if len(waiting) > AHEAD:
            yield _answered(line, server, waiting, heard, wanted)
    while waiting:
        yield _answered(line, server, waiting, heard, wanted)


def _answered(
    line: Line,
    server: Line,
    waiting: dict[int, Any],
    heard: dict[int, tuple[dict[str, Any], bytes]],
    wanted: Any,
) -> tuple[Any, list[Any]]:
    """Takes the first of the waiting batches, and returns it with its answers. `heard`: answers to
    other questions."""
    import pyarrow as pa

    number = next(iter(waiting))
    while number not in heard:
        with telling_of_loss(server):
            said = line.hear()
            body = line.body(said["size"]) if "size" in said else b""
            if said["answer"] not in waiting or said["answer"] in heard:
                raise ConnectionError(f"question {said['answer']} was answered, and is not open")
        heard[said["answer"]] = said, body
    batch, (said, body) = waiting.pop(number), heard.pop(number)
    if "error" in said:
        raise FeedError(said["error"])
    with pa.ipc.open_stream(body) as stream:
        found = stream.read_next_batch()
    if is_pickled(found.schema.names):
        try:
            values = [pickle.loads(value) for value in found.column(0).to_pylist()]
        except Exception as error:  # of any class, such as one that a module is missing
            raise FeedError(f"the program's results cannot be unpickled here: {error}") from None
        if wanted is None:
            return batch, [values]
        found = value_batch(values)
    if wanted is None:
        return batch, [column.to_pylist() for column in found.columns]
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
