"""TensorFlow's interface for file systems, filled from Python: its header
tensorflow/c/experimental/filesystem/filesystem_interface.h, the same since TensorFlow 2.5.

TensorFlow calls from threads of its own. Every call comes through the gate of `library`.
"""

from __future__ import annotations

import atexit
import ctypes
import itertools
import logging
import os
import platform
import struct
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tfapp.errors import UnavailableError
from tfapp.storage import base, library
from tfapp.storage.base import Failed, Store, Writer
from tfapp.storage.reading import Memory, Reader

ENDING_LIMIT = 150.0  # seconds: longer than any call of a store
FORKED = (
    "this process was forked from one that uses this file system, whose threads are not here",
    "Start processes with the method spawn: multiprocessing.get_context('spawn')",
)
ENTRY = "TF_InitPlugin"


class _Stat(ctypes.Structure):
    _fields_ = [("length", ctypes.c_int64), ("mtime", ctypes.c_int64), ("folder", ctypes.c_bool)]


# The tables of functions, in the order of the header: a name, what it returns and its arguments by
# the letters of _TYPES. `!`: no status follows. A name alone: the place stays empty.
_FILE_SYSTEM = (
    "init:-p file_system_end:-p! open_reader:-ptr open_writer:-ptr open_appender:-ptr region "
    "make_folder:-pt make_folders:-pt remove:-pt remove_folder:-pt remove_tree:-ptpp rename:-ptt "
    "copy:-ptt exists:-pt all_exist stat:-pts is_folder:bpt length:lpt translate children:iptr "
    "matching flush_caches . . . . . . . . . . ."
)
_READER = "reader_end:-r! read:lrlzp"
_WRITER = "writer_end:-r! append:-rpz tell:lr flush:-r flush:-r close:-r"  # the first one is "sync"
_TYPES: dict[str, Any] = {
    "-": None,
    "b": ctypes.c_bool,
    "i": ctypes.c_int,
    "l": ctypes.c_int64,
    "p": ctypes.c_void_p,
    "r": ctypes.POINTER(ctypes.c_void_p),  # of a file, or for a result
    "s": ctypes.POINTER(_Stat),
    "t": ctypes.c_char_p,
    "z": ctypes.c_size_t,
}

# Whose errors TensorFlow takes for "there is none" when it looks for the newest checkpoint.
_LOOKS = ("exists", "stat", "length", "open_reader", "read")
_IS_NONE = (base.NOT_FOUND, base.PRECONDITION)

_libc = ctypes.PyDLL(None)
_libc.malloc.argtypes, _libc.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
_WRITABLE = 0x200
_view = ctypes.PyDLL(None).PyMemoryView_FromMemory
_view.argtypes, _view.restype = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int], ctypes.py_object


class Checkpoints:
    """Folders in which TensorFlow could not look for checkpoints. It goes on as if there were none,
    and would then write a file `checkpoint` that knows nothing of those that are there."""

    def __init__(self) -> None:
        self._unseen: dict[str, str] = {}  # what the error said
        self._own: set[str] = set()  # whose newest checkpoint is of this program

    def failed(self, path: str, words: str) -> None:
        """A look at this file failed, and it may be there."""
        folder, _, name = path.rpartition("/")
        if folder not in self._own and (name == "checkpoint" or name.endswith(".index")):
            self._unseen[folder] = words

    def written(self, path: str) -> None:
        """This file was."""
        folder, _, name = path.rpartition("/")
        if name == "checkpoint":
            self._own.add(folder)
            self._unseen.pop(folder, None)

    def check(self, store: Store, path: str) -> None:
        """Before a file of this name is written: FAILED_PRECONDITION if one is there unseen."""
        folder, _, name = path.rpartition("/")
        if name == "checkpoint" and folder in self._unseen:
            try:
                store.stat(path)
            except FileNotFoundError:
                return
            words = f"{path} names checkpoints that could not be looked for: {self._unseen[folder]}"
            raise Failed(base.PRECONDITION, words, "Start the program again to go on from them")


