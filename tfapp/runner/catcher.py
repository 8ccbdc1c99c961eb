"""Sends a signal to a program and finds out whose code catches it: its own, or a library's of which
it does not know. The kernel tells nobody the address of a handler, so the program is stopped where
it enters that, by ptrace(2). Where this is not allowed, the signal is just sent."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
import time
from typing import Any

from tfapp import processes, threads
from tfapp.processes import Process

LIMIT = 2.0  # seconds for the main thread to take the signal

_CONT, _SINGLESTEP, _GETREGSET, _SEIZE = 7, 9, 0x4204, 0x4206  # linux/ptrace.h
_NT_PRSTATUS = 1  # linux/elf.h
# The place of the program counter among the registers, which have 8 bytes.
_COUNTER = {"x86_64": 16, "aarch64": 32}.get(os.uname().machine)


class _Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def send(process: Process, number: int) -> str:
    """Sends the signal, once. Returns the path of the file that has the code of the process's
    handler, which for a handler in Python is the interpreter or its library; "" if there is none,
    or it cannot be known, as for what a shell runs."""
    if processes.is_shell(process.pid):
        processes.ask(process, number)
        return ""
    if _COUNTER is None or not processes.catches(process.pid, number):
        processes.send(process, number)
        return ""
    found = [""]
    # The kernel detaches a thread that ends from what it traces, in whatever state that is.
    threads.start_surely("tfapp-signal", _trace, process, number, found).join()
    return found[0]


def _trace(process: Process, number: int, found: list[str]) -> None:
    pid = process.pid
    try:
        _ptrace(_SEIZE, pid)
    except OSError:
        processes.send(process, number)
        return
    processes.send(process, number)
    with contextlib.suppress(OSError):  # it has ended
        if _stops(pid, number):
            _ptrace(_SINGLESTEP, pid, number)
            if _stops(pid, signal.SIGTRAP):
                found[0] = processes.file_at(pid, _counter(pid))


def _stops(pid: int, number: int) -> bool:
    """Waits until the main thread stops for the signal `number`. Passes other signals on."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        # Does not reap a child that has ended: others wait for it.
        stopped = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG)
        if stopped is None:
            time.sleep(0.002)
        elif stopped.si_status == number:
            return True
        else:
            _ptrace(_CONT, pid, stopped.si_status if stopped.si_status < 0x80 else 0)
    return False


def _counter(pid: int) -> int:
    assert _COUNTER is not None, "nothing is traced on other machines"
    registers = ctypes.create_string_buffer(1024)
    vector = _Vector(ctypes.addressof(registers), len(registers))
    _ptrace(_GETREGSET, pid, ctypes.addressof(vector), _NT_PRSTATUS)
    return struct.unpack_from("Q", registers, 8 * _COUNTER)[0]


def _ptrace(request: int, pid: int, data: int = 0, address: int = 0) -> None:
    libc: Any = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
    libc.ptrace.restype = ctypes.c_long
    if libc.ptrace(request, pid, address, data) == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
