from __future__ import annotations

import io
import sys
from types import SimpleNamespace

from tests.cli.played_engine import SUCCESS, instance, status
from tfapp.api.handle import Application, _printing
from tfapp.engines import base
from tfapp.launch.caller import Caller
from tfapp.launch.display import StateLines


def test_lines_name_their_application_while_others_are_followed(tmp_path):
    streams = io.StringIO(), io.StringIO()
    caller = Caller(*streams, {}, tmp_path, tmp_path, "ada", sys.executable)
    engine = SimpleNamespace(name="local")
    first, second = (
        Application(
            engine,  # type: ignore[arg-type]
            base.Application(name, "local", "a_1_0001", 1, True, status("RUNNING")),
            caller,
        )
        for name in ("app", "other")
    )

    def tell(application: Application, state: str, verdict=None) -> str:
        for stream in streams:
            stream.truncate(0)
            stream.seek(0)
        lines = StateLines(application._caller)
        lines.update(status(state, instance("worker/0", state), verdict=verdict))
        for piece in (b"step 1", b"\nstep 2\n"):
            application._caller.write(piece)
        return "".join(stream.getvalue() for stream in streams)

    alone = "step 1\nstep 2\napp: RUNNING\nworker: 1 RUNNING\n"
    with _printing("app"):
        assert tell(first, "RUNNING") == alone
        with _printing("other"):
            assert tell(first, "SUCCEEDED", SUCCESS) == (
                "app | step 1\napp | step 2\napp: SUCCEEDED\napp worker: 1 SUCCEEDED\n"
            )
            assert tell(second, "RUNNING").startswith("other | step 1\nother | step 2\n")
        assert tell(first, "RUNNING") == alone
