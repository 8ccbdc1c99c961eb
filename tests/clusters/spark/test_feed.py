"""Feeding programs from a real Spark cluster: every row once, whatever happens."""

import contextlib
import dataclasses
import functools
import json
import os
import re
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import tfapp
from benchmarks import spark_feed, tensorflowonspark
from tests import python_environments
from tests.clusters.spark import fed_programs as programs
from tests.clusters.spark.conftest import coordinator, held_slots, wait_for
from tests.end_to_end.command_line import CommandLine
from tests.feed import local_program
from tests.masters import ATTEMPTS, OPTION, keep_away
from tests.page.applications import embedded
from tests.page.served import document, served
from tfapp import processes
from tfapp.engines.credentials import new_credentials
from tfapp.engines.machine.folders import Home
from tfapp.engines.machine.state import read_state
from tfapp.errors import ApplicationFailedError, FeedError, UsageError
from tfapp.feed.wire import Credentials

TWO = {"worker": tfapp.Component("256 MiB", instances=2)}


def rows(spark, count, partitions, first=0):
    """A DataFrame of so many rows: `id`, and `x`, four numbers of which the last is it."""
    return spark.range(first, first + count, 1, partitions).selectExpr(
        "id", "array(cast(id / 2 AS float), 0f, 1f, cast(id AS float)) x"
    )


@pytest.fixture
def submit(spark, shared):
    """Submits a program that is fed, `with submit(collect) as app`."""

    def submit(program, components=TWO, needs_folder=True, **more):
        if needs_folder:
            program = functools.partial(program, folder=str(shared))
        options = {"spark": spark, "name": "app", "feed": True, "show": False, **more}
        return tfapp.submit(program, components, **options)

    return submit


def got(folder, count, generation=1):
    """The ids that each program got, after its end."""
    return [np.load(folder / f"{index}-{generation}.npy").tolist() for index in range(count)]


def test_every_row_goes_to_one_program_and_all_get_as_many(
    spark, shared, submit, tfapp_home, tmp_path
):
    """And other processes see it, while it runs and afterwards."""
    tfapp = CommandLine(tmp_path, tfapp_home, flags=("--engine", "spark"))
    with submit(programs.collect) as app:
        app.wait_until_running(300)
        with served(tfapp, "app") as page:
            shown = document(page)
            assert (shown["state"], shown["engine"], shown["feed"]) == ("RUNNING", "spark", "")
            result = app.feed(rows(spark, 20_000, 7), rest="share")
            values = app.result().returned
            wait_for(lambda: document(page)["state"] == "SUCCEEDED", "the end on the page")
            assert_fed(document(page, "worker/1"))
        exports = app.exports()
        counters = app.status().feed
    assert counters is not None
    assert (counters.rows, counters.instances) == (20_000, {"worker/0": 10_000, "worker/1": 10_000})
    assert (counters.over, counters.stopped, counters.error) == (True, False, "")
    told = r"\nfeed +All is with the programs: 20,000 rows in "
    assert re.search(told, tfapp.ok("status", "app"))
    report = embedded(tfapp.ok("report", "app"))
    assert_fed(report)
    assert [log["instance"] for log in report["logs"]] == ["worker/0", "worker/1"]
    ids = got(shared, 2)
    assert sorted(ids[0] + ids[1]) == list(range(20_000))
    assert [one["rows"] for one in values.values()] == [10_000, 10_000]
    assert [one["checked"] for one in values.values()] == [10_000, 10_000]
    assert [one["shares"] for one in values.values()] == [True, True], "memory, with the tasks"
    assert max(left_out_of_searches(spark)) > 0, "tasks look for garbage in all that was imported"
    assert (result.rows, result.batches, result.dropped, result.lost) == (20_000, 156, 0, 0)
    assert not result.stopped
    assert set(exports["worker/0"]["worker"]) == {"host_port", "feed"}


def left_out_of_searches(spark):
    """How many objects each Python worker leaves out when it looks for garbage."""

    def count(_):
        import gc

        import pyarrow as pa

        yield pa.record_batch([pa.array([gc.get_freeze_count()])], names=["objects"])

    return [row.objects for row in rows(spark, 8, 8).mapInArrow(count, "objects long").collect()]


