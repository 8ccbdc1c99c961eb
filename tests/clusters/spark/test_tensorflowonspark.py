"""Programs that were written for TensorFlowOnSpark, on a real Spark cluster."""

import argparse
import contextlib
import dataclasses
import functools
import os
import re
import signal
import time
import urllib.request
from pathlib import Path

import pytest

import tfapp
from tests import python_environments
from tests.clusters.spark import tfos_programs as programs
from tests.clusters.spark.conftest import wait_for
from tfapp.compiler.store import CACHE
from tfapp.errors import ApplicationFailedError, FeedError, TimedOutError, UsageError
from tfapp.tensorflowonspark import TFCluster, TFParallel

EXAMPLES = Path(__file__).parents[3] / "examples" / "tensorflowonspark"
SPARK = TFCluster.InputMode.SPARK
WORDS = ["train", "--epochs", "3"]  # as sys.argv
QUIET = {"name": "app", "replace": True, "show": False}


def args(**more):
    return argparse.Namespace(**{"batch_size": 32, "stop_after": 0, "pause": 0, **more})


@pytest.fixture(scope="module")
def digits():
    """(image, label) of the real digits."""
    from sklearn.datasets import load_digits

    found = load_digits()
    return [(image.tolist(), int(label)) for image, label in zip(found.data, found.target)]


def test_a_cluster_is_fed_and_described(spark):
    """Twice, from an RDD and from a DataFrame, by programs that read to the end, and take longer
    than the feed's timeout for all: TensorFlowOnSpark delivers rows several times then."""
    sc, slow = spark.sparkContext, args(pause=0.4)
    cluster = TFCluster.run(
        sc, programs.collect, slow, 2, 0, input_mode=SPARK, master_node="master", **QUIET
    )
    frame = spark.range(0, 1000, 1, 3)
    cluster.train(frame.rdd, num_epochs=2, feed_timeout=12)
    cluster.train(spark.range(1000, 1500, 1, 5), num_epochs=1, feed_timeout=12)
    info = cluster.cluster_info
    cluster.shutdown(grace_secs=1)
    with pytest.raises(FeedError, match="the feed was ended: no data can come after"):
        cluster.train(frame.rdd, num_epochs=1)
    found = list(cluster.application.result().returned.values())
    assert sorted(found[0]["ids"] + found[1]["ids"]) == sorted(
        [*range(1000)] * 2 + [*range(1000, 1500)]
    )
    assert [one["short"] for one in found] == [1, 1], "only the last batch is short"
    assert [one["place"] for one in found] == [[0, "master", 0, 2], [1, "worker", 0, 2]]
    assert found[0]["cluster"] == {"master": 1, "worker": 1}
    assert found[0]["paths"] == ["/a/b", "hdfs://x/y"]
    assert [(one["job_name"], one["task_index"]) for one in info] == [("master", 0), ("worker", 0)]
    assert all(one["port"] and one["host"] for one in info)
    assert (cluster.num_executors, cluster.input_mode, cluster.sc) == (2, SPARK, sc)
    assert (cluster.defaultFS, cluster.working_dir) == ("file://", os.getcwd())
    assert cluster.nodeRDD.collect() == [0, 1]
    assert cluster.cluster_id == cluster.cluster_meta["id"]
    assert cluster.cluster_meta["cluster_template"] == {"master": [0], "worker": [1]}
    assert cluster.tensorboard_url() is None
    assert cluster.server.done


def test_no_epochs_are_ten_and_a_loss_after_train_is_an_error(spark, tmp_path):
    """Also of no rows at all; `train` returns when all are consumed."""
    tmp_path.chmod(0o777)
    sc, options = spark.sparkContext, args(pids=str(tmp_path))
    cluster = TFCluster.run(sc, programs.collect, options, 2, 0, input_mode=SPARK, **QUIET)
    cluster.train(sc.emptyRDD())
    cluster.train(spark.range(0, 100, 1, 3).rdd)
    counters = cluster.application.feed(sc.emptyRDD(), final=False)
    assert (counters.rows, counters.consumed) == (1000, 1000)
    os.kill(int((tmp_path / "pid-1").read_text()), signal.SIGKILL)
    with pytest.raises(
        ApplicationFailedError, match=r"1000 rows were consumed before .*train\(\) r"
    ):
        cluster.shutdown()
    assert cluster.application.status().state == "FAILED"


