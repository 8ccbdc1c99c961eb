"""Links the files of a spec into the working directories of containers. Each source is copied or
unpacked once for a run; tfapp's own archive is unpacked once for all runs."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import threading
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfapp.contract.names import RUNTIME_DIR
from tfapp.disk import make_private, partial_folder, put_in_place
from tfapp.environment.unpacked import folder_of, is_unpacked, note_use
from tfapp.errors import UnavailableError
from tfapp.master.messages import file_name, local_path
from tfapp.protocol.definition import messages
from tfapp.standalone.bootstrap import BadArchiveError, unpack
from tfapp.threads import in_thread


class Localizer:
    """The sources of one run, stored in `folder`. Thread-safe. Python environments and tfapp
    archives in `environments` are not unpacked again."""

    def __init__(self, folder: Path, environments: Path | None = None):
        self._folder = folder
        self._environments = environments
        self._ready: dict[tuple[str, bool, bool], asyncio.Future[Path]] = {}
        self._closed = threading.Event()

    async def place(self, files: Mapping[str, Any], into: Path) -> None:
        """Links all `files` (target -> Skein's File) into the folder `into`. UnavailableError or
        OSError if a source is not available."""
        for target, file in files.items():
            source = await self._source(file, target == RUNTIME_DIR)
            (into / file_name(target)).symlink_to(source)

    async def close(self) -> None:
        """Stops unpacking. Nothing is written to `folder` afterwards."""
        self._closed.set()
        await asyncio.gather(*self._ready.values(), return_exceptions=True)

    async def _source(self, file: Any, runtime: bool) -> Path:
        archive = file.type == messages.File.ARCHIVE
        key = (local_path(file.source), archive, runtime)
        if key not in self._ready:
            self._ready[key] = asyncio.ensure_future(in_thread(self._fetch, *key))
        return await asyncio.shield(self._ready[key])

    def _fetch(self, source: str, archive: bool, runtime: bool) -> Path:
        if self._closed.is_set():
            raise InterruptedError("the application ends")
        if archive and self._environments is not None:
            unpacked = folder_of(Path(source), self._environments)
            if is_unpacked(unpacked):
                note_use(unpacked)
                return unpacked
            if runtime:
                return self._unpack_for_all(Path(source), self._environments)
        digest = hashlib.sha256(f"{source}\0{archive}".encode()).hexdigest()[:16]
        target = self._folder / digest / os.path.basename(source)
        if target.exists():  # containers of a master before this one use it
            return target
        with partial_folder(self._folder) as partial:
            new = partial / target.name
            if archive:
                self._unpack(source, new)
            else:
                shutil.copy(source, new)
            new.replace(make_private(target.parent) / target.name)
        return target

    def _unpack(self, source: str, target: Path) -> None:
        try:
            unpack(source, target, self._closed.is_set)
        except BadArchiveError as error:
            raise UnavailableError(f"{source} {error}") from error

    def _unpack_for_all(self, archive: Path, environments: Path) -> Path:
        """Unpacks the runtime once for all applications of this tfapp, because writing its 150
        files takes 50 to 500 ms. Returns the folder."""
        folder = environments / f"tfapp-{hashlib.sha256(archive.read_bytes()).hexdigest()[:24]}"
        if _is_whole(folder, archive):
            note_use(folder)
            return folder
        with partial_folder(environments) as partial:
            self._unpack(str(archive), partial / "new")
            put_in_place(partial / "new", folder, partial / "damaged")
        return folder


def _is_whole(folder: Path, archive: Path) -> bool:
    """Whether `folder` has the complete content of `archive`. After a power failure files can be
    empty."""
    try:
        with zipfile.ZipFile(archive) as file:
            return all(
                os.stat(folder / entry.filename).st_size == entry.file_size
                for entry in file.infolist()
            )
    except (OSError, zipfile.BadZipFile):
        return False
