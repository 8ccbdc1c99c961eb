"""The Python call on the local engine, with programs that need no TensorFlow."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import tfapp
from tests import programs
from tests.storage import s3_server
from tests.waiting import wait
from tfapp import shipped
from tfapp.errors import (
    ApplicationFailedError,
    BadStateError,
    ExistsError,
    ExitCode,
    InUseError,
    ReturnedError,
    UnknownApplicationError,
    UsageError,
)

LIMIT = 300.0
ROOT = Path(tfapp.__file__).parents[1]

PROGRAM = """
import os

def whole(context):
    print("hello from", context.instance, flush=True)
    context.report(loss=0.5, step=3)
    return {
        "role": context.role,
        "index": context.index,
        "cluster": sorted(context.cluster),
        "exports": sorted(context.exports),
        "greeting": os.environ["GREETING"],
        "token": len(os.environ["TOKEN"]),
        "beside": open("beside.txt").read(),
    }

def plain(context):
    import pathlib
    model = pathlib.Path(context.checkpoint_dir, "model")
    model.mkdir(parents=True)
    (model / "weights").write_text("w" * 9)
    return 7

def fails():
    print("about to fail", flush=True)
    raise ValueError("no such luck")

def survives(context):
    import pathlib, time
    runs = pathlib.Path(context.data_dir, f"runs-{context.index}")
    with runs.open("a") as file:
        file.write("x")
    if context.index == 1 and len(runs.read_text()) == 1:
        while not pathlib.Path(context.data_dir, "runs-0").exists():
            time.sleep(0.05)
        raise ValueError("once")
    return len(runs.read_text())

def waits(context):
    import pathlib, time
    print("waits", flush=True)
    while not pathlib.Path(context.data_dir, "go").exists():
        time.sleep(0.05)
    return context.index