class Files:
    """Open files. TensorFlow knows them by numbers."""

    def __init__(self) -> None:
        self.paths: dict[int, str] = {}
        self.checkpoints = Checkpoints()
        self._numbers = itertools.count(1)
        self._memory = Memory()
        self._readers: dict[int, Reader] = {}
        self._writers: dict[int, Writer] = {}  # that are to be closed
        self._failed: dict[int, BaseException] = {}  # why others cannot be
        # What TensorFlow calls with a number.
        self.functions: dict[str, Callable[..., Any]] = {
            "read": self._read,
            "reader_end": self._reader_end,
            "append": lambda number, content, size: self._write(
                number, lambda writer: writer.append(ctypes.string_at(content, size))
            ),
            "tell": lambda number: self._writer(number).tell(),
            "flush": lambda number: self._write(number, lambda writer: writer.flush()),
            "close": self._close,
            "writer_end": self._writer_end,
        }

    def open_reader(self, store: Store, path: str, number: Any) -> None:
        """Writes the file's number to `number`."""
        reader = Reader(lambda: store.source(path), self._memory)
        number[0] = new = next(self._numbers)
        self.paths[new], self._readers[new] = path, reader

    def open_writer(self, store: Store, path: str, number: Any, append: bool) -> None:
        """Writes the file's number to `number`."""
        self.checkpoints.check(store, path)
        writer = store.writer(path, append)
        number[0] = new = next(self._numbers)
        self.paths[new], self._writers[new] = path, writer

    def _read(self, number: int, offset: int, count: int, buffer: int) -> int:
        if not count:
            return 0
        return self._readers[number].read(offset, _view(buffer, count, _WRITABLE))

    def _reader_end(self, number: int) -> None:
        self._readers.pop(number).close()
        del self.paths[number]

    def _writer(self, number: int) -> Writer:
        if number not in self._writers:
            raise self._failed.get(number) or Failed(base.PRECONDITION, "the file is closed")
        return self._writers[number]

    def _write(self, number: int, action: Callable[[Writer], None]) -> None:
        try:
            action(self._writer(number))
        except BaseException as error:
            if self._writers.pop(number, None):  # it is never closed, so nobody sees a half
                self._failed[number] = error
            raise

    def _close(self, number: int) -> None:
        writer = self._writer(number)
        del self._writers[number]
        writer.close()

    def _writer_end(self, number: int) -> None:
        if number in self._writers:
            self._close(number)
        self._failed.pop(number, None)
        del self.paths[number]


def functions(store: Store, files: Files) -> dict[str, Callable[..., Any]]:
    """What TensorFlow calls with a path, by the names of _FILE_SYSTEM."""

    def is_folder(path: str) -> bool:
        if store.is_folder(path):
            return True
        raise NotADirectoryError(base.NO_FOLDER)

    def remove_tree(path: str, files: int, folders: int) -> None:
        for left in (files, folders):
            ctypes.c_uint64.from_address(left).value = 0
        store.remove_tree(path)

    def stat(path: str, found: Any) -> None:
        found[0].length, found[0].mtime, found[0].folder = store.stat(path)

    def children(path: str, array: Any) -> int:
        # TensorFlow frees the array and each string.
        names = [_allocated(name.encode() + b"\0") for name in store.children(path)]
        array[0] = _allocated(struct.pack(f"{len(names)}Q", *names))
        return len(names)

    def rename(old: str, new: str) -> None:
        files.checkpoints.check(store, new)
        store.rename(old, new)
        files.checkpoints.written(new)

    return {
        "make_folder": lambda path: store.make_folder(path),
        "remove": lambda path: store.remove(path),
        "remove_folder": lambda path: store.remove_folder(path),
        "copy": lambda old, new: store.copy(old, new),
        "open_reader": lambda path, number: files.open_reader(store, path, number),
        "open_writer": lambda path, number: files.open_writer(store, path, number, append=False),
        "open_appender": lambda path, number: files.open_writer(store, path, number, append=True),
        "make_folders": lambda path: store.make_folder(path, parents=True),
        "remove_tree": remove_tree,
        "rename": rename,
        "exists": lambda path: store.stat(path),
        "stat": stat,
        "is_folder": is_folder,
        "length": lambda path: store.stat(path).length,
        "children": children,
    }