def assert_fed(shown):
    """What a page shows of it in the end."""
    assert shown["feed"].startswith("All is with the programs: 20,000 rows in ")
    assert [(one["name"], one["rows"]) for one in shown["instances"]] == [
        ("worker/0", 10_000),
        ("worker/1", 10_000),
    ]
    assert shown["words"].startswith("Succeeded: all 2 instances of worker ended with exit code 0")
    assert [[part["kind"] for part in lane["parts"]] for lane in shown["history"]["lanes"]] == [
        ["forms", "runs"],
        ["forms", "runs"],
    ]
    assert "it got 10000 rows" in shown["logs"][-1]["text"]


def test_epochs_a_shuffle_and_rows_of_an_rdd_on_another_engine(spark, cluster, shared, submit):
    """The local engine, whose address executors know. A shuffle changes the order alone. Spark has
    the rows in pickles that are alike."""
    options = {"site.global.advertise.host": cluster.address("driver")}
    program = functools.partial(programs.collect, batch=50, shuffle=100)
    data = rows(spark, 1000, 3).rdd.map(lambda row: {"id": np.int64(row.id), "x": list(row.x)})
    with submit(program, spark=None, engine="local", options=options) as app:
        result = app.feed(data.persist(), epochs=2, rest="share")
        values = app.result().returned
        shown = app.status().feed
    assert (shown.rows, shown.over) == (2000, True)
    assert [one["shares"] for one in values.values()] == [True, True]
    assert shown.instances == {"worker/0": 1000, "worker/1": 1000}
    ids = got(shared, 2)
    assert sorted(ids[0] + ids[1]) == sorted([*range(1000), *range(1000)])
    assert ids[0][:100] != sorted(ids[0][:100])
    assert (result.rows, result.batches, result.dropped) == (2000, 20, 0)


def test_an_executor_is_killed_another_stopped_for_a_while_and_tasks_fail(
    spark, cluster, shared, submit
):
    """Every row once all the same."""

    def fragile(part, elements, folder=str(shared)):
        import os
        import time

        failed, limit = f"{folder}/failed", time.monotonic() + 300
        for number, element in enumerate(elements):
            if part == 2 and number == 700 and not os.path.exists(failed):
                open(failed, "w").close()
                raise ValueError("a source that fails in the middle")
            if number == 3000:  # all are in the middle when executors are stopped and killed
                open(f"{folder}/waits-{part}", "w").close()
                while not os.path.exists(f"{folder}/goes-on") and time.monotonic() < limit:
                    time.sleep(0.05)
            yield element

    def executors():
        return [each for worker in (1, 2) for each in cluster.executors(worker)]

    # Earlier tests have killed some, and decide on which workers the others are.
    tracker = spark.sparkContext._jsc.sc().statusTracker()
    known = [lambda: len(tracker.getExecutorInfos()) - 1, lambda: len(executors())]
    wait_for(lambda: all(count() >= 2 for count in known), "two executors")
    program = functools.partial(programs.collect, pause=0.01)
    data = rows(spark, 40_000, 6).rdd.map(lambda row: {"id": row.id, "x": list(row.x)})
    options = {"site.global.advertise.host": cluster.address("driver")}
    with submit(program, spark=None, engine="local", options=options) as app:
        application = functools.partial(app.feed, data.mapPartitionsWithIndex(fragile))
        with Background(application) as feeding:
            wait_for(lambda: len(list(shared.glob("waits-*"))) == 6, "tasks in the middle")
            first, *others = executors()
            stopped = [each.pid for each in processes.tree(first.pid) if not each.dead]
            for process in stopped:
                os.kill(process, signal.SIGSTOP)
            try:
                (shared / "goes-on").touch()
                os.kill(others[0].pid, signal.SIGKILL)
                wait_for(lambda: tasks_done(spark) >= 3, "end of the tasks of a new executor")
            finally:
                for process in stopped:
                    os.kill(process, signal.SIGCONT)
        app.result()
    assert (shared / "failed").exists()
    ids = got(shared, 2)
    assert feeding.result.rows == 40_000 - feeding.result.dropped
    assert len(set(ids[0] + ids[1])) == len(ids[0] + ids[1]) == feeding.result.rows
    assert len(ids[0]) == len(ids[1])
    assert feeding.result.dropped < 128