"""


@pytest.mark.slow
def test_what_programs_return_report_and_write_comes_back(module, tmp_path, capfd):
    program = module(PROGRAM)
    (tmp_path / "beside.txt").write_text("beside")
    seen = []
    result = tfapp.run(
        program.whole,
        {
            "worker": tfapp.Component("512 MiB", instances=2),
            "evaluator": tfapp.Component(program=program.plain),
        },
        files=[tmp_path / "beside.txt"],
        env={"GREETING": "hello", "NUMBER": 1},
        secrets={"TOKEN": "t0ken-of-mine"},
        name="whole",
        tags=["a-tag"],
        on_change=seen.append,
    )
    assert result.state == "SUCCEEDED"
    assert result.value == {
        "role": "worker",
        "index": 0,
        "cluster": ["worker"],
        "exports": ["evaluator/0", "worker/0", "worker/1"],
        "greeting": "hello",
        "token": 13,
        "beside": "beside",
    }
    assert result.returned["worker/1"]["index"] == 1
    assert result.returned["evaluator/0"] == 7
    assert result.metrics == {"loss": 0.5}
    assert result.instances["worker/1"].step == 3
    assert "hello from worker/1" in result.logs["worker/1"]
    assert set(result.logs) == {"evaluator/0", "worker/0", "worker/1"}
    assert result.exports["worker/0"]["worker"]["host_port"].startswith("127.0.0.1:")
    assert result.checkpoint_dir.endswith("/whole")
    assert result.duration > 0
    assert "<table>" in result._repr_html_()
    assert seen[-1].state == "SUCCEEDED"
    shown = capfd.readouterr()
    assert shown.out.strip() == "hello from worker/0"
    assert f"ships {Path(program.__file__).name}" in shown.err

    # The same, from what is kept.
    again = tfapp.open("whole").result(timeout=LIMIT)
    assert again.returned["worker/1"] == result.returned["worker/1"]
    assert again.checkpoint_dir == result.checkpoint_dir
    (fetched,) = tfapp.open("whole").fetch(tmp_path / "out", "model")
    assert (fetched, fetched.read_text()) == (tmp_path / "out" / "model" / "weights", "w" * 9)
    with pytest.raises(ExistsError, match="nothing is fetched"):
        tfapp.open("whole").fetch(tmp_path / "out", "model")
    with pytest.raises(ExistsError, match="whole"):
        tfapp.submit(program.plain, name="whole")
    tfapp.open("whole").destroy()
    with pytest.raises(UnknownApplicationError):
        tfapp.open("whole")


@pytest.mark.slow
def test_a_large_value_comes_back_over_an_object_store(module, tmp_path, monkeypatch):
    program = module("def large():\n    return list(range(400_000))\n")
    with s3_server.running(tmp_path / "s3", ("bucket",)) as environ:
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        given = {"checkpoints": "s3://bucket/saved", "env": environ, "show": False}
        result = tfapp.run(program.large, name="large", **given)
        assert result.value == list(range(400_000))
        (tmp_path / "s3/bucket/saved/large/returned/chief-0.json").write_text("[]")
        with pytest.raises(ReturnedError, match="is not what it wrote"):
            tfapp.open("large").result().value  # noqa: B018
        (tmp_path / "s3/bucket/saved/large/returned/chief-0.json").unlink()
        with pytest.raises(ReturnedError, match="cannot be read here"):
            tfapp.open("large").result().value  # noqa: B018
    with pytest.raises(ReturnedError, match="cannot be read here: .*Is the endpoint right"):
        tfapp.open("large").result().value  # noqa: B018


def test_a_failure_carries_the_verdict_and_the_last_lines(module, capfd):
    with pytest.raises(ApplicationFailedError) as caught:
        tfapp.run(module(PROGRAM).fails, show=False)
    error = caught.value
    assert error.exit_code == ExitCode.FAILED
    assert error.result.state == "FAILED"
    assert error.result.cause.instance == "chief/0"
    assert "ValueError: no such luck" in str(error).splitlines()[-1]
    assert isinstance(error.__cause__, ValueError)
    told = str(error.__cause__).splitlines()
    assert (told[0], told[-1]) == ("in chief/0:", "ValueError: no such luck")
    assert '    raise ValueError("no such luck")' in told
    assert "about to fail" in error.result.logs["chief/0"]
    assert capfd.readouterr() == ("", "")


def test_the_last_generation_s_values_come_back(module, tmp_path):
    """Also where an instance had returned one before."""
    package = tmp_path / "package"
    shutil.copytree(shipped.app_packages_dir() / "tensorflow", package)
    with (package / "metainfo.yaml").open("a") as metainfo:
        metainfo.write("\n  failurePolicy: {startupSeconds: 0}\n")
    result = tfapp.run(
        module(PROGRAM).survives,
        tfapp.all_reduce(2),
        data=tmp_path,
        retries=1,
        package=package,
        show=False,
    )
    assert result.restarts == 1
    assert dict(result.returned) == {"worker/0": 2, "worker/1": 2}


def grown(status):
    running = [one for one in status.instances if one.state == "RUNNING"]
    return status.generation > 1 and status.state == "RUNNING" and len(running) == 3


@pytest.mark.slow
def test_a_handle(module, tmp_path):
    program = module(PROGRAM)
    with tfapp.submit(
        program.waits,
        tfapp.all_reduce(2),
        data=tmp_path,
        name="handled",
        options={"site.global.stop.grace": 5},
        show=False,
    ) as application:
        running = application.wait_until_running(LIMIT)
        assert [i.instance for i in running.instances] == ["worker/0", "worker/1"]
        assert application.status().state == "RUNNING"
        assert "handled on local" in repr(application)
        assert "<b>handled</b>" in application._repr_html_()
        assert set(application.exports()) == {"worker/0", "worker/1"}
        with pytest.raises(BadStateError, match="TensorBoard"):
            application.tensorboard()
        with pytest.raises(UsageError, match="on_change"):
            application.result(LIMIT, on_change=print)
        other = tfapp.open("handled")
        with pytest.raises(TimeoutError, match="has not ended"):
            other.wait(0.1)
        with pytest.raises(InUseError):
            other.destroy()
        waits = re.compile(r"2 of 2 are in waits at \S*own_program_\d+\.py:\d+")
        wait(lambda: waits.fullmatch(str(other.stacks("worker"))), "all wait", LIMIT)
        done = other.exec("worker/1", "sh", "-c", "echo $TFAPP_INSTANCE; cat; exit 3", input=b"\0")
        assert (done.returncode, done.stdout, done.stderr) == (3, b"worker/1\n\0", b"")
        with pytest.raises(TimeoutError, match="has not ended after 0.5 s"):
            other.exec("worker/1", "sleep", "600", timeout=0.5)
        assert "3" in other.flex("worker", 3)
        killed = application.kill("worker/0")
        assert killed
        # The programs of the first generation might end well before the third worker is there.
        wait(lambda: grown(other.status()), "three workers", LIMIT)
        (tmp_path / "go").touch()
        result = other.result(LIMIT)
        assert dict(result.returned) == {"worker/0": 0, "worker/1": 1, "worker/2": 2}
        assert set(application.logs("worker", tail=1)) == {"worker/0", "worker/1", "worker/2"}
    assert application.status().state == "SUCCEEDED"


@pytest.mark.slow
def test_the_end_of_a_block_stops_what_runs(module, tmp_path):
    with tfapp.submit(module(PROGRAM).waits, data=tmp_path, name="left", show=False) as application:
        application.wait_until_running(LIMIT)
    status = application.status()
    assert status.state == "KILLED"
    assert "with" in status.verdict.summary
    with pytest.raises(ApplicationFailedError) as caught:
        application.result(LIMIT)
    assert caught.value.exit_code == ExitCode.KILLED


def test_in_a_thread_and_in_a_running_event_loop(module):
    program = module(PROGRAM)
    values = []

    async def inside() -> None:
        values.append(tfapp.run(program.plain, show=False).value)

    thread = threading.Thread(target=lambda: asyncio.run(inside()))
    thread.start()
    thread.join(LIMIT)
    assert values == [7]


SCRIPT = """
import pathlib, sys, time
import tfapp