def test_programs_that_end_before_they_ask_for_a_row(spark):
    cluster = TFCluster.run(
        spark.sparkContext, programs.alone, args(), 2, 0, input_mode=SPARK, **QUIET
    )
    cluster.train(spark.range(0, 100, 1, 3).rdd, num_epochs=1)
    cluster.shutdown()
    assert cluster.application.result().succeeded


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("raises", "(?s)worker/1 .* the batch is bad"),
        ("exports late", "the export failed"),
    ],
)
def test_a_program_that_ends_badly(spark, how, said):
    """TensorFlowOnSpark's own `train` and `shutdown` tell success when one raises in the middle or
    after the last row, and take 40 minutes to notice one that was killed."""
    options, more = args(how=how), {"input_mode": SPARK, "retries": 0, **QUIET}
    cluster = TFCluster.run(spark.sparkContext, programs.end_badly, options, 2, 0, **more)
    with pytest.raises(ApplicationFailedError, match=said):
        cluster.train(spark.range(0, 2000, 1, 4).rdd, num_epochs=1)
        cluster.shutdown()
    assert spark.range(10).count() == 10, "Spark goes on"


def test_inference_keeps_order_and_what_is_wrong_is_told(spark):
    """A wrong number of results, and why a program has failed."""
    rows = spark.range(0, 1000, 1, 4).rdd.map(lambda row: ([float(row.id), 1.0], row.id))
    wrong = {(1, False): "partition .: the program left 1 of its rows"}
    wrong[0, True] = "worker/. on .* ended with exit code 1 .*ValueError: the model is bad"
    for left_out, fails in ((0, False), *wrong):
        cluster = TFCluster.run(
            spark.sparkContext,
            programs.answer,
            {"left_out": left_out, "fails": fails},
            2,
            0,
            input_mode=SPARK,
            retries=0,
            **QUIET,
        )
        results = cluster.inference(rows)
        if (left_out, fails) in wrong:
            with pytest.raises(Exception, match=wrong[left_out, fails]):
                results.collect()
            cluster.application.stop(force=True)
        else:
            assert results.collect() == [f"label {n}, sum {n + 1}" for n in range(1000)]
            cluster.shutdown()


@pytest.mark.parametrize(
    ("name", "option", "result"),
    [
        ("digits-spark", "--export_dir", "saved_model.pb"),
        pytest.param(*("digits-tf", "--model_dir", "weights-0006.index"), marks=pytest.mark.weekly),
    ],
)
def test_an_example(drivers, tmp_path, name, option, result):
    """Keras under MultiWorkerMirroredStrategy, in both input modes."""
    tmp_path.chmod(0o777)
    environ = {**drivers.environ, "TFAPP_HOME": os.environ["TFAPP_HOME"]}
    submit = dataclasses.replace(drivers, environ=environ).running
    one_executor = ("spark-submit", "--conf", "spark.cores.max=3")
    program = EXAMPLES / f"{name.replace('-', '_')}.py"
    with submit(*one_executor, program, option, tmp_path / "made") as process:
        said = process.communicate(timeout=550)[0]
    assert process.returncode == 0, said
    (log,) = tfapp.open(name, "spark").logs("chief").values()
    accuracies = [float(found) for found in re.findall(r"accuracy: ([0-9.]+)", log)]
    assert accuracies[-1] > 0.9, log
    assert (tmp_path / "made" / result).exists()


