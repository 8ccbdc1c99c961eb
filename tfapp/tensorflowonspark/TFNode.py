"""In a program: its context, and the rows that it is fed."""

from __future__ import annotations

import argparse
import contextlib
import functools
import getpass
import os
import posixpath
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tfapp.errors import ProgramError

if TYPE_CHECKING:
    from tfapp.feed.receiver import Arrays, Question
    from tfapp.program.context import Context

AHEAD = 64  # rows that are taken at once, where a program asks for fewer

_VALUE = "value"  # the column of an element that is one number, text or list of numbers


class Place(NamedTuple):
    """What the driver tells its programs. `master`: its name for the chief, "" for none."""

    default_fs: str
    working_dir: str
    master: str


class Namespace(argparse.Namespace):
    """Arguments of a program: of a dictionary, of another namespace, or of keywords."""

    def __init__(self, given: Any = None, **more: Any):
        values = given if isinstance(given, Mapping) else vars(given) if given is not None else {}
        super().__init__(**values, **more)

    def __iter__(self) -> Iterator[str]:
        return iter(vars(self))


class TFNodeContext:
    """What a program gets as `ctx`: `executor_id` or `worker_num`, its
    number in the cluster; `job_name`,
    `task_index`; `cluster_spec`, {job name: ["host:port", ...]}; `num_workers`, with the chief;
    `defaultFS`, `working_dir` of the driver; `mgr`, for `DataFeed`."""

    def __init__(self, context: Context, place: Place):
        self.mgr = context
        self.defaultFS, self.working_dir = place.default_fs, place.working_dir
        names = {"chief": place.master} if place.master else {}
        self.job_name = names.get(context.component, context.component)
        self.task_index = context.index
        self.cluster_spec = {
            names.get(role, role): list(addresses) for role, addresses in context.cluster.items()
        }
        self.num_workers = sum(m.role in ("chief", "worker") for m in context.members)
        order = [member.instance for member in context.members]
        self.executor_id = self.worker_num = (
            order.index(context.instance) if context.instance in order else 0
        )

    def absolute_path(self, path: str) -> str:
        """See `hdfs_path`."""
        return hdfs_path(self, path)

    def get_data_feed(
        self,
        train_mode: bool = True,
        qname_in: str = "input",
        qname_out: str = "output",
        input_mapping: Mapping[str, str] | None = None,
    ) -> DataFeed:
        """See `DataFeed`."""
        return DataFeed(self.mgr, train_mode, qname_in, qname_out, input_mapping)

    def release_port(self) -> None:
        """Nothing: tfapp holds the port until TensorFlow has it."""

    def start_cluster_server(self, *_: Any, **__: Any) -> None:
        """There is none since TensorFlow 2."""
        raise ProgramError(
            "start_cluster_server is for TensorFlow 1",
            "Use a tf.distribute strategy: TF_CONFIG is set.",
        )

    def export_saved_model(self, *_: Any, **__: Any) -> None:
        """There is none since TensorFlow 2."""
        raise ProgramError(
            "ctx.export_saved_model is for TensorFlow 1",
            "Use compat.export_saved_model(model, export_dir, is_chief).",
        )


