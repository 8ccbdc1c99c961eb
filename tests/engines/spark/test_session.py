"""What is said of Spark's exceptions."""

import signal
import sys
import threading
import types
from unittest import mock

import pytest

from tfapp.engines.spark import session
from tfapp.engines.spark.session import first_words, given_up, spare_own_jobs

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


class Jobs:
    """A SparkContext with running jobs: id -> name of its group, None for no group."""

    def __init__(self, jobs):
        self.jobs, self.cancelled = jobs, []
        self._jsc = types.SimpleNamespace(sc=lambda: self)

    def statusTracker(self):
        return types.SimpleNamespace(getActiveJobsIds=lambda: list(self.jobs))

    def statusStore(self):
        def job(id):
            return types.SimpleNamespace(jobGroup=lambda: Option(self.jobs[id]))

        return types.SimpleNamespace(job=job)

    def cancelJob(self, id):
        self.cancelled.append(id)


class Option:
    """As Scala's."""

    def __init__(self, value):
        self._value = value

    def isDefined(self):
        return self._value is not None

    def get(self):
        return self._value


@pytest.fixture
def sigint():
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("module", ["pyspark.context", "pyspark.core.context"])
def test_ctrl_c_cancels_the_jobs_of_others(sigint, module):
    """pyspark's handler, of 3.5 and of 4, cancels all: also containers, and feeds."""
    context = Jobs({1: "tfapp-worker_0", 2: None, 3: "tfapp-feed-7", 4: "mine", 5: "tfapp-look-1"})

    def handle(number, frame):
        context.cancelled += context.jobs
        raise KeyboardInterrupt

    handle.__module__ = module
    signal.signal(signal.SIGINT, handle)
    spare_own_jobs(context)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert context.cancelled == [2, 4]


def test_ctrl_c_of_others_stays_as_it_is(sigint):
    """That of Python, of a kernel, or of tfapp itself; and in another thread, which gets none."""
    for handler in (signal.default_int_handler, signal.SIG_IGN, lambda number, frame: None):
        signal.signal(signal.SIGINT, handler)
        spare_own_jobs(Jobs({}))
        assert signal.getsignal(signal.SIGINT) is handler
    handler.__module__ = "pyspark.context"
    thread = threading.Thread(target=spare_own_jobs, args=(Jobs({}),))
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.parametrize("own", [False, True], ids=["python's", "a command's"])
def test_a_session_that_is_opened_leaves_ctrl_c_to_a_command(sigint, monkeypatch, own):
    """That follows an application meanwhile, as `tfapp grid` does."""

    def cancel_all(number, frame):
        raise AssertionError

    class Context:
        master = "yarn"

        def __init__(self, conf):
            signal.signal(signal.SIGINT, cancel_all)

    conf = mock.MagicMock()
    monkeypatch.setitem(
        sys.modules, "pyspark", types.SimpleNamespace(SparkConf=conf, SparkContext=Context)
    )
    monkeypatch.setattr(session, "require_pyspark", lambda: None)
    monkeypatch.setattr(session, "checked", lambda context: context)
    before = (lambda number, frame: None) if own else signal.default_int_handler
    signal.signal(signal.SIGINT, before)
    session.open_context("app", "yarn", ())
    assert signal.getsignal(signal.SIGINT) is (before if own else cancel_all)


def test_ctrl_c_after_the_end_of_the_session(sigint):
    def handle(number, frame):
        raise AssertionError

    handle.__module__ = "pyspark.context"
    signal.signal(signal.SIGINT, handle)
    stopped = Jobs({})
    stopped._jsc = None
    spare_own_jobs(stopped)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
