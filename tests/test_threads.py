"""Threads that say why they end, or go on; and a process that has no room for them."""

import asyncio
import errno
import queue
import threading

import pytest

from tfapp import threads

PATIENCE = 60.0


@pytest.fixture(autouse=True)
def in_no_time(monkeypatch):
    monkeypatch.setattr(threads, "PAUSE", 0.0)
    monkeypatch.setattr(threads, "_said", {})


@pytest.fixture
def shortage(monkeypatch):
    """A function: the next `count` threads cannot be started."""
    left = [0]
    start = threading.Thread.start

    def refuse(thread):
        if left[0]:
            left[0] -= 1
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    return lambda count: left.__setitem__(0, count)


ERRORS = [ValueError("x"), RuntimeError("can't start new thread"), SystemExit(3), KeyError()]


@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_a_thread_that_ends_by_an_error_says_so_and_ends_what_depends_on_it(error, caplog):
    ended: queue.SimpleQueue = queue.SimpleQueue()

    def work(what):
        raise what

    threads.start("mine", work, error, failed=ended.put)
    assert ended.get(timeout=PATIENCE) is error
    (said,) = caplog.records
    assert said.getMessage() == f"mine: {error}"
    assert said.exc_info[1] is error


def test_no_room_for_a_thread_is_an_error_as_of_files(shortage):
    shortage(1)
    with pytest.raises(OSError, match="no thread can be started for mine") as raised:
        threads.start("mine", print)
    assert raised.value.errno == errno.EAGAIN


def test_what_must_run_waits_for_room(shortage):
    shortage(5)
    ran = threading.Event()
    threads.start_surely("mine", ran.set).join(PATIENCE)
    assert ran.is_set()


def test_what_is_kept_goes_on_after_errors_and_says_each_once_in_a_while(caplog):
    left = [KeyError("a"), *([ValueError("b")] * 1000)]

    def work():
        if left:
            raise left.pop()

    threads.keep("mine", work).join(PATIENCE)
    assert left == []
    assert [record.getMessage() for record in caplog.records] == ["mine: b", "mine: 'a'"]


def test_an_alarm_may_be_called_off():
    called: queue.SimpleQueue = queue.SimpleQueue()
    threads.after(3600.0, "mine", lambda: called.put("late"))()
    threads.after(0.0, "mine", lambda: called.put("soon"))
    assert called.get(timeout=PATIENCE) == "soon"
    assert called.empty()


def test_a_call_out_of_an_event_loop_is_made_once_whatever_the_room(shortage):
    made = []

    async def run():
        shortage(3)
        assert await threads.in_thread(lambda a: made.append(a) or a + 1, 1) == 2
        with pytest.raises(KeyError):
            await threads.in_thread({}.__getitem__, "x")

    asyncio.run(run())
    assert made == [1]


def test_calls_out_of_an_event_loop_are_not_too_many_at_once():
    most, now = 0, 0
    lock = threading.Lock()

    def work():
        nonlocal most, now
        with lock:
            now += 1
            most = max(most, now)
        with lock:
            now -= 1

    async def run():
        await asyncio.gather(*(threads.in_thread(work) for _ in range(3 * threads.AT_ONCE)))

    asyncio.run(run())
    assert (0 < most <= threads.AT_ONCE, now) == (True, 0)


def test_a_call_that_nobody_waits_for_any_more_disturbs_nobody(caplog):
    go = threading.Event()

    async def run():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(threads.in_thread(go.wait, PATIENCE), 0.01)
        go.set()

    asyncio.run(run())
    assert caplog.records == []
