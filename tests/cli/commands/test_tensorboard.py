"""`tfapp tensorboard` on a played engine."""

import contextlib
import json
import os
import signal
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.cli.commands.call import call
from tests.cli.played_engine import SUCCESS, Output, PlayedEngine, instance, status
from tests.waiting import wait
from tfapp.engines.checkpoint_folder import FolderCheckpoints
from tfapp.errors import NotFoundError, UnavailableError


def board(port: int):
    pages = {"tensorboard": {"url": f"http://n1:{port}"}}
    return status("RUNNING", instance("tensorboard/0", "RUNNING", exports=pages))


FORMING = status("FORMING", instance("tensorboard/0", "REQUESTED"))
ENDED = status("SUCCEEDED", instance("tensorboard/0", "SUCCEEDED"), verdict=SUCCESS)


def test_its_address_is_printed_once_it_runs(tmp_path):
    engine = PlayedEngine(tmp_path, [FORMING, board(1)])
    code, a_shell = call(tmp_path, engine, "tensorboard", "app")
    assert (code, a_shell.out.text, a_shell.err.text) == (0, "http://n1:1\n", "")
    engine.stop("app", "end of the test")


class Ending(PlayedEngine):
    """Its application ends while it is followed."""

    def find(self, name, run=None):
        return self.find_first()


def test_where_it_is_not_reached_the_way_is_held_until_the_end(tmp_path):
    engine = Ending(tmp_path, [FORMING, board(1), board(1), board(2), ENDED])
    engine.ways = ["http://127.0.0.1:7", "http://127.0.0.1:8"]
    code, a_shell = call(tmp_path, engine, "tensorboard", "app")
    assert (code, a_shell.out.text) == (0, "http://127.0.0.1:7\nhttp://127.0.0.1:8\n")
    assert engine.calls == [
        "open http://127.0.0.1:7 to tensorboard/0 http://n1:1",
        "close http://127.0.0.1:7",
        "open http://127.0.0.1:8 to tensorboard/0 http://n1:2",
        "close http://127.0.0.1:8",
    ]
    assert a_shell.err.text == (
        "leads to http://n1:1 of tensorboard/0 (Ctrl-C ends it)\napp has ended\n"
    )


class Watched(Output):
    """Standard error; `told` is set once the way is told of."""

    def __init__(self):
        super().__init__()
        self.told = threading.Event()

    def write(self, text: str) -> int:
        written = super().write(text)
        if "Ctrl-C ends it" in text:
            self.told.set()
        return written


def test_ctrl_c_ends_the_way(tmp_path):
    err = Watched()

    class Interrupted(PlayedEngine):
        def follow(self, name, run=None, left=None):
            yield self.find(name)
            assert err.told.wait(60)
            os.kill(os.getpid(), signal.SIGINT)
            yield from super().follow(name, run)

    engine = Interrupted(tmp_path, [board(1)])
    engine.ways = ["http://127.0.0.1:7"]
    code, a_shell = call(tmp_path, engine, "tensorboard", "app", err=err)
    assert (code, a_shell.out.text) == (0, "http://127.0.0.1:7\n")
    assert engine.calls[-1] == "close http://127.0.0.1:7"
    engine.stop("app", "end of the test")


def test_an_application_without_one_that_has_saved_nothing(tmp_path):
    engine = PlayedEngine(tmp_path, [status("RUNNING", instance("worker/0", "RUNNING"))])
    code, a_shell = call(tmp_path, engine, "tensorboard", "app")
    assert (code, str(tmp_path / "checkpoints") in a_shell.err.text) == (44, True)
    engine.stop("app", "end of the test")


@pytest.fixture
def stored(tmp_path) -> Path:
    folder = tmp_path / "checkpoints"
    (folder / "train").mkdir(parents=True)
    (folder / "model.index").write_text("i")
    return folder


def write_scalar(folder: Path) -> None:
    """An event file with the scalar "loss", by TensorBoard's own writer."""
    from tensorboard.compat.proto import event_pb2, summary_pb2
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    event = event_pb2.Event(
        wall_time=1.0e9,
        step=3,
        summary=summary_pb2.Summary(
            value=[summary_pb2.Summary.Value(tag="loss", simple_value=0.25)]
        ),
    )
    writer = EventFileWriter(str(folder))
    writer.add_event(event)
    writer.close()


