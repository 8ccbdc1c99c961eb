"""`tfapp fetch` on a played engine, whose checkpoints are a folder."""

import os
from pathlib import Path

import pytest

from tests.cli.commands.call import call
from tests.cli.played_engine import SUCCESS, PlayedEngine, status
from tfapp.engines.base import StoredFile
from tfapp.engines.checkpoint_folder import FolderCheckpoints, stored_checkpoints
from tfapp.errors import NotFoundError, UnavailableError

FILES = {
    "checkpoint": "model-2\n",
    "model-2.index": "i" * 10,
    "export/model/saved_model.pb": "p" * 2000,
    "export/model/variables/v.index": "v",
}
RUNNING = status("RUNNING")
ENDED = status("SUCCEEDED", verdict=SUCCESS)


@pytest.fixture
def stored(tmp_path) -> Path:
    folder = tmp_path / "checkpoints"
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "link.index").symlink_to("model-2.index")
    (folder / "loop").symlink_to(".")
    (folder / "gone").symlink_to("nothing")
    os.mkfifo(folder / "pipe")
    return folder


def fetch(tmp_path: Path, *words: str, history=ENDED):
    engine = PlayedEngine(tmp_path, [history])
    return call(tmp_path, engine, "fetch", "app", *words, cwd=tmp_path)


def found(folder: Path) -> dict[str, str]:
    paths = sorted(path for path in folder.rglob("*") if not path.is_dir())
    return {path.relative_to(folder).as_posix(): path.read_text() for path in paths}


@pytest.mark.parametrize("history", [RUNNING, ENDED], ids=["running", "ended"])
def test_all_files_of_the_checkpoint_folder(tmp_path, stored, history):
    out = tmp_path / "new" / "out"
    code, a_shell = fetch(tmp_path, str(out), history=history)
    assert code == 0, a_shell.err.text
    assert found(out) == {**FILES, "link.index": "i" * 10}
    assert not any(path.is_symlink() for path in out.rglob("*"))
    assert a_shell.out.text.splitlines() == [str(out / name) for name in sorted(found(out))]
    assert a_shell.err.text == f"fetches 5 files (1.981 KiB) of {stored}\n"


@pytest.mark.parametrize("given", ["export/model", "./export//model/", "{stored}/export/model"])
def test_a_folder_comes_under_its_last_name(tmp_path, stored, given):
    out = tmp_path / "out"
    code, a_shell = fetch(tmp_path, given.format(stored=stored), str(out))
    assert code == 0, a_shell.err.text
    assert sorted(found(out)) == ["model/saved_model.pb", "model/variables/v.index"]


def test_outputs_of_the_newest_run(tmp_path, stored):
    application = PlayedEngine(tmp_path, [ENDED]).find("app").id
    kept = tmp_path / f"checkpoints.outputs/{application}/worker_0/export"
    kept.mkdir(parents=True)
    (kept / "model.txt").write_text("weights")
    (tmp_path / "checkpoints.outputs/application_0_0001").mkdir()
    out = tmp_path / "out"
    code, a_shell = fetch(tmp_path, str(out), "--outputs")
    assert code == 0, a_shell.err.text
    assert found(out) == {"worker_0/export/model.txt": "weights"}
    code, a_shell = fetch(tmp_path, "worker_0/export", str(out), "--outputs")
    assert (code, (out / "export/model.txt").read_text()) == (0, "weights")


def test_no_outputs_is_a_sentence(tmp_path, stored):
    code, a_shell = fetch(tmp_path, str(tmp_path / "out"), "--outputs")
    assert (code, "checkpoints.outputs/" in a_shell.err.text) == (44, True)


def test_a_file_comes_into_the_folder(tmp_path, stored):
    (tmp_path / "out").mkdir()
    code, a_shell = fetch(tmp_path, "export/model/saved_model.pb", str(tmp_path / "out"))
    assert code == 0, a_shell.err.text
    assert sorted(found(tmp_path / "out")) == ["saved_model.pb"]
    assert (tmp_path / "out" / "saved_model.pb").stat().st_mtime == pytest.approx(
        (stored / "export/model/saved_model.pb").stat().st_mtime
    )


def test_nothing_is_replaced_unless_it_is_said(tmp_path, stored):
    out = tmp_path / "out"
    out.mkdir()
    (out / "checkpoint").write_text("mine\n")
    code, a_shell = fetch(tmp_path, str(out))
    assert (code, a_shell.out.text) == (75, "")
    assert a_shell.err.text == (
        f"error: {out}/checkpoint exists already; nothing is fetched\n"
        "  Name another folder, or replace what is there with --force.\n"
    )
    assert found(out) == {"checkpoint": "mine\n"}
    code, a_shell = fetch(tmp_path, "--force", str(out))
    assert (code, (out / "checkpoint").read_text()) == (0, "model-2\n")


