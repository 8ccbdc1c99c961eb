import asyncio
import threading

import pytest
import skein

from tests.standalone.test_bootstrap import zip_of
from tfapp.contract.names import RUNTIME_DIR
from tfapp.disk import make_private
from tfapp.engines.machine.localize import Localizer
from tfapp.environment.unpacked import folder_of
from tfapp.errors import UnavailableError
from tfapp.master.messages import local_path
from tfapp.protocol.definition import messages


def message(source, **kwargs):
    written = skein.File(str(source), **kwargs).to_protobuf().SerializeToString()
    return messages.File.FromString(written)


def test_sources_are_fetched_once_for_all_containers(tmp_path):
    archive = zip_of(tmp_path / "a.zip", ("f", "1", 0o100644))
    plain = tmp_path / "plain"
    plain.write_text("2")
    files = {"a": message(archive), "z": message(archive, type="FILE"), "./p": message(plain)}
    folders = [tmp_path / f"c{n}" for n in range(10)]

    async def place_all():
        localizer = Localizer(tmp_path / "localized")
        await asyncio.gather(*(localizer.place(files, folder) for folder in folders))

    for folder in folders:
        folder.mkdir()
    asyncio.run(place_all())
    for folder in folders:
        assert ((folder / "a" / "f").read_text(), (folder / "p").read_text()) == ("1", "2")
        assert (folder / "z").read_bytes() == archive.read_bytes()
        assert (folder / "a").resolve() == (folders[0] / "a").resolve()
    assert len(list((tmp_path / "localized").iterdir())) == 3


def test_tfapps_own_part_is_unpacked_once_for_all_runs(tmp_path):
    archive = zip_of(tmp_path / "a.zip", ("f", "1", 0o100644), ("sub/g", "23", 0o100644))
    files = {RUNTIME_DIR: message(archive), "package": message(archive)}

    def place(number):
        folder = tmp_path / f"c{number}"
        folder.mkdir()
        localizer = Localizer(tmp_path / f"localized{number}", tmp_path / "environments")
        asyncio.run(localizer.place(files, folder))
        return (folder / RUNTIME_DIR).resolve(), (folder / "package").resolve()

    (shared, own), (again, other) = place(1), place(2)
    assert shared == again
    assert len({shared, own, other}) == 3
    (shared / "sub" / "g").write_text("")  # what a power cut leaves of a new file
    left = shared / "left"
    left.touch()
    assert place(3)[0] == shared
    assert ((shared / "sub" / "g").read_text(), left.exists()) == ("23", False)
    assert list((tmp_path / "environments").iterdir()) == [shared]


@pytest.mark.parametrize("instead", ["a file", "an empty folder"])
def test_an_unpacked_environment_that_is_damaged_is_not_used(tmp_path, instead):
    archive = zip_of(tmp_path / "a.zip", ("bin/python", "1", 0o100755))
    unpacked = folder_of(archive, make_private(tmp_path / "environments"))
    unpacked.mkdir() if "folder" in instead else unpacked.touch()
    localizer = Localizer(tmp_path / "localized", tmp_path / "environments")
    asyncio.run(localizer.place({"python": message(archive)}, make_private(tmp_path / "c")))
    assert (tmp_path / "c" / "python" / "bin" / "python").read_text() == "1"


def test_nothing_is_written_after_the_end(tmp_path, monkeypatch):
    """An application that is stopped while an archive unpacks deletes this folder next."""
    archive = zip_of(tmp_path / "a.zip", ("f", "1", 0o100644), ("g", "1", 0o100644))
    folder, reached, go = tmp_path / "localized", threading.Event(), threading.Event()

    def slow(source, target, stopped):
        reached.set()
        go.wait()
        if not stopped():
            target.mkdir()
        return

    monkeypatch.setattr("tfapp.engines.machine.localize.unpack", slow)

    async def stop_meanwhile():
        localizer = Localizer(folder)
        placing = asyncio.ensure_future(localizer.place({"a": message(archive)}, tmp_path))
        await asyncio.to_thread(reached.wait)
        placing.cancel()
        closing = asyncio.ensure_future(localizer.close())
        await asyncio.sleep(0)
        assert not closing.done()
        go.set()
        await closing
        with pytest.raises(InterruptedError):
            await localizer.place({"b": message(archive, type="FILE")}, tmp_path)

    asyncio.run(stop_meanwhile())
    assert [path for path in folder.rglob("*") if path.name == "a.zip"] == []


@pytest.mark.parametrize("target", ["..", ".", "a/b", "../x"])
def test_targets_are_names(tmp_path, target):
    localizer = Localizer(tmp_path)
    with pytest.raises(UnavailableError, match="cannot be a file's name"):
        asyncio.run(localizer.place({target: message("/etc/hostname")}, tmp_path))


def test_sources_are_local():
    with pytest.raises(UnavailableError, match="hdfs://host.* is not a file of this machine"):
        local_path(message("hdfs://host:1/x").source)
    assert local_path(message("/a b/c").source) == "/a b/c"