class Reader(Output):
    """Standard error of a person who looks at the page and presses Ctrl-C."""

    def __init__(self, out: Output):
        super().__init__()
        self.out, self.seen = out, {}

    def write(self, text: str) -> int:
        written = super().write(text)
        if "Ctrl-C ends it" in text:
            self.seen = scalars(self.out.text.strip())
            os.kill(os.getpid(), signal.SIGINT)
        return written


def scalars(address: str) -> dict:
    """{run: tags} of the TensorBoard at `address`, once it has loaded its files."""

    def shown() -> dict:
        page = f"{address}data/plugin/scalars/tags"
        with (
            contextlib.suppress(urllib.error.URLError),  # it does not serve yet
            urllib.request.urlopen(page, timeout=60) as answer,
        ):
            return json.load(answer)
        return {}

    found = wait(shown, "it has shown nothing", 120, every=0.2)
    return {run: sorted(tags) for run, tags in found.items()}


class Elsewhere:
    """Checkpoints that this machine does not see."""

    def __init__(self, there: FolderCheckpoints):
        self.place, self.files, self.copy = "hdfs://n1/app", there.files, there.copy


class Remote(PlayedEngine):
    """An engine whose checkpoint folder is on another machine."""

    def checkpoints(self, name, beside=""):
        return contextlib.nullcontext(Elsewhere(FolderCheckpoints(self.folder / "checkpoints")))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [PlayedEngine, Remote])
def test_one_that_has_ended_is_shown_here_until_ctrl_c(tmp_path, stored, kind):
    write_scalar(stored / "train")
    out = Output()
    err = Reader(out)
    code, a_shell = call(tmp_path, kind(tmp_path, [ENDED]), "tensorboard", "app", out=out, err=err)
    assert (code, err.seen) == (0, {"train": ["loss"]})
    address = out.text.strip()
    assert address.startswith("http://127.0.0.1:")
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=60)
    place = stored if kind is PlayedEngine else "hdfs://n1/app"
    told = err.text.splitlines()
    assert f"shows {place} (Ctrl-C ends it)" in told
    assert any(line.startswith("fetches 1 file (") for line in told) == (kind is Remote)


def test_one_that_has_ended_without_event_files(tmp_path, stored):
    code, a_shell = call(tmp_path, PlayedEngine(tmp_path, [ENDED]), "tensorboard", "app")
    assert (code, a_shell.out.text) == (NotFoundError.exit_code, "")
    assert a_shell.err.text.startswith(f"error: {stored} has no event files")


def test_traces_of_a_profile_are_fetched_as_well(tmp_path, stored):
    trace = stored / "plugins" / "profile" / "2026" / "worker_0.xplane.pb"
    trace.parent.mkdir(parents=True)
    trace.touch()
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\ncd "$4" && find . -name "*.pb" >&2\nexit 1\n')
    python.chmod(0o755)
    engine = Remote(tmp_path, [ENDED])
    _, a_shell = call(tmp_path, engine, "tensorboard", "app", python=str(python))
    assert a_shell.err.text.endswith(f"with 1: ./{trace.relative_to(stored)}\n")


def test_it_fails_as_tensorboard_says(tmp_path, stored):
    (stored / "train" / "events.out.tfevents.1").touch()
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'No module named tensorboard' >&2\nexit 1\n")
    python.chmod(0o755)
    code, a_shell = call(
        tmp_path, PlayedEngine(tmp_path, [ENDED]), "tensorboard", "app", python=str(python)
    )
    assert (code, a_shell.err.text) == (
        UnavailableError.exit_code,
        "error: TensorBoard has ended with 1: No module named tensorboard\n",
    )


def test_one_that_does_not_come(tmp_path):
    engine = PlayedEngine(tmp_path, [FORMING])
    code, a_shell = call(tmp_path, engine, "tensorboard", "app", "--timeout", "0.1")
    assert (code, a_shell.out.text) == (67, "")
    assert "the TensorBoard of app does not run after 0.1 s; app goes on" in a_shell.err.text
    engine.stop("app", "end of the test")
