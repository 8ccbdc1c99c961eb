"""The API in a program: its context `ctx`, and `DataFeed`, which reads the rows of the feed."""

from __future__ import annotations

import argparse
import contextlib
import functools
import getpass
import os
import pickle
import posixpath
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tfapp.errors import FeedError, ProgramError

if TYPE_CHECKING:
    from tfapp.feed.program.receiver import Arrays, Question
    from tfapp.program.context import Context

AHEAD = 64  # least number of rows that are taken from the feed at once

ROLES = ("ps", "chief", "evaluator", "worker")  # in the order of `executor_id`
Node = TypeVar("Node")

_VALUE = "value"  # the column of elements that are a number, a text or a list of numbers


class Place(NamedTuple):
    """Settings of the driver that its programs need. `master`: the driver's name for the chief, ""
    for none."""

    default_fs: str
    working_dir: str
    master: str


class Namespace(argparse.Namespace):
    """The arguments of a program, from a dictionary or another namespace, and from keywords. From a
    list, as of a command line, it has `argv` alone, which is None otherwise."""

    argv: list[str] | None = None

    def __init__(self, given: Any = None, **more: Any):
        if isinstance(given, list):
            given = {"argv": given}
        values = given if isinstance(given, Mapping) else vars(given) if given is not None else {}
        super().__init__(**values, **more)

    def __iter__(self) -> Iterator[str]:
        return iter(self.argv or vars(self))


class TFNodeContext:
    """The argument `ctx` of a program. `executor_id`, `worker_num`: the program's number in the
    cluster, from 0, see `in_order`. `job_name`, `task_index`: its role and its number in this role.
    `cluster_spec`: {job name: ["host:port", ...]}. `num_workers`: the number of workers, including
    the chief. `defaultFS`, `working_dir`: those of the driver. `mgr`: the argument of `DataFeed`.
    `tmp_socket`: None, because tfapp holds the port outside of the program."""

    tmp_socket = None

    def __init__(self, context: Context, place: Place):
        self.mgr = context
        self.defaultFS, self.working_dir = place.default_fs, place.working_dir
        names = {"chief": place.master} if place.master else {}
        self.job_name = names.get(context.component, context.component)
        self.task_index = context.task[1] if context.task else context.index
        self.cluster_spec = {
            names.get(role, role): list(addresses) for role, addresses in context.cluster.items()
        }
        evaluators = [f"{m.host}:0" for m in context.members if m.role == "evaluator"]
        if evaluators:  # which only its own TF_CONFIG has
            self.cluster_spec.setdefault("evaluator", evaluators)
        self.num_workers = sum(m.role in ("chief", "worker") for m in context.members)
        order = [member.instance for member in in_order(context.members, lambda one: one.role)]
        self.executor_id = self.worker_num = (
            order.index(context.instance) if context.instance in order else 0
        )

    def absolute_path(self, path: str) -> str:
        return hdfs_path(self, path)

    def get_data_feed(
        self,
        train_mode: bool = True,
        qname_in: str = "input",
        qname_out: str = "output",
        input_mapping: Mapping[str, str] | None = None,
    ) -> DataFeed:
        return DataFeed(self.mgr, train_mode, qname_in, qname_out, input_mapping)

    def release_port(self) -> None:
        """Has no effect: tfapp holds the port until TensorFlow binds it."""

    def start_cluster_server(self, *_: Any, **__: Any) -> None:
        start_cluster_server()

    def export_saved_model(self, *_: Any, **__: Any) -> None:
        export_saved_model()


