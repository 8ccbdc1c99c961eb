"""What a program has of the feed: `context.feed`."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfapp.errors import ProgramError
from tfapp.feed.wire import Credentials

if TYPE_CHECKING:
    import tensorflow as tf

    from tfapp.feed.receiver import Arrays, Question, Receiver

VARIABLE = "FEED_CREDENTIALS"  # the feed's credentials
DRIVER_GONE = ".tfapp-feed-driver-gone"  # a file of the instance
EXPORT = "feed"  # the export with the port, in the group that has the component's name


class Feed:
    """Rows that the driver feeds to this program: `app.feed(data)` there, `dataset` here. Every
    program of the application gets as many batches as any other."""

    def __init__(self, address: str, credentials: str, folder: Path):
        """`address`: host:port that this instance exports, "" where it exports none. `folder`: of
        this instance, in all of its generations."""
        self._address, self._credentials, self._folder = address, credentials, folder
        self._lock = threading.Lock()
        self._receiver: Receiver | None = None
        self._restored: tuple[int, ...] | None = None
        self._asked: tuple[Any, ...] | None = None

    def dataset(
        self,
        batch_size: int,
        columns: str | Sequence[str] | None = None,
        *,
        shuffle: int = 0,
    ) -> tf.data.Dataset:
        """A `tf.data.Dataset` of batches of `batch_size` rows for this program, until the driver
        has fed all. It can be gone through once.

        `columns`: by default all, as a dictionary by name; a tuple of names gives tuples of
        tensors, ("image", "label") for Keras; a list gives a dictionary of those; one name gives
        its tensor alone. Tensors have the type of the DataFrame's column and the shape
        (batch_size, ...). `shuffle`: how many rows are shuffled together.

        Waits until the driver feeds. Under a strategy, make it inside
        `strategy.distribute_datasets_from_function`, or give it to `model.fit`, which divides
        each batch by the number of workers. ProgramError without a feed; while it is read,
        `tfapp.errors.FeedError` when the feed has failed."""
        from tfapp.feed.dataset import dataset

        features = self._ready(batch_size, columns, shuffle)
        return dataset(self._open(), features, columns)

    def batches(
        self,
        batch_size: int,
        columns: Sequence[str] | None = None,
        *,
        shuffle: int = 0,
    ) -> Iterator[Arrays]:
        """The same without TensorFlow: {column: array of NumPy}, (batch_size, ...)."""
        from tfapp.feed.receiver import batches

        self._ready(batch_size, columns, shuffle)
        return batches(self._open())

    def next(self, most: int) -> Arrays | Question | None:
        """What the driver sends next, in place of `dataset`, `batches` and `serve`: {column: array}
        of up to `most` rows of `app.feed`, as many as are there, or the rows of a question of
        `app.infer`; None when nothing comes any more. Every program gets as many rows as any
        other."""
        receiver = self._open()
        if self._asked is None:
            self._asked = 1, None, 0
            receiver.announce(1, None, 1, self._restored)
            receiver.asks()
        return receiver.next(most)

    def state(self, batches: int | None = None) -> tuple[int, int, int]:
        """Where this program is, three whole numbers for its checkpoint. `batches`: how many the
        model has learned from, by default all that were taken; data sets take some ahead."""
        return self._open().state(batches)

    def restore(self, state: Sequence[int]) -> None:
        """Goes on after `state`, which the model has learned from: no row is fed to it twice, and
        none is left out. To be called before `dataset`, by every program, with the state of the
        same checkpoint."""
        if self._asked is not None:
            raise ProgramError("the feed was begun already", "Call restore before dataset.")
        self._restored = tuple(int(one) for one in state)

    def stop(self) -> None:
        """This program wants no more: the driver ends Spark's job at once, and every program gets
        as many batches as any has by now."""
        self._open().stop()

    def serve(self, answer: Callable[[Arrays], Any]) -> None:
        """Answers `app.infer` of the driver until that ends: `answer` gets {column: array} of some
        rows, and returns an array, or {column: array}, with one result for each of them."""
        from tfapp.feed.serving import serve

        serve(self._open(), answer)

    def _ready(
        self, batch_size: int, columns: str | Sequence[str] | None, shuffle: int
    ) -> tuple[Any, ...]:
        if batch_size < 1:
            raise ProgramError(f"batch_size is {batch_size}", "It is 1 or more.")
        names = [columns] if isinstance(columns, str) else columns
        receiver = self._open()
        asked = batch_size, names and tuple(names), shuffle
        if self._asked is not None and self._asked != asked:
            raise ProgramError(
                f"the feed was asked for {self._asked}, and now for {asked}",
                "A program reads one feed in one way.",
            )
        self._asked = asked
        return receiver.ready(batch_size, names, shuffle, self._restored)

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
                    from tfapp.feed.receiver import Receiver
                except ModuleNotFoundError as error:
                    raise ProgramError(
                        f"the feed needs {error.name}, which is not installed here",
                        'Add it with packages=["pyarrow"].',
                    ) from None
                credentials = Credentials.unpacked(self._credentials)
                port = int(self._address.rpartition(":")[2])
                self._receiver = Receiver(port, credentials, self._folder / DRIVER_GONE)
            return self._receiver


def feed_of(environ: Mapping[str, str]) -> Feed:
    """The feed of the process whose environment it is."""
    file, address = environ.get("TFAPP_CLUSTER_FILE"), ""
    instance = environ.get("TFAPP_INSTANCE", "")
    if file:
        with open(file, "rb") as opened:
            members = json.load(opened)["members"]
        for member in members:
            if member["instance"] == instance:
                address = member["exports"].get(member["component"], {}).get(EXPORT, "")
    folder = Path(environ.get("TFAPP_WORK_DIR", "."))
    return Feed(address, environ.get(VARIABLE, ""), folder)
