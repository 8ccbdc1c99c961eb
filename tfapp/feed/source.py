"""The data of a feed, a DataFrame or an RDD, and the Spark jobs that send it. In the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tfapp.errors import FeedError
from tfapp.feed.columns import element_type
from tfapp.feed.pickled import runs
from tfapp.feed.rows import batches_of, batches_of_runs
from tfapp.feed.sender import Order, send
from tfapp.feed.travel import once_per_worker


class Source:
    """The data of one call of `feed`. Its partitions are the same in every pass."""

    def __init__(self, data: Any):
        """`data`: a DataFrame or an RDD. FeedError for anything else."""
        self._data = data
        self.is_frame = hasattr(data, "mapInArrow") and hasattr(data, "schema")
        if not self.is_frame and not hasattr(data, "mapPartitionsWithIndex"):
            raise FeedError(
                f"a {type(data).__name__} cannot be fed; give a Spark DataFrame or an RDD"
            )
        if type(data).__module__.startswith("pyspark.sql.connect"):
            raise FeedError(
                "a DataFrame of Spark Connect has its driver elsewhere; use a classic session"
            )
        if getattr(data, "isStreaming", False):
            raise FeedError(
                "a streaming DataFrame is fed batch by batch: "
                "stream.writeStream.foreachBatch(lambda batch, _: app.feed(batch, final=False))"
            )
        self.context = data.sparkSession.sparkContext if self.is_frame else data.context
        self._jobs: Any = None

    def check(self, columns: Sequence[str] | None) -> None:
        """Raises FeedError for unknown columns, and for types that cannot be a tensor. `columns`:
        the columns that the programs ask for, None for all."""
        if not self.is_frame:
            return
        from pyspark.sql.pandas.types import to_arrow_schema

        known = self._data.columns
        for name in columns or ():
            if name not in known:
                raise FeedError(
                    f"the program asks for column {name!r}, and the DataFrame has "
                    f"{', '.join(known)}"
                )
        chosen = self._data.select(*columns) if columns else self._data
        for field in chosen.schema.fields:
            if type(field.dataType).__name__ == "VectorUDT":
                raise FeedError(
                    f"column {field.name!r} has vectors of Spark ML; turn them into arrays with "
                    "pyspark.ml.functions.vector_to_array"
                )
        for field in to_arrow_schema(chosen.schema):
            element_type(field)

    def prepare(self, order: Any, columns: Sequence[str] | None) -> int:
        """Prepares the jobs for tasks with this `Order`. Returns the number of partitions. Raises
        the errors of Spark."""
        self._jobs = _jobs(self._data, self.is_frame, order, columns)
        return int(self._jobs.getNumPartitions())

    def run(self, partitions: Sequence[int], group: str, label: str) -> None:
        """Runs a job that sends these partitions. `group` and `label`: the id and the description
        of its job group. Raises the errors of Spark."""
        self.context.setJobGroup(group, label, interruptOnCancel=True)
        gateway = self.context._gateway
        numbers = gateway.new_array(gateway.jvm.int, len(partitions))
        for place, number in enumerate(partitions):
            numbers[place] = number
        # SparkContext.runJob would pass the rows of a DataFrame through a second Python worker.
        self._jobs._jrdd.collectPartitions(numbers)

    def ended(self, group: str) -> set[int]:
        """The partitions whose tasks in the jobs of a group have succeeded. Spark may report a task
        a moment late."""
        tracker = self.context.statusTracker()
        store = self.context._jsc.sc().statusStore()
        found = set()
        for job in map(tracker.getJobInfo, tracker.getJobIdsForGroup(group)):
            last = max(job.stageIds) if job is not None else -1  # other stages compute its input
            stage = tracker.getStageInfo(last)
            for attempt in range(stage.currentAttemptId + 1 if stage is not None else 0):
                tasks = store.taskList(last, attempt, 1 << 30)
                each = [tasks.apply(number) for number in range(tasks.size())]
                found |= {task.partitionId() for task in each if task.status() == "SUCCESS"}
        return found


def _jobs(data: Any, is_frame: bool, order: Any, columns: Sequence[str] | None) -> Any:
    """An RDD whose computation sends the data."""
    if is_frame:
        try:
            import pandas  # noqa: F401  # Spark needs it for Arrow
        except ModuleNotFoundError:
            raise FeedError(
                "Spark hands out DataFrames by pandas and pyarrow, and pandas is not installed: "
                "pip install 'tfapp[spark]'"
            ) from None
        chosen = data.select(*columns) if columns else data
        return chosen.mapInArrow(frame_task(order), "rows long").rdd
    loads = _loads(data)
    elements = data if loads is None else pickles_of(data)
    return elements.mapPartitionsWithIndex(rdd_task(order, columns, loads))


def _loads(data: Any) -> Callable[[bytes], Sequence[Any]] | None:
    """The function that unpickles the elements of an RDD which Spark stores as pickles. None if a
    Python function computes the elements in the same task, or if Spark stores them differently."""
    from pyspark.serializers import BatchedSerializer, CPickleSerializer

    computed = hasattr(data, "_is_pipelinable") and data._is_pipelinable()
    kept = data._jrdd_deserializer
    if computed or data._is_barrier() or not isinstance(kept, BatchedSerializer):
        return None
    inner = kept.serializer
    return inner.loads if type(inner) is CPickleSerializer else None


def pickles_of(data: Any) -> Any:
    """The elements of an RDD as the pickles that Spark stores, with several elements in each: an
    RDD of bytes."""
    from pyspark import RDD
    from pyspark.serializers import NoOpSerializer

    return RDD(data._jrdd, data.context, NoOpSerializer())


def frame_task(order: Any) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """A function for DataFrame.mapInArrow that sends its partition."""
    work, told = once_per_worker(_send_frame), tuple(order)
    return lambda batches: work(told, batches)


def rdd_task(
    order: Any, columns: Sequence[str] | None, loads: Callable[[bytes], Sequence[Any]] | None
) -> Callable[[int, Iterable[Any]], Iterator[int]]:
    """A function for RDD.mapPartitionsWithIndex that sends its partition. `loads`: unpickles an
    element of the RDD of `pickles_of`; None if the RDD has the elements themselves."""
    work, told = once_per_worker(_send_elements), tuple(order)
    return lambda part, elements: work(told, columns, loads, part, elements)


def _send_frame(order: tuple[Any, ...], batches: Iterable[Any]) -> Iterator[Any]:
    import pyarrow as pa
    from pyspark import TaskContext

    place = TaskContext.get()
    sent = send(Order(*order), batches, place.partitionId(), place.taskAttemptId())
    yield pa.record_batch([pa.array([sent], pa.int64())], names=["rows"])


def _send_elements(
    order: tuple[Any, ...],
    columns: Sequence[str] | None,
    loads: Callable[[bytes], Sequence[Any]] | None,
    part: int,
    elements: Iterable[Any],
) -> Iterator[int]:
    from pyspark import TaskContext

    all_columns = (
        batches_of_runs(runs(elements, loads), part) if loads else batches_of(elements, part)
    )
    batches = (_select(batch, columns) if columns else batch for batch in all_columns)
    yield send(Order(*order), batches, part, TaskContext.get().taskAttemptId())


def _select(batch: Any, columns: Sequence[str]) -> Any:
    lacking = [name for name in columns if name not in batch.schema.names]
    if lacking:
        raise FeedError(
            f"the program asks for column {lacking[0]!r}, and the data has "
            f"{', '.join(batch.schema.names)}"
        )
    return batch.select(list(columns))
