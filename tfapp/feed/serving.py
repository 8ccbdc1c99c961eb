"""Answers the questions of Spark tasks in the program: see tfapp.feed.inference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tfapp.errors import FeedError
from tfapp.feed.columns import ANSWER
from tfapp.feed.receiver import Receiver


def serve(receiver: Receiver, answer: Callable[[Any], Any]) -> None:
    """Implements `Feed.serve`."""
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