LONG = pytest.param("master, for long", marks=pytest.mark.weekly)


@pytest.mark.parametrize("what", ["master", "coordinator", LONG])
def test_what_leads_the_application_is_killed_while_rows_are_fed(
    spark, shared, submit, tfapp_home, what
):
    """The same programs get the other rows, also while there is no master, and the counters go
    on."""
    run = Home(tfapp_home / "spark").app("app").run(1)

    def held(elements, folder=str(shared)):
        import os
        import time

        for number, element in enumerate(elements):
            while number == 3000 and not os.path.exists(f"{folder}/goes-on"):
                time.sleep(0.05)
            yield element

    data = rows(spark, 38_400, 6).rdd.map(lambda row: {"id": row.id, "x": list(row.x)})
    with submit(programs.collect, options={OPTION: ATTEMPTS}) as app:
        app.wait_until_running(300)
        with Background(functools.partial(app.feed, data.mapPartitions(held))) as feeding:
            wait_for(lambda: getattr(app.status().feed, "rows", 0) > 0, "rows")
            if what == "coordinator":
                os.kill(coordinator(tfapp_home).pid, signal.SIGKILL)
            elif what == "master":
                os.kill(read_state(run).process.pid, signal.SIGKILL)
            else:  # the others are fed while there is none
                threading.Timer(5, (shared / "goes-on").touch).start()
                keep_away(run)
            wait_for(lambda: any("was lost" in m.text for m in app.status().timeline), "its end")
            (shared / "goes-on").touch()
        app.result()
        status = app.status()
    assert (status.generation, status.losses, status.restarts) == (1, 0, 0), status
    if what != "master, for long":  # nobody hears the last ones
        assert (status.feed.rows, status.feed.over, status.feed.lost) == (38_400, True, 0)
    assert (feeding.result.rows, feeding.result.dropped) == (38_400, 0)
    ids = got(shared, 2)
    assert sorted(ids[0] + ids[1]) == list(range(38_400))


@pytest.mark.weekly
def test_a_worker_is_late_and_an_executor_is_lost(spark, cluster, shared, submit):
    """A worker has an executor but for one slot, in which Spark reads the rows. The application
    begins without the other one, is fed, and forms anew when that one comes, when the executor of
    the first is lost, also with the task that reads, and when there is another. Every row is in the
    model once."""
    program = functools.partial(local_program.train, last=4)
    fewer = {"yarn.component.instances.min": 1}
    workers = {"worker": tfapp.Component("256 MiB", instances=2, vcores=2, options=fewer)}
    soon = {"site.global.elastic.wait": "1 s", "site.global.elastic.interval": "1 s"}

    def stands(generation, programs):
        """All programs of a generation have saved 20 batches, and take no more."""
        saved = lambda: list(shared.glob(f"{generation:03}-000020*.json"))  # noqa: E731
        wait_for(lambda: len(saved()) == programs, f"{programs} of generation {generation}", 120)
        return app.status()

    tracker = spark.sparkContext._jsc.sc().statusTracker()
    wait_for(lambda: len(tracker.getExecutorInfos()) - 1 == 2, "two executors")
    with contextlib.ExitStack() as stack:
        held = stack.enter_context(held_slots(spark, shared / "held"))
        first, second = set(held.values())

        def release(executor):
            for path, holder in held.items():
                if holder == executor:
                    path.unlink()

        with submit(program, workers, options=soon) as app:
            release(first)
            app.wait_until_running(300)
            feed = functools.partial(app.feed, rows(spark, 1410, 1), rest="share")
            feeding = stack.enter_context(Background(feed))
            assert stands(1, 1).size == "1 of 2"
            release(second)
            assert stands(2, 2).losses == 0
            (node,) = (n for n in (1, 2) if first in [e.pid for e in cluster.executors(n)])
            cluster.pause_worker(node)  # it starts no other one
            try:
                os.kill(first, signal.SIGKILL)
                assert stands(3, 1).size == "1 of 2"
            finally:
                cluster.resume_worker(node)
            models = [*app.result().returned.values()]
            status = app.status()
    assert (status.generation, status.losses, status.restarts) == (4, 1, 0)
    assert len(models) == 2
    learned = models[0]["base"] + [one for model in models for one in model["ids"]]
    assert sorted(learned) == list(range(1410))
    assert len(models[0]["base"]) == 10 * 20 * (1 + 2 + 1)
    result = feeding.result
    assert (result.rows, result.dropped, result.lost) == (1410, 0, 0)