@pytest.mark.weekly
def test_an_estimator_of_an_older_tensorflow(spark, digits, tmp_path):
    tmp_path.chmod(0o777)
    python_environments.share_with_estimators(tmp_path / "home")
    made = tmp_path / "home" / CACHE / "environments"
    (environment,) = [path for path in made.iterdir() if path.is_dir()]
    options = args(steps=40, model_dir=str(tmp_path / "model"))
    cluster = TFCluster.run(
        spark.sparkContext,
        programs.estimator,
        options,
        1,
        0,
        input_mode=SPARK,
        master_node="chief",
        python=str(environment / "bin" / "python"),
        env={"PYTHONPATH": str(python_environments.older_pyarrow())},
        **QUIET,
    )
    cluster.train(spark.sparkContext.parallelize(digits, 3))
    cluster.shutdown()
    assert cluster.application.result().returned == {"chief/0": {"steps": 40}}


def test_a_stream_goes_on_until_the_programs_stop(spark, monkeypatch):
    """Discretized streams, where this Spark has them."""
    streaming = pytest.importorskip("pyspark.streaming")
    sc = spark.sparkContext
    with pytest.warns(FutureWarning):
        ssc = streaming.StreamingContext(sc, 1)
    rows = [sc.parallelize([{"id": n} for n in range(100 * k, 100 * k + 100)]) for k in range(60)]
    options = args(stop_after=300, batch_size=10)
    cluster = TFCluster.run(sc, programs.collect, options, 2, 0, input_mode=SPARK, **QUIET)
    cluster.train(ssc.queueStream(rows), feed_timeout=86400)
    ssc.start()
    try:
        cluster.shutdown(ssc)
    finally:
        ssc.stop(stopSparkContext=False, stopGraceFully=False)
    found = list(cluster.application.result().returned.values())
    ids = found[0]["ids"] + found[1]["ids"]
    assert len(ids) == len(set(ids)) >= 300
    assert spark.range(10).count() == 10, "Spark goes on"


def test_instances_that_know_nothing_of_each_other(spark):
    found = TFParallel.run(spark.sparkContext, programs.alone, args(), 2, **QUIET)
    assert [(one["id"], one["of"], one["config"]) for one in found] == [(0, 2, ""), (1, 2, "")]


def answers(url):
    """Whether it is the page of a TensorBoard, which begins to listen a while after its start."""
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=60) as page:
        return b"TensorBoard" in page.read()
    return False


@pytest.mark.weekly
def test_a_shutdown_that_takes_too_long_stops_the_cluster(spark, tmp_path):
    """Its TensorBoard runs meanwhile."""

    def endless(_, ctx):
        time.sleep(10_000)

    cluster = TFCluster.run(
        spark.sparkContext, endless, args(), 1, 0, tensorboard=True, log_dir=str(tmp_path), **QUIET
    )
    wait_for(functools.partial(answers, cluster.tensorboard_url()), "answer of TensorBoard")
    with pytest.raises(TimedOutError, match="app was stopped: it has not ended in the time"):
        cluster.shutdown(timeout=2)
    assert cluster.application.status().verdict.state == "KILLED"


def test_arguments_that_cannot_be_meant_or_mean_nothing(spark):
    sc = spark.sparkContext
    with pytest.raises(UsageError, match="a cluster of 1 nodes has no worker and no chief"):
        TFCluster.run(sc, programs.alone, args(), 1, 1)
    with pytest.raises(UsageError, match="master_node is 'boss'"):
        TFCluster.run(sc, programs.alone, args(), 2, 0, master_node="boss")
    with pytest.warns(UserWarning, match="release_port has no meaning here"):
        cluster = TFCluster.run(
            sc, programs.alone, WORDS, 2, 1, release_port=False, driver_ps_nodes=True, **QUIET
        )
    with pytest.raises(UsageError, match="the programs read their data themselves"):
        cluster.train(sc.parallelize([1]))
    hosts = {one["job_name"]: one["host"] for one in cluster.cluster_info}
    cluster.shutdown(timeout=-1)
    assert cluster.application.result().returned["worker/0"]["words"] == ["--epochs", "3"]
    assert hosts["ps"] == sc.getConf().get("spark.driver.host")
    assert hosts["worker"] != hosts["ps"]