def waits():
    print("waits", flush=True)
    time.sleep(600)

if __name__ == "__main__":
    try:
        tfapp.run(waits, name="interrupted")
    except KeyboardInterrupt as error:
        sys.exit(f"KeyboardInterrupt: {error}")
"""


SWEEP = """
import multiprocessing, tfapp

def helper(number):
    return 7 * number

def train(context):
    if context.data_dir:
        raise ValueError("boom")
    return helper(6)

def one(data):
    return tfapp.run(train, name=f"sweep-{bool(data)}".lower(), data=data, show=False)

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.apply(one, [None]).value)
        try:
            pool.apply(one, ["/"])
        except tfapp.errors.ApplicationFailedError as error:
            print(error.result.state, error.result.cause.instance)
"""


@pytest.mark.slow
def test_in_processes_that_multiprocessing_spawns(tmp_path):
    script = tmp_path / "sweep.py"
    script.write_text(SWEEP)
    done = programs.python(script, limit=LIMIT, cwd=tmp_path)
    assert done.stdout.split("\n", 1)[0] == "42", done.stderr
    assert done.stdout.splitlines()[1] == "FAILED chief/0", done.stderr


@pytest.mark.slow
def test_ctrl_c_stops_the_application_once(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script)]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ
    ) as process:
        try:
            assert process.stdout.readline() == "waits\n"
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=LIMIT)
        finally:
            process.kill()
    assert process.returncode == 1
    assert errors.endswith("KeyboardInterrupt: interrupted was stopped\n")
    assert "Traceback" not in errors
    status = tfapp.open("interrupted").status()
    assert status.state == "KILLED"
    assert "stopped by Ctrl-C" in status.verdict.summary


def test_scripts_modules_and_functions_by_name(tmp_path, monkeypatch):
    (tmp_path / "script.py").write_text("print('a script')\n")
    (tmp_path / "by_name.py").write_text(
        "def add(a, b=0):\n    return a + b\n\nif __name__ == '__main__':\n    print('a module')\n"
    )
    monkeypatch.chdir(tmp_path)
    by_name = tfapp.NamedFunction("by_name", "add", (1,), {"b": 2})
    result = tfapp.run(
        None,
        {
            "chief": tfapp.Component(program="script.py"),
            "worker": tfapp.Component(program="by_name"),
            "evaluator": tfapp.Component(program=by_name),
        },
        show=False,
    )
    assert "a script" in result.logs["chief/0"]
    assert "a module" in result.logs["worker/0"]
    assert result.returned["evaluator/0"] == 3