def test_a_folder_is_never_replaced_by_a_file_nor_a_file_by_a_folder(tmp_path, stored):
    out = tmp_path / "out"
    (out / "checkpoint").mkdir(parents=True)
    code, a_shell = fetch(tmp_path, "--force", str(out))
    assert (code, found(out)) == (75, {})
    assert f"{out}/checkpoint is a folder, where a file is to come" in a_shell.err.text
    (out / "checkpoint").rmdir()
    (out / "export").write_text("")
    code, a_shell = fetch(tmp_path, "--force", str(out))
    assert code == 75
    assert f"{out}/export is a file, where a folder is to come" in a_shell.err.text
    code, a_shell = fetch(tmp_path, str(out / "export"))
    assert code == 75


@pytest.mark.parametrize(
    ("path", "code", "told"),
    [
        ("none", 44, "there is no none in {stored}\n"),
        ("checkpoint/x", 44, "there is no checkpoint/x in {stored}\n"),
        ("pipe", 44, "there is no pipe in {stored}\n"),
        ("empty", 44, "there are no files in {stored}/empty\n"),
        ("../other", 2, "../other is not below the checkpoint folder {stored}\n"),
        ("/etc", 2, "/etc is not below the checkpoint folder {stored}\n"),
    ],
)
def test_what_cannot_be_fetched(tmp_path, stored, path, code, told):
    (stored / "empty").mkdir()
    got, a_shell = fetch(tmp_path, path, str(tmp_path / "out"))
    assert (got, a_shell.out.text) == (code, "")
    assert a_shell.err.text.startswith(f"error: {told.format(stored=stored)}"), a_shell.err.text
    assert not (tmp_path / "out").exists()


def test_a_folder_that_was_never_made(tmp_path):
    code, a_shell = fetch(tmp_path, str(tmp_path / "out"))
    assert (code, a_shell.err.text) == (
        44,
        f"error: there is no folder {tmp_path}/checkpoints\n"
        "  Nothing has been saved, or it was deleted.\n",
    )


def test_what_goes_in_between_is_told_and_what_is_half_there_leaves_nothing(
    tmp_path, stored, monkeypatch
):
    copy, out = FolderCheckpoints.copy, tmp_path / "out"

    def late(self, path, folder):
        (stored / "checkpoint").unlink(missing_ok=True)
        copy(self, path, folder)

    monkeypatch.setattr(FolderCheckpoints, "copy", late)
    code, a_shell = fetch(tmp_path, str(out))
    assert (code, sorted(found(out))) == (0, sorted({**FILES, "link.index": ""})[1:])
    assert "warning: gone before it was fetched: checkpoint\n" in a_shell.err.text

    def broken(self, path, folder):
        (folder / "model-2.index").write_text("half")
        raise UnavailableError("the volume is gone")

    monkeypatch.setattr(FolderCheckpoints, "copy", broken)
    code, a_shell = fetch(tmp_path, str(tmp_path / "other"))
    assert (code, (tmp_path / "other").exists()) == (53, False)


@pytest.mark.parametrize("name", ["../x", "a//b", "/x", "."])
def test_names_that_lead_elsewhere_are_not_believed(tmp_path, stored, monkeypatch, name):
    monkeypatch.setattr(FolderCheckpoints, "files", lambda self, path: (StoredFile(name, 1),))
    code, a_shell = fetch(tmp_path, str(tmp_path / "out"))
    assert (code, (tmp_path / "out").exists()) == (53, False)
    assert f"has a file of the name {name!r}" in a_shell.err.text


def test_a_disk_without_room(tmp_path, stored, monkeypatch):
    monkeypatch.setattr(
        FolderCheckpoints, "files", lambda self, path: (StoredFile("big", 1 << 60),)
    )
    code, a_shell = fetch(tmp_path, str(tmp_path / "out"))
    assert (code, (tmp_path / "out").exists()) == (53, False)
    assert "1 file (1.074e+09 GiB) do not fit on the disk of" in a_shell.err.text


@pytest.mark.parametrize(
    ("folder", "error", "told"),
    [
        ("", NotFoundError, "app has no checkpoint folder that outlives its containers"),
        ("oss://n/app", UnavailableError, "oss://n/app is not a folder of this machine"),
    ],
)
def test_folders_that_are_not_here(folder, error, told):
    with pytest.raises(error, match=told):
        stored_checkpoints("app", folder)


def test_a_url_of_this_machine(stored):
    assert stored_checkpoints("app", f"file://{stored}").place == str(stored)
