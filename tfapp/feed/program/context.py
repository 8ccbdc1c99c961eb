"""The feed in a program: `context.feed`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfapp.errors import FeedError, ProgramError
from tfapp.feed.wire import Credentials

if TYPE_CHECKING:
    import tensorflow as tf

    from tfapp.feed.program.receiver import Arrays, Question, Receiver

VARIABLE = "FEED_CREDENTIALS"  # the feed's credentials
DRIVER_GONE = ".tfapp-feed-driver-gone"  # a file in the instance's folder
EXPORT = "feed"  # the export with the port, in the group that has the component's name
_ANY = "rows one by one"  # what a program asks for that uses `next`


class Feed:
    """The rows that the driver feeds to this program: the driver calls `app.feed(data)`, and the
    program reads `dataset`. All programs of the application get the same number of batches."""

    def __init__(self, address: str, credentials: str, folder: Path):
        """`address`: the feed address (host:port) that this instance exports, "" for none.
        `folder`: a folder that this instance keeps over its generations."""
        self._address, self._credentials, self._folder = address, credentials, folder
        self._lock, self._asking = threading.Lock(), threading.Lock()
        self._receiver: Receiver | None = None
        self._restored: tuple[int, ...] | None = None
        self._asked: tuple[Any, ...] | str | None = None

    def dataset(
        self,
        batch_size: int,
        columns: str | Sequence[str] | None = None,
        *,
        shuffle: int = 0,
    ) -> tf.data.Dataset:
        """Returns a `tf.data.Dataset` of batches of `batch_size` rows, which ends when the driver
        has fed all rows. It can be iterated once. Waits until the driver feeds. Before the first
        batch is read, further calls with the same arguments return the same rows.

        `columns`: None for a dictionary of all columns by name; a list of names for a dictionary of
        these; a tuple of names, such as ("image", "label") for Keras, for tuples of tensors; one
        name for its tensor alone. Tensors have the type of the DataFrame's column and the shape
        (batch_size, ...). `shuffle`: the number of rows that are shuffled together.

        With a distribution strategy, call it in `strategy.distribute_datasets_from_function`, or
        give the dataset to `model.fit`, which divides each batch by the number of workers.

        Raises ProgramError if the application has no feed, or if the feed is being read already.
        Iterating raises
        `tfapp.errors.FeedError` if the feed has failed."""
        import tensorflow as tf

        features = self._ready(batch_size, columns, shuffle)
        specs = {
            each.name: tf.TensorSpec((None, *each.shape), tf.as_dtype(each.dtype))
            for each in features
        }
        if not specs:  # nothing was fed, so the types are not known
            names = [columns] if isinstance(columns, str) else columns or ()
            specs = {name: tf.TensorSpec(None, tf.float32) for name in names}

        def generate() -> Iterator[Any]:
            while (found := self._open().take()) is not None:
                yield _shaped({name: found[name] for name in specs}, columns)

        made = tf.data.Dataset.from_generator(generate, output_signature=_shaped(specs, columns))
        # Each program gets its own rows, so tf.data must not divide them among the programs.
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        return made.with_options(options)

    def batches(
        self,
        batch_size: int,
        columns: Sequence[str] | None = None,
        *,
        shuffle: int = 0,
    ) -> Iterator[Arrays]:
        """Like `dataset`, without TensorFlow: an iterator of {column: NumPy array of the shape
        (batch_size, ...)}."""
        self._ready(batch_size, columns, shuffle)
        return iter(self._open().take, None)

    def next(self, most: int, objects: bool = False) -> Arrays | Question | None:
        """Waits for and returns what the driver sends next: {column: array} of up to `most` rows of
        `app.feed`, as many as have arrived; or a question, with rows of `app.infer`; or None at the
        end. All programs get the same number of rows. For programs that do not use `dataset`,
        `batches` or `serve`. `objects`: whether elements of an RDD that make no tensors may come
        as pickles, in a column of their own: see tfapp.feed.task.rows.Elements."""
        receiver = self._open()
        with self._asking:
            if self._is_new(_ANY):
                receiver.announce(1, None, 1, self._restored, objects)
                receiver.asks()
                self._asked = _ANY
        return receiver.next(most)

    def state(self, batches: int | None = None) -> tuple[int, int, int]:
        """Returns the position of this program in the feed, three integers for its checkpoint.
        `batches`: the number of batches that the model was trained with; by default all that were
        taken, which may be more, because datasets prefetch."""
        return self._open().state(batches)

    def restore(self, state: Sequence[int]) -> None:
        """Continues the feed after `state`, so that the model gets each row exactly once. All
        programs must call it before `dataset`, with the state of the same checkpoint. ProgramError
        if the feed is being read already."""
        if self._asked is not None:
            raise ProgramError("the feed was begun already", "Call restore before dataset.")
        self._restored = tuple(int(one) for one in state)

    def stop(self) -> None:
        """Stops the feed, and waits until the driver knows. The driver cancels Spark's job at once.
        The other programs may still get batches, until all programs have had the same number.
        `tfapp.errors.FeedError` if the feed has failed."""
        self._open().stop()

    def serve(self, answer: Callable[[Arrays], Any]) -> None:
        """Answers the questions of the driver's `app.infer` until the driver ends them. `answer` is
        called with {column: array} of some rows. It returns an array, or {column: array}, with one
        result for each row."""
        receiver = self._open()
        receiver.asks()
        while (question := receiver.question()) is not None:
            try:
                question.reply(_answered(answer(question.arrays), question.rows))
            except FeedError as error:
                question.refuse(str(error))
            except OSError:
                continue  # the task is gone

    def _ready(
        self, batch_size: int, columns: str | Sequence[str] | None, shuffle: int
    ) -> tuple[Any, ...]:
        if batch_size < 1:
            raise ProgramError(f"batch_size is {batch_size}", "It is 1 or more.")
        names = [columns] if isinstance(columns, str) else columns
        receiver = self._open()
        asked = batch_size, names and tuple(names), shuffle
        with self._asking:
            is_new = self._is_new(asked)
            if receiver.is_read:
                raise ProgramError(
                    "the feed is being read already, and its rows come once",
                    "Read all batches from the dataset that has given the first.",
                )
            if is_new:
                receiver.announce(batch_size, names, shuffle, self._restored)
                self._asked = asked
        return receiver.features()

    def _is_new(self, asked: tuple[Any, ...] | str) -> bool:
        """Whether the program asks for the first time. ProgramError if it has asked for anything
        else before."""
        if self._asked is not None and self._asked != asked:
            raise ProgramError(
                f"the feed was asked for {self._asked}, and now for {asked}",
                "A program reads one feed in one way.",
            )
        return self._asked is None

    def _open(self) -> Receiver:
        with self._lock:
            if self._receiver is None:
                if not self._address or not self._credentials:
                    raise ProgramError(
                        "this program is fed by nobody",
                        "Submit it with tfapp.submit(..., feed=True), and call feed(data) of what "
                        "that returns.",
                    )
                try:
                    from tfapp.feed.program.receiver import Receiver
                except ModuleNotFoundError as error:
                    raise ProgramError(
                        f"the feed needs {error.name}, which is not installed here",
                        'Add it with packages=["pyarrow"].',
                    ) from None
                credentials = Credentials.unpacked(self._credentials)
                port = int(self._address.rpartition(":")[2])
                self._receiver = Receiver(port, credentials, self._folder / DRIVER_GONE)
            return self._receiver


def _shaped(values: dict[str, Any], columns: str | Sequence[str] | None) -> Any:
    """The values by column as a program has asked for them, see `Feed.dataset`."""
    if isinstance(columns, str):
        return values[columns]
    if isinstance(columns, tuple):
        return tuple(values[name] for name in columns)
    return values


def _answered(found: Any, rows: int) -> Mapping[str, Any]:
    """The answers to a question by column. FeedError if there is not one for each row."""
    import numpy as np

    from tfapp.feed.columns import ANSWER

    columns = found if isinstance(found, Mapping) else {ANSWER: found}
    arrays = {name: np.asarray(values) for name, values in columns.items()}
    for name, values in arrays.items():
        count = len(values) if values.ndim else 0
        if count != rows:
            which = f" in {name!r}" if isinstance(found, Mapping) else ""
            raise FeedError(f"the program gave {count} results{which} for {rows} rows")
    return arrays