class Plugin:
    """The tables for TensorFlow, and the library that hands them over. Nothing of it is ever freed:
    TensorFlow may call until the process ends. `set_status`: its function TF_SetStatus."""

    def __init__(self, set_status: Any):
        self._processor = library.PROCESSORS[platform.machine()]
        self._gate = library.Gate()
        self._set_status = set_status
        self._files = Files()
        self._forked = False
        self._kept: list[Any] = []  # what only C knows of
        self._parts: list[bytes] = [b""]  # of the library; the first is its entry

    def load(self, stores: Mapping[str, Store], register: Callable[[str], object]) -> None:
        """Has `register` load a library with a file system for each scheme."""
        reader = self._numbered(_READER, self._files.functions)
        writer = self._numbered(_WRITER, self._files.functions)
        systems = {
            _allocated(scheme.encode() + b"\0"): self._numbered(_FILE_SYSTEM, found)
            for scheme, found in ((one, functions(stores[one], self._files)) for one in stores)
        }

        def fill(info: Any) -> None:
            # The number of schemes, their tables, and C's malloc and free.
            info[0], info[1] = len(schemes), _allocated(b"".join(schemes))
            info[2], info[3] = map(library.address, (_libc.malloc, _libc.free))

        self._kept.append(filling := ctypes.CFUNCTYPE(None, _TYPES["r"])(fill))
        self._parts[0] = self._processor.entry(library.address(filling))
        content, distances = library.library(self._processor.machine, self._parts, ENTRY.encode())
        path, loaded = _loaded(content)
        self._kept.append(loaded)
        begin = library.address(loaded[ENTRY])

        def table(parts: list[int]) -> bytes:
            """Its versions, both 0, its size and its address."""
            places = [begin + distances[part] if part else 0 for part in parts]
            packed = struct.pack(f"{len(places)}Q", *places)
            return struct.pack("iiQQ", 0, 0, len(packed), _allocated(packed))

        no_regions = struct.pack("iiQQ", 0, 0, 24, 0)
        schemes = [
            struct.pack("Q", name) + table(parts) + table(reader) + table(writer) + no_regions
            for name, parts in systems.items()
        ]
        register(path)
        atexit.register(self._end)
        os.register_at_fork(after_in_child=self._in_child)

    def _numbered(self, table: str, found: Mapping[str, Callable[..., Any]]) -> list[int]:
        """For each place of a table the number of a part of the library; 0 for none."""
        return [self._part(*row.partition(":")[::2], found) for row in table.split()]

    def _part(self, name: str, letters: str, found: Mapping[str, Callable[..., Any]]) -> int:
        if name == "translate":
            self._parts.append(self._processor.duplicate(library.address(_libc.strdup)))
        elif not letters:
            return 0
        else:
            types = [_TYPES[letter] for letter in letters.rstrip("!")]
            status = None
            if not letters.endswith("!"):
                status = len(types) - 1  # among the arguments
                types.append(ctypes.c_void_p)
            called = ctypes.CFUNCTYPE(*types)(self._called(name, status, found.get(name)))
            self._kept.append(called)
            function, refuse = map(library.address, (called, self._set_status))
            self._parts.append(self._processor.guarded(function, status, self._gate, refuse))
        return len(self._parts) - 1

    def _called(self, name: str, status_at: int | None, function: Any) -> Callable[..., Any]:
        """What TensorFlow calls: `function`, without the file system, and errors as a status."""
        on_file = name in self._files.functions

        def called(*arguments: Any) -> Any:
            status = None if status_at is None else arguments[status_at]
            path = ""
            try:
                given = list(arguments[1:status_at])
                if on_file:
                    given.insert(0, arguments[0][0])
                    path = self._files.paths[given[0]]
                else:
                    given = [one.decode() if isinstance(one, bytes) else one for one in given]
                    path = given[0] if given else ""
                if self._forked:
                    raise Failed(base.PRECONDITION, *FORKED)
                result = function(*given) if function else 0
                if name == "read" and result < given[2]:
                    self._set_status(status, base.OUT_OF_RANGE, b"the end of the file")
                return result or 0
            except BaseException as error:
                code, words = base.told(error, path)
                if status is not None:
                    self._set_status(status, code, words.encode())
                if name in _LOOKS and code not in _IS_NONE:
                    self._files.checkpoints.failed(path, words)
                # What TensorFlow does not tell of.
                unsaid = status is None and not self._forked
                if unsaid or (name == "is_folder" and code not in _IS_NONE):
                    logging.getLogger(__name__).error("%s", words)
                return 0

        return called

    def _end(self) -> None:
        """At the end of Python."""
        if not self._gate.close(ENDING_LIMIT):
            words = "calls of TensorFlow to a file system have not ended within %g s"
            logging.getLogger(__name__).error(words, ENDING_LIMIT)

    def _in_child(self) -> None:
        self._forked = True
        self._gate.forget()


def _loaded(content: bytes) -> tuple[str, ctypes.CDLL]:
    """Loads a library from memory or, where the system forbids that, from a temporary file. Its
    descriptor stays open: for the loader, another file at the same path would be the same library.
    """
    with tempfile.TemporaryFile() as file:
        for descriptor in (os.memfd_create("tfapp-storage"), os.dup(file.fileno())):
            os.write(descriptor, content)
            path = f"/proc/self/fd/{descriptor}"
            try:
                return path, ctypes.CDLL(path)
            except OSError as error:
                refused = error
    raise UnavailableError(
        f"a library can be loaded neither from memory nor from a temporary file: {refused}",
        "Set TMPDIR to a folder on a file system that is not mounted noexec.",
    )


def _allocated(content: bytes) -> int:
    """Memory of C, which TensorFlow frees."""
    place = int(_libc.malloc(max(1, len(content))))
    ctypes.memmove(place, content, len(content))
    return place


def plugin_for(tensorflow: Any) -> Plugin:
    """For a TensorFlow that is imported."""
    folder = Path(tensorflow.__file__).parent
    for path in folder.glob("libtensorflow_*.so.2"):
        found = ctypes.PyDLL(str(path))
        if platform.machine() in library.PROCESSORS and hasattr(found, "TF_SetStatus"):
            found.TF_SetStatus.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p]
            found.TF_SetStatus.restype = None
            return Plugin(found.TF_SetStatus)
    raise UnavailableError(
        f"file systems cannot be given to TensorFlow {tensorflow.__version__} on this machine",
        "It must be TensorFlow 2.5 or newer, on Linux, on x86-64 or AArch64.",
    )
