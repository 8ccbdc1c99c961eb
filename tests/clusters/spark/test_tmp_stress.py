import os, re, signal, time
import pytest
import tfapp
from tests.waiting import *  # noqa
from tfapp.engines import open_engine
from tfapp.engines.machine.folders import Home
from tfapp.engines.machine.state import read_state
from tests.clusters.spark.test_engine import TWO, eventually, program, pids, waiting  # noqa


def test_stress(spark, shared, tfapp_home):
    def train(ctx, shared=str(shared)):
        import pathlib, time
        n = 0
        pathlib.Path(shared, f"up-{ctx.index}").touch()
        while not pathlib.Path(shared, "go").exists():
            n += 1
            print(f"line {n} " + "x" * 200, flush=True)
            time.sleep(0.001)
        print(f"the last of {n}", flush=True)
        return n

    run = Home(tfapp_home / "spark").app("app").run(1)
    import dataclasses
    with tfapp.submit(train, TWO, spark=spark, name="app", show=False, options={"site.global.master.attempts": 6}) as application:
        eventually(lambda: (shared / "up-0").exists() and (shared / "up-1").exists())
        for number in (signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP, signal.SIGKILL):
            time.sleep(1.5)
            lost = read_state(run)
            at = time.monotonic()
            os.kill(lost.process.pid, number)
            eventually(lambda: read_state(run).process != lost.process)
            status = application.status()
            print("back after", time.monotonic() - at, status.state, status.generation)
        time.sleep(1)
        (shared / "go").touch()
        result = application.wait()
        print(result.state)
        status = application.status()
        logs = application.logs()
    print((status.generation, status.losses, status.restarts))
    for moment in status.timeline:
        print(moment.text)
    for name, text in logs.items():
        if "worker" in name:
            found = [int(x) for x in re.findall(r"^line (\d+) x{200}$", text, re.M)]
            last = int(re.search(r"the last of (\d+)", text)[1])
            print(name, len(found), last, found == list(range(1, last + 1)), len(set(found)))
