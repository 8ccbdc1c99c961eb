import ctypes
import os
import platform
import struct
import threading

import pytest

from tfapp.storage import library

Called = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 5)
SetStatus = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
here = pytest.mark.skipif(
    platform.machine() not in library.PROCESSORS, reason="this machine is of another kind"
)


class Loaded:
    """A library with an entry, a function with a status, one without, and a copy of a string."""

    def __init__(self, function):
        self.statuses, self.gate = [], library.Gate()
        self._kept = Called(function), SetStatus(lambda *status: self.statuses.append(status))
        function, set_status = map(library.address, self._kept)
        processor = library.PROCESSORS[platform.machine()]
        guarded = (processor.guarded(function, n, self.gate, set_status) for n in (4, 2, None))
        strdup = library.address(ctypes.PyDLL(None).strdup)
        parts = [processor.entry(function), *guarded, processor.duplicate(strdup)]
        content, distances = library.library(processor.machine, parts, b"an_entry")
        descriptor = os.memfd_create("test")  # stays open, so that its path is its own
        os.write(descriptor, content)
        self.loaded = ctypes.CDLL(f"/proc/self/fd/{descriptor}")
        begin = library.address(self.loaded.an_entry)
        places = [begin + distance for distance in distances]
        self.entry, self.last, self.third, self.without = map(Called, places[:4])
        self.duplicate = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p, ctypes.c_char_p)(
            places[4]
        )


@here
def test_calls_come_through_until_the_gate_is_closed():
    seen = []

    def function(*arguments):
        seen.append((arguments, loaded.gate.inside))
        return 7

    loaded = Loaded(function)
    every = (loaded.entry, loaded.last, loaded.third, loaded.without)
    assert [call(1, 2, 3, 4, 5) for call in every] == [7, 7, 7, 7]
    assert seen == [((1, 2, 3, 4, 5), inside) for inside in (0, 1, 1, 1)]
    assert loaded.gate.close(10)
    assert [call(1, 2, 3, 4, 5) for call in every[1:]] == [0, 0, 0]
    assert loaded.statuses == [(place, 1, b"the program ends") for place in (5, 3)]
    assert len(seen) == 4
    assert loaded.duplicate(None, b"s3://bucket/a") == b"s3://bucket/a"


@here
def test_closing_waits_for_a_call_that_is_inside():
    entered, go_on = threading.Event(), threading.Event()

    def function(*_):
        entered.set()
        go_on.wait(60)
        return 7

    loaded, results = Loaded(function), []
    thread = threading.Thread(target=lambda: results.append(loaded.last(1, 2, 3, 4, 5)))
    thread.start()
    assert entered.wait(60)
    assert not loaded.gate.close(0.05)
    go_on.set()
    assert loaded.gate.close(60)
    assert loaded.gate.inside == 0
    thread.join()
    assert results == [7]


class Nowhere:
    """A gate at addresses that are easy to find in code."""

    address, words = 0x1111, 0x2222


def test_the_code_for_aarch64_is_the_one_that_an_emulator_has_run():
    code = library.Arm.guarded(0x3333, 4, Nowhere, 0x4444)
    instructions, numbers = code[: 28 * 4], code[28 * 4 :]
    assert struct.unpack("<5Q", numbers[-40:]) == (0x1111, 0x3333, 0x1111, 0x2222, 0x4444)
    assert instructions[:4] == bytes.fromhex("fd7bbfa9")
    assert library.Arm.entry(0x3333).hex() == "5000005800021fd63333000000000000"