class DataFeed:
    """Reads the rows that `TFCluster.train` feeds, or those of `TFCluster.inference`, which need
    results.

    `mgr`: `ctx.mgr`. `train_mode`, `qname_in` and `qname_out` have no effect. `input_mapping`:
    {column: name of its array in `next_batch`}. If the rows have no column names, their columns are
    those of `input_mapping` in alphabetical order."""

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
        self._returned = 0  # rows of `TFCluster.train`
        self._kept: Arrays | None = None  # rows taken from the feed, not yet returned
        self._question: Question | None = None
        self._left = 0  # rows of the question that were not returned yet
        self._owed = 0  # rows that were returned and have no result yet
        self._answers: list[Any] = []

    def next_batch(self, batch_size: int) -> Any:
        """Waits for and returns the next `batch_size` rows. There may be fewer at the end of the
        feed, and for inference; after the end there are none. The result is a list of rows, or
        {name: array of shape (rows, ...)} with an `input_mapping`.

        Elements of an RDD that are numbers or texts are returned as they are, lists of numbers as
        NumPy arrays. A row of a DataFrame, a tuple or a dictionary is a tuple, whose items also
        have names: row[0], row["image"], row.image. If elements of an RDD make no tensors, or not
        all of the same shape, these are returned as they are (Rows and named tuples with names as
        above), or in lists with an `input_mapping`.

        Raises ProgramError for a `batch_size` below 1 and for an unknown column in
        `input_mapping`; `tfapp.errors.FeedError` if the feed has failed."""
        if batch_size < 1:
            raise ProgramError(f"batch_size is {batch_size}", "It is 1 or more.")
        parts = self._taken(batch_size)
        if self._mapping is not None:
            return _mapped(parts, self._mapping)
        return [row for part in parts for row in _rows(part)]

    @property
    def done_feeding(self) -> bool:
        return self.should_stop()

    def should_stop(self) -> bool:
        """Whether the feed has ended, so that `next_batch` returns no more rows."""
        return self._over

    def batch_results(self, results: Iterable[Any]) -> None:
        """Returns the results of inference for the rows of the last `next_batch`: one for each row,
        in the same order. `results`: objects that can be pickled, or an array or tensor of the
        shape (rows, ...)."""
        question = self._question
        results = [_without_tensorflow(one) for one in _without_tensorflow(results)]
        if len(results) > self._owed or question is None:
            self._refuse(f"the program gave {len(results)} results for {self._owed} rows")
            return
        self._owed -= len(results)
        self._answers += results
        if not self._owed and not self._left:
            self._reply(question, self._answers)

    def state(self) -> tuple[int, int, int]:
        """Returns the position in the feed after the rows that `next_batch` has returned, three
        integers for the checkpoint of this program."""
        return self._feed.state(self._returned)

    def restore(self, state: Sequence[int]) -> None:
        """Continues the feed after `state`, so that the model gets each row exactly once. All
        programs must call it before `next_batch`, with the state of the same checkpoint."""
        self._feed.restore(state)

    def terminate(self) -> None:
        """Stops the feed for all programs, after the same number of rows for each. FeedError if the
        feed has failed."""
        if not self._over:
            self._over, self._kept = True, None
            self._feed.stop()

    def _taken(self, count: int) -> list[Arrays]:
        if self._owed:
            self._refuse(f"the program left {self._owed} of its rows without a result")
        parts: list[Arrays] = []
        while count and not self._over:
            if self._question is not None:
                if not parts:
                    return [self._asked(self._question, count)]
                break
            if self._kept is None:
                self._keep(self._feed.next(max(count, AHEAD), objects=True))
            elif (length := _length(self._kept)) <= count:
                parts.append(self._kept)
                self._kept = None
                count -= length
            else:
                parts.append(_slice(self._kept, 0, count))
                self._kept = _slice(self._kept, count, length)
                count = 0
        self._returned += sum(map(_length, parts))
        return parts

    def _keep(self, found: Arrays | Question | None) -> None:
        if found is None:
            self._over = True
        elif isinstance(found, tuple):
            self._question, self._left = found, found.rows
        else:
            self._kept = found

    def _asked(self, question: Question, count: int) -> Arrays:
        """Up to `count` rows of the question that were not returned yet."""
        first = question.rows - self._left
        taken = min(count, self._left)
        self._left -= taken
        self._owed += taken
        return _slice(question.arrays, first, first + taken)

    def _reply(self, question: Question, answers: Sequence[Any]) -> None:
        self._question, self._answers = None, []
        with contextlib.suppress(OSError):  # the task is gone; its next attempt asks again
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
    """A tuple whose items can also be read by name: row["image"], row.image."""

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