def tasks_done(spark):
    """Of the jobs that run."""
    tracker = spark.sparkContext.statusTracker()
    jobs = map(tracker.getJobInfo, tracker.getActiveJobsIds())
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    return sum(stage.numCompletedTasks for stage in stages if stage)


def test_a_task_that_sees_an_end_which_is_none(spark, cluster, shared, submit):
    """Its executor dies, which is the end of the rows for a Python worker that still lives."""
    marker = str(shared / "failed")

    def cut(part, elements, marker=marker):
        import os
        import signal

        for number, element in enumerate(elements):
            if part == 1 and number == 3000 and not os.path.exists(marker):
                open(marker, "w").close()
                signal.signal(signal.SIGHUP, signal.SIG_IGN)  # so that it lives on
                with open(f"/proc/{os.getppid()}/stat") as file:
                    executor = int(file.read().rpartition(")")[2].split()[1])
                os.kill(executor, signal.SIGKILL)
                return
            yield element

    data = rows(spark, 20_000, 2).rdd.map(lambda row: {"id": row.id, "x": list(row.x)})
    options = {"site.global.advertise.host": cluster.address("driver")}
    with submit(programs.collect, spark=None, engine="local", options=options) as app:
        result = app.feed(data.mapPartitionsWithIndex(cut), epochs=2, rest="share")
        app.result()
    ids = got(shared, 2)
    assert Path(marker).exists()
    assert sorted(ids[0] + ids[1]) == sorted([*range(20_000), *range(20_000)])
    assert (result.rows, result.dropped, result.lost) == (40_000, 0, 0)


class Background:
    """Calls a function in a thread; its result, or what it raised, after the block."""

    def __init__(self, function):
        import threading

        self.result = self.error = None

        def work():
            try:
                self.result = function()
            except BaseException as error:
                self.error = error

        self.thread = threading.Thread(target=work)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.thread.join(300)
        assert not self.thread.is_alive()
        if self.error is not None:
            raise self.error


def test_a_source_that_changes_is_an_error(spark, shared, submit):
    """Its task fails in the middle, and then it has fewer rows."""
    marker = str(shared / "failed")

    def changing(part, elements, marker=marker):
        import os

        again = os.path.exists(marker)
        for number, element in enumerate(elements):
            if number == 40_000 and not again:  # some batches later
                open(marker, "w").close()
                raise ValueError("a source that fails in the middle")
            if again and number == 5:
                return
            yield element

    data = rows(spark, 50_000, 1).rdd.map(lambda row: {"id": row.id, "x": list(row.x)})
    words = r"partition 0 had \d+ rows, and 5 when .* persist the data"
    changes = pytest.raises(FeedError, match=words)
    with submit(programs.collect) as app, changes:
        app.feed(data.mapPartitionsWithIndex(changing))


def test_programs_begin_again_with_a_state_and_each_row_is_in_the_model_once(spark, submit):
    program = functools.partial(programs.learn_ids, batch=20, dies_after=130)
    with submit(program) as app:
        result = app.feed(rows(spark, 8_000, 5), rest="share")
        done = app.result()
    values = list(done.returned.values())
    ids = [one for value in values for one in value["ids"]]
    assert sorted(ids) == list(range(8_000))
    assert values[0]["base"] == values[1]["base"] >= 100
    assert app.status().generation == 2
    assert (result.lost, result.dropped) == (0, 0)


