"""TensorBoard's page Profile in a real browser, over what `tfapp profile` has made."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.end_to_end.command_line import LIMIT, CommandLine, read_until
from tests.end_to_end.test_tensorflow import example
from tests.page.browser import Browser, wait_for
from tests.python_environments import with_profile_page

pytestmark = [pytest.mark.trains, pytest.mark.weekly]

REPOSITORY = Path(__file__).parents[2]
# What stands in the page, which is in a frame of TensorBoard's.
IN_FRAME = """
const frame = document.querySelector("iframe"), page = frame && frame.contentDocument;
return page && page.body ? page.body.innerText : "";
"""
# Also in shadow trees. The trace viewer has functions of its own in place of the browser's.
ALL_TEXT = """
let found = "";
const walk = node => {
  if (node.nodeType === Node.TEXT_NODE) found += node.data;
  if (node.shadowRoot) walk(node.shadowRoot);
  for (let child = node.firstChild; child; child = child.nextSibling) walk(child);
};
walk(document.documentElement);
return found;
"""


@contextlib.contextmanager
def board(tfapp: CommandLine, name: str) -> Iterator[str]:
    """The address that `tfapp tensorboard` prints."""
    process = tfapp.start("tensorboard", name)
    try:
        yield process.stdout.readline().strip()  # type: ignore[union-attr]
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LIMIT)


def traced(tfapp: CommandLine) -> str:
    """Traces two workers that train; the name of the trace."""
    args = "--checkpoint-dir ${CHECKPOINT_DIR} --epochs 10000"
    option = ("--option", "site.global.user.scripts.args", args)
    tfapp.ok("create", "digits", *example("digits-multiworker"), *option, "--detach")
    following = tfapp.start("logs", "digits", "worker/0", "-f")
    read_until(following, following.stdout, "Epoch ")
    found = json.loads(tfapp.asks("profile", "digits", "--seconds", "1", "--format", "json"))
    following.terminate()
    following.communicate(timeout=LIMIT)
    tfapp.ok("stop", "digits")
    assert tfapp.living() == []
    return found["run"]


def test_the_page_has_the_trace_of_both_workers(window: Browser, tmp_path, tfapp_home):
    work = tmp_path / "work"
    work.mkdir()
    run = traced(CommandLine(work, tfapp_home))
    python = str(with_profile_page(tmp_path / "environment"))
    path = {"PYTHONPATH": str(REPOSITORY)}
    tfapp = CommandLine(work, tfapp_home, program=(python, "-m", "tfapp"), environ=path)
    with board(tfapp, "digits") as address:
        window.open(f"{address}#profile")
        wait_for(lambda: "Performance Summary" in window.run(IN_FRAME), "the overview")
        assert {run, "Overview Page"} <= set(window.run(IN_FRAME).splitlines())
        tool = f"run={run}&tag=trace_viewer@&hosts=worker_0,worker_1"
        data = quote(f"/data/plugin/profile/data?{tool}", safe="")
        viewer = f"{address}data/plugin/profile/trace_viewer_index.html?is_streaming=true"
        window.open(f"{viewer}&is_oss=true&trace_data_url={data}")
        hosts = ("worker_0 /host:CPU", "worker_1 /host:CPU")
        wait_for(lambda: all(host in window.run(ALL_TEXT) for host in hosts), "both hosts")
