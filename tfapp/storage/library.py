"""A shared library that Python writes: machine code for this processor, with one exported function.

TensorFlow loads file systems as libraries. What the library does is in Python; its own code is only
the way there, and the way back once Python has ended:

- `entry` jumps to a function.
- `guarded` counts a call, asks whether Python still runs, and calls or refuses.
- `duplicate` copies a string, without Python.

The code of `guarded` makes the end of a program safe. `Gate.close` is called while Python still
runs. A call is counted before it looks at the gate. So once the gate is closed and the count is 0,
no call is inside, and none comes in any more.
"""

from __future__ import annotations

import ctypes
import struct
import time
from typing import Any, Union

CANCELLED = 1  # TensorFlow's code
_PAGE = 4096
_Word = Union[int, "tuple[str, int]"]  # an instruction, or a register and the number to load


class Gate:
    """Two numbers that machine code reads: calls that are inside, and whether it is closed. Their
    memory is never freed, because threads may look at them until the process has ended."""

    def __init__(self) -> None:
        self._numbers = (ctypes.c_uint64 * 2).from_buffer(_kept(bytes(16)))
        self.address = ctypes.addressof(self._numbers)
        self.words = ctypes.addressof(ctypes.c_char.from_buffer(_kept(b"the program ends\0")))

    @property
    def inside(self) -> int:
        """Calls that have come in and have not returned."""
        return self._numbers[0]

    def close(self, limit: float) -> bool:
        """Refuses all calls from now on; waits until none is inside, `limit` seconds at most. Says
        whether none is."""
        self._numbers[1] = 1
        end = time.monotonic() + limit
        while True:
            time.sleep(0.001)  # also lets the others have Python's lock
            if not self.inside or time.monotonic() > end:
                return not self.inside

    def forget(self) -> None:
        """In a forked child: the threads that were inside are not here."""
        self._numbers[0] = 0


def _kept(content: bytes) -> ctypes.Array[ctypes.c_char]:
    """Memory that is never freed."""
    buffer = ctypes.create_string_buffer(content, len(content))
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(buffer))
    return buffer


class X86:
    """The code for x86-64. `status` is the number of the argument that is a TF_Status."""

    machine = 62  # in the header of an ELF file
    # mov rdi, <the register of argument n>
    _to_first = (b"", b"\x48\x89\xf7", b"\x48\x89\xd7", b"\x48\x89\xcf", b"\x4c\x89\xc7")

    @staticmethod
    def entry(function: int) -> bytes:
        """Jumps to `function`."""
        return b"\x48\xb8" + struct.pack("<Q", function) + b"\xff\xe0"  # mov rax, F; jmp rax

    @classmethod
    def duplicate(cls, strdup: int) -> bytes:
        """Returns strdup(second argument)."""
        return cls._to_first[1] + cls.entry(strdup)

    @classmethod
    def guarded(cls, function: int, status: int | None, gate: Gate, set_status: int) -> bytes:
        """Calls `function` while the gate is open. Else returns 0, with CANCELLED in the status."""
        numbers = struct.pack("<Q", gate.address)
        refusal = b""
        if status is not None:
            refusal = cls._to_first[status] + b"\xbe" + struct.pack("<I", CANCELLED)  # mov esi
            refusal += b"\x48\xba" + struct.pack("<Q", gate.words)  # mov rdx, words
            refusal += cls._call(set_status)
        call = cls._call(function)
        call += b"\x48\xb9" + numbers + b"\xf0\x48\xff\x09\xc3"  # mov rcx; lock dec [rcx]; ret
        code = b"\x48\xb8" + numbers + b"\xf0\x48\xff\x00"  # mov rax, numbers; lock inc [rax]
        code += b"\x48\x83\x78\x08\x00"  # cmp [rax + 8], 0
        code += b"\x75" + bytes([len(call)]) + call  # jne behind the call
        return code + b"\xf0\x48\xff\x08" + refusal + b"\x31\xc0\xc3"  # lock dec; xor eax; ret

    @staticmethod
    def _call(function: int) -> bytes:
        load = b"\x48\xb8" + struct.pack("<Q", function)
        return b"\x48\x83\xec\x08" + load + b"\xff\xd0\x48\x83\xc4\x08"  # keeps rsp aligned