def _without_tensorflow(value: Any) -> Any:
    """A tensor as an array or a number, anything else as it is."""
    import numpy as np

    is_tensor = hasattr(value, "__array__") and not isinstance(value, np.generic)
    return np.asarray(value)[()] if is_tensor else value


def _rows(arrays: Arrays) -> list[Any]:
    from tfapp.feed.columns import PICKLES, is_pickled

    if is_pickled(arrays):
        found = map(pickle.loads, arrays[PICKLES])
        return [values if names is None else _row_type(names)(values) for names, values in found]
    if list(arrays) == [_VALUE]:
        return list(arrays[_VALUE])
    make = _row_type(tuple(arrays))
    return [make(values) for values in zip(*arrays.values())]


def _mapped(parts: Sequence[Arrays], mapping: Mapping[str, str]) -> dict[str, Any]:
    import numpy as np

    from tfapp.feed.columns import is_pickled

    if any(map(is_pickled, parts)):
        rows = [row for part in parts for row in _rows(part)]
        return {
            name: [_item(row, column, place) for row in rows]
            for place, (column, name) in enumerate(mapping.items())
        }
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


def _item(row: Any, column: str, place: int) -> Any:
    names = row if isinstance(row, Mapping) else getattr(row, "names", ())
    return row[column if column in names else place]


def _length(arrays: Arrays) -> int:
    return len(next(iter(arrays.values())))


def _slice(arrays: Arrays, first: int, end: int) -> Arrays:
    return {name: values[first:end] for name, values in arrays.items()}


def release_port(ctx: TFNodeContext) -> None:
    """Has no effect, as `ctx.release_port()`."""


def start_cluster_server(*_: Any, **__: Any) -> None:
    """Raises ProgramError: it is for TensorFlow 1."""
    raise ProgramError(
        "start_cluster_server is for TensorFlow 1",
        "Use a tf.distribute strategy: TF_CONFIG is set.",
    )


def export_saved_model(*_: Any, **__: Any) -> None:
    """Raises ProgramError: it is for TensorFlow 1."""
    raise ProgramError(
        "export_saved_model of ctx and of TFNode is for TensorFlow 1",
        "Use compat.export_saved_model(model, export_dir, is_chief).",
    )


def in_order(nodes: Iterable[Node], role_of: Callable[[Node], str]) -> list[Node]:
    """The nodes of a cluster by their `executor_id`: parameter servers, the chief, the evaluator,
    the workers. Others are left out."""
    found = [node for node in nodes if role_of(node) in ROLES]
    return sorted(found, key=lambda node: ROLES.index(role_of(node)))


def hdfs_path(ctx: Any, path: str) -> str:
    """The URL of `path`. A path with a scheme is returned as it is. An absolute path is one of the
    driver's default file system. A relative path is below the user's home on that file system, or
    below the driver's working directory if that file system is the local one."""
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
    """The program of all components of `TFCluster.run`: calls `map_fun`. If `tf_args` is a list, it
    becomes sys.argv too."""
    if isinstance(tf_args, list):
        sys.argv = list(tf_args)
    return map_fun(tf_args, TFNodeContext(context, place))


def call_alone(map_fun: Callable[..., Any], tf_args: Any, place: Place, context: Context) -> Any:
    """The program of `TFParallel.run`: calls `map_fun` without TF_CONFIG, so that it runs alone."""
    os.environ.pop("TF_CONFIG", None)
    return call(map_fun, tf_args, place, context)