def test_programs_begin_again_without_a_state_and_the_loss_is_counted(spark, shared, submit):
    program = functools.partial(programs.collect, held_after=5)
    tracker = spark.sparkContext.statusTracker()

    def is_held():
        """And Spark has read everything: its jobs are the programs'."""
        held = all((shared / f"held-{index}").exists() for index in range(2))
        return held and len(tracker.getActiveJobsIds()) == 2

    def counted(part, elements, folder=str(shared)):
        """Its last partition has no rows."""
        with open(f"{folder}/read-{part}", "a") as file:
            file.write("x")
        return elements if part < 5 else iter(())

    few = rows(spark, 96_000, 6).rdd.map(lambda row: {"id": row.id, "x": list(row.x)})
    data = few.mapPartitionsWithIndex(counted)
    with submit(program) as app:
        with Background(lambda: app.feed(data, rest="share")) as feeding:
            wait_for(is_held, "five batches for each program")
            os.kill(int((shared / "pid-1-1").read_text()), signal.SIGKILL)
        app.result()
    ids = got(shared, 2, generation=2)
    result = feeding.result
    assert result.lost == 2 * 5 * 64
    assert len(set(ids[0] + ids[1])) == len(ids[0]) + len(ids[1]) == 80_000 - result.lost
    assert result.rows == 80_000
    counts = [len((shared / f"read-{part}").read_text()) for part in range(6)]
    assert counts[5] == 1, f"what Spark has done is not read again: {counts}"


def test_a_program_stops_the_feed(spark, shared, submit):
    program = functools.partial(programs.collect, stop_after=20)
    with submit(program) as app:
        result = app.feed(rows(spark, 50_000_000, 20), final=False)
        values = app.result().returned
    assert result.stopped
    assert len({value["rows"] for value in values.values()}) == 1
    assert result.rows < 1_000_000
    assert app.feed(rows(spark, 10, 1)).stopped, "what comes after is not wanted either"


