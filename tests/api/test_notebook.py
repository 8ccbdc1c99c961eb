"""The Python call in a real Jupyter kernel."""

from __future__ import annotations

import queue
import time
from pathlib import Path

import nbclient
import nbformat
import pytest
from jupyter_client.manager import start_new_kernel

import tfapp
from tfapp.api.notebook import curve, table
from tfapp.contract.status import FAILURE, ApplicationStatus, Curve, InstanceStatus, Moment
from tfapp.engines.base import Application

ROOT = Path(tfapp.__file__).parents[1]
LIMIT = 300.0

# Jupyter's own libraries warn of what they will do otherwise one day.
pytestmark = pytest.mark.filterwarnings("default")


def output_of(cell) -> str:
    """What a cell printed, and the last state of what it shows."""
    found = []
    for output in cell.outputs:
        if output.output_type == "stream":
            found.append(output.text)
        else:
            data = output.get("data", {})
            found.append(data.get("text/html") or data.get("text/plain", ""))
    return "".join(found)


@pytest.mark.slow
def test_the_notebook_of_the_guide_runs_as_it_stands(tmp_path, tfapp_home):
    notebook = nbformat.read(ROOT / "docs" / "python-call.ipynb", as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=LIMIT, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert [output for output in outputs if output.get("name") == "stderr"] == []  # it is red
    shown = [output_of(cell) for cell in notebook.cells if cell.cell_type == "code"]
    trained, accuracies, refused, waits, stopped, package = shown[2:]
    # Where HTML is not shown, one line is.
    plain = [
        o["data"]["text/plain"]
        for cell in notebook.cells
        for o in cell.get("outputs", ())
        if "data" in o
    ]
    assert any(text.startswith("notebook-digits on local: Succeeded") for text in plain)
    assert not any("IPython.core.display" in text or len(text) > 500 for text in plain)
    # The table has changed in place: its last state says how it ended.
    assert "<b>notebook-digits</b>" in trained
    assert "Succeeded" in trained
    assert "worker/1" in trained
    assert "'worker/0': 0.9" in accuracies
    assert "'worker/1': 0.9" in accuracies
    assert "writes_to_a_log (In[5]:4) captures `log`, an open file, at line 5" in refused
    assert "<b>notebook-waits</b>" in waits
    assert "enough" in stopped
    assert "metainfo.yaml" in package
    result = tfapp.open("notebook-digits").result(LIMIT)
    assert result.metrics["accuracy"] > 0.9
    assert result.instances["worker/0"].step == 3


WAITS = """
import time
import tfapp

def waits():
    print("it waits", flush=True)
    time.sleep(600)

tfapp.run(waits, name="interrupted-here")
"""


@pytest.mark.slow
def test_a_kernels_interrupt_stops_the_application_once():
    manager, client = start_new_kernel()
    try:
        message = client.execute(WAITS)
        end = time.monotonic() + LIMIT
        written = ""
        while "it waits" not in written:
            assert time.monotonic() < end, written
            try:
                content = client.get_iopub_msg(timeout=1)["content"]
            except queue.Empty:
                continue
            written += content.get("text", "") + "\n".join(content.get("traceback", ()))
        manager.interrupt_kernel()
        while True:
            reply = client.get_shell_msg(timeout=LIMIT)
            if reply["parent_header"].get("msg_id") == message:
                break
    finally:
        client.stop_channels()
        manager.shutdown_kernel()
    assert reply["content"]["ename"] == "KeyboardInterrupt"
    assert reply["content"]["evalue"] == "interrupted-here was stopped"
    status = tfapp.open("interrupted-here").status()
    assert status.state == "KILLED"
    assert "stopped by Ctrl-C" in status.verdict.summary


OF_A_PROGRAM = {
    "none": ([], ""),
    "one": ([1.0], ""),
    "falls": ([8, 5, 2, 1], "\u2588\u2585\u2582\u2581"),
    "alike": ([3, 3], "\u2581\u2581"),
    "not finite": ([0.0, "nan", "inf", 7.0], "\u2581  \u2588"),
    "huge": ([-1.7e308, 1.7e308], "\u2581\u2588"),
    "tiny": ([0.0, 5e-324], "\u2581\u2581"),
    "many": ([*range(1000)], "\u2581\u2581\u2582\u2582\u2583\u2583\u2584\u2584"),
}


@pytest.mark.parametrize(("values", "drawn"), OF_A_PROGRAM.values(), ids=OF_A_PROGRAM)
def test_a_curve_is_drawn_of_the_points_that_the_program_told(values, drawn):
    found = curve([(float(n), n, value) for n, value in enumerate(values)])
    assert (found[: len(drawn)], len(found)) == (drawn, min(len(found), 16))
    assert len(found) == (16 if len(values) > 16 else len(drawn))


def test_the_table_has_the_curve_of_a_metric_beside_its_value():
    one = InstanceStatus(
        "w/0", "w", "w", "RUNNING", metrics={"loss": 0.25, "accuracy": 0.5}, step=9
    )
    points = tuple((float(n), n, value) for n, value in enumerate([8.0, 4.0, 0.25]))
    status = ApplicationStatus(
        *("app", "RUNNING", 1, 0.0, 9.0, (one,)), curves=(Curve("w/0", "loss", points),)
    )
    shown = table(Application("app", "local", "application_1_0001", 1, True, status))
    assert ">loss 0.25 \u2588\u2584\u2581, accuracy 0.5<" in shown


def test_the_table_has_the_last_failure():
    failures = [Moment(at, text, FAILURE) for at, text in ((1.0, "before"), (2.0, "<b>lost</b>"))]
    status = ApplicationStatus(*("app", "RUNNING", 1, 0.0, 9.0, ()), timeline=tuple(failures))
    shown = table(Application("app", "local", "application_1_0001", 1, True, status))
    assert "<div>last failure: &lt;b&gt;lost&lt;/b&gt;</div>" in shown
    assert "before" not in shown