class DataFeed:
    """Rows from `TFCluster.train`, or from `TFCluster.inference`, which wants results.

    `mgr`: `ctx.mgr`. `train_mode` has no meaning: rows know what they are for. `input_mapping`:
    column -> the name of its values in `next_batch`; of rows without names the columns are these
    in their alphabetical order."""

    def __init__(
        self,
        mgr: Context,
        train_mode: bool = True,
        qname_in: str = "input",
        qname_out: str = "output",
        input_mapping: Mapping[str, str] | None = None,
    ):
        self._feed = mgr.feed
        self._mapping = dict(sorted(input_mapping.items())) if input_mapping else None
        self._over = False
        self._kept: Arrays | None = None  # rows that were not asked for yet
        self._question: Question | None = None
        self._left = 0  # rows of the question that the program has not got
        self._owed = 0  # answers to the rows that it has got
        self._answers: list[Any] = []

    def next_batch(self, batch_size: int) -> Any:
        """The next `batch_size` rows, or fewer at the end; without any at the end of the feed. A
        list of rows, or {name: array} where there is an `input_mapping`. A batch for inference
        ends with its partition's rows at hand.

        An element of an RDD that is a number, a text or a list of numbers comes as such (lists as
        arrays of NumPy), any other as a tuple of its items, which also knows their names:
        row[0], row["image"], row.image."""
        if batch_size < 1:
            raise ProgramError(f"batch_size is {batch_size}", "It is 1 or more.")
        parts = self._taken(batch_size)
        if self._mapping is not None:
            return _mapped(parts, self._mapping)
        return [row for part in parts for row in _rows(part)]

    def should_stop(self) -> bool:
        """Whether no row will come any more."""
        return self._over

    def batch_results(self, results: Sequence[Any]) -> None:
        """Answers the rows of the last `next_batch`, one result for each, in their order."""
        question = self._question
        if len(results) > self._owed or question is None:
            self._refuse(f"the program gave {len(results)} results for {self._owed} rows")
            return
        self._owed -= len(results)
        self._answers += results
        if not self._owed and not self._left:
            self._reply(question, self._answers)

    def terminate(self) -> None:
        """This program wants no more rows: the feed ends for all, each with as many."""
        if not self._over:
            self._over, self._kept = True, None
            self._feed.stop()

    def _taken(self, count: int) -> list[Arrays]:
        if self._owed:
            self._refuse(f"the program left {self._owed} of its rows without a result")
        parts: list[Arrays] = []
        while count and not self._over:
            if self._question is not None:
                return parts or [self._asked(self._question, count)]
            if self._kept is None:
                self._keep(self._feed.next(max(count, AHEAD)))
            elif (length := _length(self._kept)) <= count:
                parts.append(self._kept)
                self._kept = None
                count -= length
            else:
                parts.append(_slice(self._kept, 0, count))
                self._kept = _slice(self._kept, count, length)
                count = 0
        return parts

    def _keep(self, found: Arrays | Question | None) -> None:
        if found is None:
            self._over = True
        elif isinstance(found, tuple):
            self._question, self._left = found, found.rows
        else:
            self._kept = found

    def _asked(self, question: Question, count: int) -> Arrays:
        """Rows of a question that have not been handed out."""
        first = question.rows - self._left
        taken = min(count, self._left)
        self._left -= taken
        self._owed += taken
        return _slice(question.arrays, first, first + taken)

    def _reply(self, question: Question, answers: Sequence[Any]) -> None:
        from tfapp.errors import FeedError

        self._question, self._answers = None, []
        with contextlib.suppress(OSError):  # the task is gone, and asks again elsewhere
            try:
                question.reply_values(answers)
            except FeedError as error:
                question.refuse(str(error))

    def _refuse(self, words: str) -> None:
        if self._question is not None:
            with contextlib.suppress(OSError):
                self._question.refuse(words)
        self._question, self._answers, self._left, self._owed = None, [], 0, 0


class Row(tuple[Any, ...]):
    """A tuple that knows the names of its items."""

    names: tuple[str, ...] = ()

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            try:
                return super().__getitem__(self.names.index(key))
            except ValueError:
                raise KeyError(key) from None
        return super().__getitem__(key)

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


@functools.cache
def _row_type(names: tuple[str, ...]) -> type[Row]:
    return type("Row", (Row,), {"names": names})


def _rows(arrays: Arrays) -> list[Any]:
    if list(arrays) == [_VALUE]:
        return list(arrays[_VALUE])
    make = _row_type(tuple(arrays))
    return [make(values) for values in zip(*arrays.values())]


def _mapped(parts: Sequence[Arrays], mapping: Mapping[str, str]) -> dict[str, Any]:
    import numpy as np

    found: dict[str, Any] = {}
    for place, (column, name) in enumerate(mapping.items()):
        columns = []
        for part in parts:
            if column in part:
                columns.append(part[column])
            elif str(place) in part:
                columns.append(part[str(place)])
            elif list(part) == [_VALUE]:  # a list of numbers: each is a column
                columns.append(part[_VALUE][:, place] if len(mapping) > 1 else part[_VALUE])
            else:
                raise ProgramError(
                    f"input_mapping names the column {column!r}",
                    f"The rows have {', '.join(part)}.",
                )
        found[name] = np.concatenate(columns) if columns else np.empty(0)
    return found


def _length(arrays: Arrays) -> int:
    return len(next(iter(arrays.values())))


def _slice(arrays: Arrays, first: int, end: int) -> Arrays:
    return {name: values[first:end] for name, values in arrays.items()}


def hdfs_path(ctx: Any, path: str) -> str:
    """`path` as the driver means it: one with a scheme as it is, an absolute one on its default
    file system, any other in the user's home there or, where that is the local one, in the
    driver's working directory."""
    if "://" in path or path.startswith("file:"):
        return path
    local = ctx.defaultFS.startswith("file:")
    if path.startswith("/"):
        return path if local else ctx.defaultFS + path
    if local:
        return f"file://{posixpath.join(ctx.working_dir, path)}"
    user = os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
    return f"{ctx.defaultFS}/user/{user}/{path}"


def call(map_fun: Callable[..., Any], tf_args: Any, place: Place, context: Context) -> Any:
    """What a component of `TFCluster.run` runs. `tf_args` that are a list are sys.argv too."""
    if isinstance(tf_args, list):
        sys.argv = list(tf_args)
    return map_fun(tf_args, TFNodeContext(context, place))


def call_alone(map_fun: Callable[..., Any], tf_args: Any, place: Place, context: Context) -> Any:
    """What an instance of `TFParallel.run` runs: one that knows of no cluster."""
    os.environ.pop("TF_CONFIG", None)
    return call(map_fun, tf_args, place, context)
