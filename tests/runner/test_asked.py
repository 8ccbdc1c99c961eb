"""What is asked of a runner while its program runs."""

import queue
import threading

from tests.runner.driving import PATIENCE, eventually
from tfapp.runner.asked import Asked


def test_requests_are_answered_in_their_order_and_not_without_end():
    go, told = threading.Event(), queue.SimpleQueue()

    def look(request):
        go.wait(PATIENCE)
        if request == "0":
            raise OSError("it failed")
        return None if request == "1" else request

    asked = Asked("a test", look, told.put)
    for number in range(50):
        asked.ask(str(number))
    go.set()
    assert told.get(timeout=PATIENCE) == "2"
    eventually(lambda: asked._requests.empty(), "all are answered")
    asked.ask("last")
    answered = []
    while not answered or answered[-1] != "last":
        answered.append(told.get(timeout=PATIENCE))
    assert len(answered) < 8