def test_a_partition_of_six_million_rows_is_held_by_nobody(spark, submit):
    """Each program gets 69 MiB of it and never holds more than the 16 MiB of the feed."""
    count = 6_000_000
    data = spark.range(0, count, 1, 1).selectExpr("id", "2 * id a", "3 * id b")
    with submit(programs.count, needs_folder=False) as app:
        result = app.feed(data, rest="share")
        values = app.result().returned.values()
    assert (result.rows, result.dropped) == (count, 0)
    assert [value["rows"] for value in values] == [count // 2] * 2
    assert sum(value["sum"] for value in values) == count * (count - 1) // 2
    assert all(value["grown"] < 48 for value in values), values


def test_programs_that_end_early_end_the_feed(spark, submit, monkeypatch):
    program = functools.partial(programs.count, batches=3)
    with submit(program, needs_folder=False) as app:
        result = app.feed(rows(spark, 50_000_000, 4))
        app.result()
    assert result.stopped
    assert result.rows == 2 * 3 * 4096
    # One alone is no end of the feed.
    monkeypatch.setattr("tfapp.feed.driver.state.BROKEN_LIMIT", 1.0)
    program = functools.partial(programs.count, batches=3, by=1)
    ended = r"connection to worker/1 has ended \(its program has ended with exit code 0\), and the "
    told = pytest.raises(FeedError, match=ended)
    with submit(program, needs_folder=False, replace=True) as app, told:
        app.feed(rows(spark, 50_000_000, 4))


SPECULATION = """
import functools, json, os, signal, sys, threading, time
import numpy as np
import tfapp
from pathlib import Path
from pyspark.sql import SparkSession
from tests.clusters.spark import fed_programs

folder, address, older = sys.argv[1:]
settings = {
    "spark.executorEnv.PYTHONPATH": older,
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.0",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "50ms",
    "spark.task.maxFailures": "2",
}
spark = SparkSession.builder.config(map=settings).getOrCreate()

def made(part, _, folder=folder):
    import pyarrow
    from pyspark import TaskContext

    assert pyarrow.__version__.startswith("21."), pyarrow.__version__
    attempt = TaskContext.get().attemptNumber()
    open(f"{folder}/begun-{part}-{attempt}", "w").close()
    limit = time.monotonic() + 300
    for number in range(4000 if part else 10):
        if (part, number, attempt) == (5, 1000, 0):  # slow: until Spark has begun a second task
            while not Path(f"{folder}/begun-5-1").exists() and time.monotonic() < limit:
                time.sleep(0.05)
        if (part, number, attempt) == (2, 3000, 0):
            raise ValueError("a source that fails in the middle")
        row = 10_000 * part + number
        yield {"id": row, "x": [0.0, 0.0, 0.0, float(row)]}

data = spark.sparkContext.parallelize(range(6), 6).mapPartitionsWithIndex(made)
frame = spark.range(60_000, 61_000, 1, 2).selectExpr("id", "array(0D, 0D, 0D, double(id)) x")
program = functools.partial(fed_programs.collect, folder=folder)
workers = {"worker": tfapp.Component("256 MiB", instances=2)}
options = {"site.global.advertise.host": address}
more = {"engine": "local", "feed": True, "show": False, "options": options}
with tfapp.submit(program, workers, **more) as app:
    app.feed(data, rest="share", final=False)
    result = app.feed(frame, rest="share")
    app.result()
ids = [np.load(f"{folder}/{index}-1.npy").tolist() for index in range(2)]
wanted = [10_000 * part + n for part in range(6) for n in range(4000 if part else 10)]
wanted += range(60_000, 61_000)
begun = len(list(Path(folder).glob("begun-*")))

large = spark.range(0, 50_000_000, 1, 4).selectExpr("id", "array(0D, 0D, 0D, double(id)) x")

def fails(disturb):  # what feeding raises when that is done in the middle
    def soon(tracker=spark.sparkContext.statusTracker()):
        while not tracker.getActiveJobsIds():
            time.sleep(0.05)
        disturb()

    threading.Thread(target=soon).start()
    try:
        app.feed(large)
    except tfapp.errors.FeedError as error:
        return str(error)

more.update(name="left", retries=0)
app = tfapp.submit(functools.partial(program, pause=0.01), workers, **more)
cancelled, stopped = fails(spark.sparkContext.cancelAllJobs), fails(spark.stop)
same = sorted(ids[0] + ids[1]) == wanted
found = [same, result.rows, result.dropped, begun, cancelled, stopped]
Path(folder, "found").write_text(json.dumps(found))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_speculation_few_failures_allowed_and_ends_in_the_middle(cluster, drivers, shared):
    """Spark runs a slow task twice, and gives up at the second failure of one. The executors have
    an older Arrow than the driver and the programs. At last its job is cancelled, its context
    stopped, and the driver is killed, and programs that run elsewhere do not wait for it."""
    words = (shared, cluster.address("driver"), python_environments.older_pyarrow())
    environ = {**drivers.environ, "TFAPP_HOME": os.environ["TFAPP_HOME"]}
    own = dataclasses.replace(drivers, environ=environ)
    with own.running(sys.executable, "-c", SPECULATION, *words) as process:
        said = process.communicate(timeout=600)[0]
    assert process.returncode == -signal.SIGKILL, said
    same, rows, dropped, begun, cancelled, stopped = json.loads((shared / "found").read_text())
    assert (same, rows, dropped) == (True, 21_010, 0)
    assert begun >= 8, "no task was run twice but the one that failed"
    for words, reason in ((cancelled, "cancelled"), (stopped, "SparkContext")):
        assert words.startswith("Spark could not send the data: "), words
        assert reason in words, words
    with pytest.raises(ApplicationFailedError, match="the driver of the feed has gone"):
        tfapp.open("left", "local").result()


TASKS = """
import pickle, sys, types
import pyspark

sys.modules["tfapp"] = None  # whoever imports it fails
place = types.SimpleNamespace(partitionId=lambda: 0, taskAttemptId=lambda: 1, stageId=lambda: 2)
pyspark.TaskContext.get = lambda: place
with open(sys.argv[1], "rb") as file:
    sends, sends_elements, sends_pickles, asks, asks_elements, cut = pickle.load(file)
pickles = [pickle.dumps([[1.0, 2.0]] * 100)] * 2
for task in (lambda: sends([]), lambda: sends_elements(0, []), lambda: sends_pickles(0, pickles),
             lambda: asks([]), lambda: asks_elements(0, [])):
    try:
        list(task())
    except ConnectionRefusedError:
        print("no driver")
print([each.num_rows for each in cut([[1.0, 2.0]] * 100)])
"""


def test_executors_need_no_tfapp(cluster, drivers, spark, tmp_path):
    """All that tasks call travels with them."""
    import pyarrow as pa
    from pyspark import cloudpickle
    from pyspark.serializers import CPickleSerializer

    from tfapp.feed.columns import pieces
    from tfapp.feed.driver.travel import task, travel_by_value
    from tfapp.feed.task import asker, sender
    from tfapp.feed.task.rows import batches_of
    from tfapp.feed.task.sender import FeedOrder

    credentials = Credentials(*new_credentials(time.time())).packed()
    with socket.create_server(("127.0.0.1", 0)) as server:
        order = FeedOrder(f"127.0.0.1:{server.getsockname()[1]}", credentials, 1)
    travel_by_value()
    tasks = (
        task(sender.send_frame, order, ["value"]),
        task(sender.send_elements, order, ["value"], None),
        task(sender.send_elements, order, ["value"], CPickleSerializer().loads),
        task(asker.ask_frame, order, pa.schema([]), None, ["value"]),
        task(asker.ask_elements, order, None),
        lambda elements: list(pieces(batches_of(elements, 0))),
    )
    (tmp_path / "tasks").write_bytes(cloudpickle.dumps(tasks))
    printed = drivers.run(sys.executable, "-c", TASKS, tmp_path / "tasks")
    assert printed.splitlines() == ["no driver"] * 5 + ["[64, 36]"]


def test_a_column_that_there_is_none_of_and_another_python(spark, submit, monkeypatch):
    """A job that Spark cannot run is not run again before the next data."""
    program = functools.partial(programs.read_columns, columns=("id", "label"))
    with submit(program, needs_folder=False) as app:
        frame = rows(spark, 100, 1)
        with pytest.raises(FeedError, match="asks for column 'label', and the DataFrame has id, x"):
            app.feed(frame)
        with monkeypatch.context() as patch:
            patch.setattr(spark.sparkContext, "pythonVer", "2.7")
            with pytest.raises(FeedError, match="Spark could not send .* has different version"):
                app.feed(frame.rdd)
        with pytest.raises(FeedError, match="asks for column 'label', and the data has id, x"):
            app.feed(frame.rdd)


def test_what_cannot_be_fed_is_told_at_once(spark, shared, submit):
    """And the next data is fed by the same programs."""
    ragged = spark.createDataFrame([(1, [1.0]), (2, [1.0, 2.0])], "id long, x array<float>")
    null = spark.createDataFrame([(1, [1.0]), (None, [2.0])], "id long, x array<float>")
    kinds = spark.sql("select 1L id, map(1, 2) x")
    with submit(programs.collect) as app:
        with pytest.raises(FeedError, match="column 'x' is map<int32, int32.*makes no tensor"):
            app.feed(kinds)
        with pytest.raises(FeedError, match="column 'when' is timestamp, which makes no tensor"):
            app.feed(spark.sql("select 1L id, current_timestamp() when"))
        with pytest.raises(FeedError, match="each column needs a name of its own"):
            app.feed(spark.sql("select 1L id, 2L id"))
        with pytest.raises(FeedError, match="a list cannot be fed; give a Spark DataFrame"):
            app.feed([1, 2])
        with pytest.raises(FeedError, match="'x', row 1 of partition 0: .* 2 values where .* 1"):
            app.feed(ragged.coalesce(1), final=False)
    is_null = pytest.raises(FeedError, match="column 'id', row 1 of partition 0: it is null")
    with submit(programs.collect, replace=True) as app, is_null:
        app.feed(null.coalesce(1))
    with pytest.raises(UsageError, match="app is not fed by this process"):
        tfapp.open("app", "spark").feed(ragged)


def test_a_program_that_never_reads_is_named_and_one_that_fails_told(spark, submit):
    few, more = rows(spark, 256, 1), rows(spark, 200_000, 2, first=256)
    stalls = pytest.raises(FeedError, match="nothing has moved for 5 s: there are batches for wor")
    with submit(programs.wait_for_nothing, needs_folder=False) as app:
        app.feed(few, final=False)
        with stalls:
            app.feed(more, stall_timeout=5)
    program = functools.partial(programs.raise_after, batches=5)
    fails = pytest.raises(ApplicationFailedError, match="batch 5 is bad")
    with submit(program, needs_folder=False, replace=True) as app, fails:
        app.feed(more)


def test_an_empty_source_and_few_rows(spark, shared, submit):
    with submit(programs.collect) as app:
        assert app.feed(rows(spark, 0, 3)).rows == 0
        app.result()
    assert got(shared, 2) == [[], []]
    with submit(programs.collect, replace=True) as app:
        result = app.feed(rows(spark, 70, 3))
        app.result()
    assert (result.rows, result.batches, result.dropped) == (0, 0, 70)


def test_a_stream_is_fed_batch_by_batch(spark, shared, submit, tmp_path):
    for number in range(3):
        rows(spark, 500, 2, first=500 * number).coalesce(1).write.parquet(
            str(shared / "source"), mode="append"
        )
    schema = "id long, x array<float>"
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    with submit(programs.collect) as app:
        query = (
            stream.parquet(str(shared / "source"))
            .writeStream.foreachBatch(lambda batch, _: app.feed(batch, final=False, rest="share"))
            .option("checkpointLocation", str(tmp_path / "checkpoints"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(300)
        result = app.end_feed()
        app.result()
    ids = got(shared, 2)
    assert sorted(ids[0] + ids[1]) == list(range(1500))
    assert result.rows == 1500


def test_inference_keeps_order_and_count_when_a_program_is_killed(spark, submit):
    def in_any_order(row):
        """A Row whose fields come in one order or the other. Executors do not have this module."""
        from pyspark.sql import Row

        found = {"id": row.id, "x": list(row.x)}
        return Row(**found) if row.id % 5 else Row(**dict(reversed(found.items())))

    data = rows(spark, 5000, 4)
    program = functools.partial(programs.answer, dies=True)
    with submit(program, needs_folder=False) as app:
        odd = data.selectExpr("id `the.id`", "x", "timestamp '2026-01-01' + make_interval(0) when")
        answered = app.infer(odd, "total float", columns=["x"])
        assert answered.columns == ["the.id", "x", "when", "total"]
        found = answered.collect()
        totals = app.infer(data.rdd.map(in_any_order), "").collect()
        app.end_feed()
        assert app.result().restarts == 1
    assert [row["the.id"] for row in found] == list(range(5000))
    assert all(row.total == pytest.approx(1.5 * row["the.id"] + 1) for row in found)
    assert {row.when.year for row in found} == {2026}
    assert totals == pytest.approx([row.total for row in found])


def test_a_wrong_number_of_answers_is_told_at_once(spark, submit):
    program = functools.partial(programs.answer, less=1)
    with submit(program, needs_folder=False) as app:
        with pytest.raises(Exception, match="partition 0: the program gave 99 results .* 100 rows"):
            app.infer(rows(spark, 100, 1), "total float").collect()
        with pytest.raises(FeedError, match="the data has a column 'x' already"):
            app.infer(rows(spark, 100, 1), "x float")


@pytest.mark.weekly
def test_the_benchmarks(spark, shared, tmp_path, capsys, request):
    """Their parts at a small size: of spark_feed one kind of data and inference; of
    tensorflowonspark what tfapp's driver does."""
    from pyspark import cloudpickle

    for module in (spark_feed, tensorflowonspark):  # executors do not have them
        cloudpickle.register_pickle_by_value(module)
        request.addfinalizer(functools.partial(cloudpickle.unregister_pickle_by_value, module))
    bench = spark_feed.Bench(spark, shared, rows=80, rounds=1)
    bench.fed("RDD of lists")
    bench.answered()
    told = capsys.readouterr().out
    assert re.search(r"^RDD of lists: [\d.]+ of the read alone \(bar 0.7\): ", told, re.M)
    assert re.search(r"^inference: [\d.]+ of the read alone \(bar 0.5\): ", told, re.M)
    data = tensorflowonspark.make_data(spark, tensorflowonspark.LISTS, 80, tmp_path)
    feed, end = tensorflowonspark.start_ours(spark, tmp_path)
    feed(data)
    assert end() == 80
