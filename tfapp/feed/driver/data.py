"""The data of a feed, a DataFrame or an RDD, and the Spark jobs that send it or ask about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from tfapp.errors import FeedError
from tfapp.feed.columns import element_type, no_tensor
from tfapp.feed.driver.travel import task
from tfapp.feed.task.asker import ask_elements, ask_frame
from tfapp.feed.task.sender import FeedOrder, send_elements, send_frame


class FedData:
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
        known = self._data.columns
        for name in columns or ():
            if name not in known:
                raise FeedError(
                    f"the program asks for column {name!r}, and the DataFrame has "
                    f"{', '.join(known)}"
                )
        names = columns or known
        if not names or len({*names}) < len(names) or any(known.count(n) > 1 for n in names):
            raise FeedError(f"each column needs a name of its own; they are {names}")
        chosen = _select(self._data, columns)
        for field in chosen.schema.fields:
            if type(field.dataType).__name__ == "VectorUDT":
                raise FeedError(
                    f"column {field.name!r} has vectors of Spark ML; turn them into arrays with "
                    "pyspark.ml.functions.vector_to_array"
                )
        for field in arrow_schema(chosen.schema):
            element_type(field)

    def prepare(self, order: Any, columns: Sequence[str] | None) -> int:
        """Prepares the jobs for tasks with this order. Returns the number of partitions. Raises
        the errors of Spark."""
        self._jobs = _jobs(self._data, self.is_frame, order, columns)
        return int(self._jobs.getNumPartitions())

    def run(self, partitions: Sequence[int], group: str, label: str) -> None:
        """Runs a job that sends these partitions. `group` and `label`: the id and the description
        of its job group. Raises the errors of Spark."""
        self.context.setJobGroup(group, label, interruptOnCancel=True)
        self.context.setLocalProperty("callSite.short", label)  # the name of the job
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


def infer(
    order_of: Callable[[Any], FeedOrder], data: Any, schema: str, columns: Sequence[str] | None
) -> Any:
    """Implements `Application.infer`: a job whose tasks ask the programs. `order_of`: that of the
    `Feeder`."""
    source = FedData(data)
    source.check(columns)
    order = order_of(source.context)
    if not source.is_frame:
        return data.mapPartitionsWithIndex(task(ask_elements, order, columns))
    from pyspark.sql.types import StructType, _parse_datatype_string

    wanted = _parse_datatype_string(schema)
    if not isinstance(wanted, StructType):
        raise FeedError(f'schema is {schema!r}; name the columns: "prediction int"')
    both = [name for name in wanted.names if name in data.columns]
    if both:
        raise FeedError(f"the data has a column {both[0]!r} already; call the answer otherwise")
    fields = StructType([*data.schema.fields, *wanted.fields])
    work = task(ask_frame, order, arrow_schema(wanted), columns, data.columns)
    return numbered(data).mapInArrow(work, fields)


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
        chosen = _select(data, columns)
        work = task(send_frame, order, chosen.columns)
        return numbered(chosen).mapInArrow(work, "rows long").rdd
    loads = _loads(data)
    elements = data if loads is None else pickles_of(data)
    return elements.mapPartitionsWithIndex(task(send_elements, order, columns, loads))


def _select(frame: Any, columns: Sequence[str] | None) -> Any:
    """These columns of a DataFrame, None for all. A dot in a name has no meaning."""
    return frame.select(*("`" + name.replace("`", "``") + "`" for name in columns or frame.columns))


def numbered(frame: Any) -> Any:
    """The DataFrame with numbers as the names of its columns: mapInArrow takes a dot in a name for
    a field of a struct. The task names them as before, see tfapp.feed.task.sender.named."""
    return frame.toDF(*map(str, range(len(frame.columns))))


def arrow_schema(schema: Any) -> pa.Schema:
    """The Arrow schema of a Spark schema. FeedError for a type that needs more to be known, such as
    a time zone, or that Arrow does not have."""
    from pyspark.sql.pandas.types import to_arrow_type

    fields = []
    for field in schema.fields:
        try:
            fields.append(pa.field(field.name, to_arrow_type(field.dataType), field.nullable))
        except Exception as error:  # AssertionError and several of Spark's own
            raise FeedError(no_tensor(field.name, field.dataType.simpleString())) from error
    return pa.schema(fields)


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