class Arm:
    """The same for AArch64. Numbers stand behind the code."""

    machine = 183
    _add_one = (0xC85FFE11, 0x91000631, 0xC80FFE11, 0x35FFFFAF)  # to the number at x16, by ldaxr,
    _take_one = (0xC85FFE11, 0xD1000631, 0xC80FFE11, 0x35FFFFAF)  # add or sub, stlxr, cbnz
    _leave = (0xA8C17BFD, 0xD65F03C0)  # ldp x29, x30, [sp], 16; ret

    @classmethod
    def entry(cls, function: int) -> bytes:
        """Jumps to `function`."""
        return cls._assembled(("x16", function), 0xD61F0200)  # br x16

    @classmethod
    def duplicate(cls, strdup: int) -> bytes:
        """Returns strdup(second argument)."""
        return cls._assembled(0xAA0103E0, ("x16", strdup), 0xD61F0200)  # mov x0, x1; ...; br x16

    @classmethod
    def guarded(cls, function: int, status: int | None, gate: Gate, set_status: int) -> bytes:
        """See X86.guarded."""
        numbers, run = ("x16", gate.address), 0xD63F0200  # blr x16
        refusal: list[_Word] = []
        if status is not None:
            refusal = [0xAA0003E0 | status << 16, 0x52800001 | CANCELLED << 5]  # mov x0; mov w1
            refusal += [("x2", gate.words), ("x16", set_status), run]
        call: list[_Word] = [("x16", function), run, numbers, *cls._take_one, *cls._leave]
        # stp x29, x30, [sp, -16]!; ...; dmb ish; ldr x17, [x16, 8]; cbnz x17, behind the call
        begin: list[_Word] = [0xA9BF7BFD, numbers, *cls._add_one, 0xD5033BBF, 0xF9400611]
        begin += [0xB5000011 | (len(call) + 1) << 5]
        end: list[_Word] = [0xD2800000, *cls._leave]  # mov x0, 0
        return cls._assembled(*begin, *call, *cls._take_one, *refusal, *end)

    @staticmethod
    def _assembled(*code: _Word) -> bytes:
        start = (len(code) + 1) // 2 * 2
        words: list[int] = []
        numbers: list[int] = []
        for one in code:
            if isinstance(one, tuple):  # ldr register, number
                distance = start + 2 * len(numbers) - len(words)  # in words
                numbers.append(one[1])
                one = 0x58000000 | distance << 5 | int(one[0][1:])
            words.append(one)
        words += [0] * (start - len(words))
        return struct.pack(f"<{start}I{len(numbers)}Q", *words, *numbers)


PROCESSORS: dict[str, type[X86] | type[Arm]] = {"x86_64": X86, "aarch64": Arm}


def library(machine: int, parts: list[bytes], name: bytes) -> tuple[bytes, list[int]]:
    """An ELF file with the code `parts`, the first of which is exported as `name`. Returns it, and
    how far each part is from the first, in bytes."""
    code, distances = b"", []
    for part in parts:
        distances.append(len(code))
        code += _aligned(part, 16)
    begin = 64 + 3 * 56  # the header and three program headers
    begin += -begin % 16
    names = _aligned(b"\0" + name + b"\0", 8)
    symbols = bytes(24) + struct.pack("<IBBHQQ", 1, 1 << 4 | 2, 0, 1, begin, len(code))
    hashes = _aligned(struct.pack("<IIIII", 1, 2, 1, 0, 0), 8)
    symbols_at = begin + len(code)
    names_at = symbols_at + len(symbols)
    hashes_at = names_at + len(names)
    at = hashes_at + len(hashes)
    # DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT, DT_NULL
    entries = ((4, hashes_at), (5, names_at), (6, symbols_at), (10, len(names)), (11, 24), (0, 0))
    dynamic = b"".join(struct.pack("<qQ", *entry) for entry in entries)
    # The loader writes to this section. It has a page of its own: code is never writable.
    place, size = (at + _PAGE - 1) // _PAGE * _PAGE + at % _PAGE, len(dynamic)
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, 0, 0, 64, 56, 3, 64, 0, 0)
    head += struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, at, at, _PAGE)
    head += struct.pack("<IIQQQQQQ", 1, 6, at, place, place, size, size, _PAGE)
    head += struct.pack("<IIQQQQQQ", 2, 6, at, place, place, size, size, 8)
    return head.ljust(begin, b"\0") + code + symbols + names + hashes + dynamic, distances


def _aligned(content: bytes, to: int) -> bytes:
    return content + bytes(-len(content) % to)


def address(function: Any) -> int:
    """Of a function of ctypes."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0
