"""What is said of Spark's exceptions."""

from __future__ import annotations

import pytest

from tfapp.engines.spark.session import first_words, given_up

ABORTED = (
    "Job aborted due to stage failure: Task 0 in stage 7.0 failed 4 times, most recent failure: "
    "Lost task 0.3 in stage 7.0 (TID 12) (198.51.100.7 executor 1): "
)


class JavaError(Exception):
    """As py4j raises it."""

    def __init__(self, text: str):
        super().__init__("an error occurred while calling o7")
        self.java_exception = self
        self._text = text

    def getMessage(self) -> str:
        return self._text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Job 3 cancelled because of me\n\tat a\n", "Job 3 cancelled because of me"),
        (
            f'{ABORTED}java.io.IOException: Cannot run program "python3": error=2\n\tat a\n',
            'java.io.IOException: Cannot run program "python3": error=2',
        ),
        (
            f"{ABORTED}org.apache.spark.SparkException: \nError from python worker:\n  no disk\n"
            "PYTHONPATH was:\n  a.zip\n\tat a\n",
            "org.apache.spark.SparkException: Error from python worker: no disk",
        ),
        (
            f"{ABORTED}org.apache.spark.api.python.PythonException: Traceback (most recent call "
            'last):\n  File "w.py", line 2\n    main()\nValueError: bad\n\tat a\nDriver stack:',
            "ValueError: bad",
        ),
    ],
)
def test_first_words(text, words):
    assert first_words(JavaError(text)) == words


def test_first_words_of_little():
    assert first_words(JavaError("")) == "JavaError"
    assert first_words(ValueError("no")) == "no"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (JavaError("Job 3 cancelled because SparkContext was shut down"), False),
        (JavaError(f"{ABORTED}ExecutorLostFailure (executor 1 exited)"), False),
        (JavaError(f"{ABORTED}java.io.IOException: Cannot run program"), True),
        (TypeError("cannot pickle 'generator' object"), True),
    ],
)
def test_a_task_that_can_run_nowhere(error, expected):
    assert given_up(error) is expected
