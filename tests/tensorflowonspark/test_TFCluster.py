"""A cluster as its driver sees it, on a played engine."""

import types

import pytest

from tests.tensorflowonspark.played import Played
from tfapp.errors import UsageError
from tfapp.tensorflowonspark import TFCluster

SPARK = TFCluster.InputMode.SPARK


@pytest.fixture
def played(monkeypatch, pyspark):
    return Played(monkeypatch)


@pytest.mark.parametrize(
    ("counts", "more", "template"),
    [
        ((1, 0), {}, {"worker": [0]}),
        ((4, 1), {"master_node": "master"}, {"ps": [0], "master": [1], "worker": [2, 3]}),
        ((3, 2), {"master_node": "chief"}, {"ps": [0, 1], "chief": [2]}),
        (
            (5, 1),
            {"master_node": "chief", "eval_node": True},
            {"ps": [0], "chief": [1], "evaluator": [2], "worker": [3, 4]},
        ),
    ],
)
def test_nodes_are_numbered_as_in_their_template(played, counts, more, template):
    """Whatever the order of the application's instances is."""
    cluster = TFCluster.run(played.sc, print, {}, *counts, **more)
    meta, info = cluster.cluster_meta, cluster.cluster_info
    assert list(meta["cluster_template"].items()) == list(template.items())
    assert [one["executor_id"] for one in info] == list(range(counts[0]))
    for role, numbers in template.items():
        found = [one for one in info if one["job_name"] == role]
        assert [one["executor_id"] for one in found] == numbers
        assert [one["task_index"] for one in found] == list(range(len(numbers)))
    assert cluster.cluster_id == meta["id"]
    assert 0 <= meta["id"] < 2**64
    assert (meta["num_executors"], meta["default_fs"]) == (counts[0], "file://")


@pytest.mark.parametrize(
    ("options", "grace"), [({}, 0), ({"site.global.evaluator.timeout": 60}, 60)]
)
def test_an_evaluator_ends_with_the_workers_unless_it_is_given_time(played, options, grace):
    TFCluster.run(played.sc, print, {}, 2, 0, eval_node=True, options=options)
    assert played.submitted["options"]["site.global.evaluator.timeout"] == grace


def test_what_is_wrong_is_told_with_what_to_do(played):
    def run(*counts, **more):
        return TFCluster.run(played.sc, print, {}, *counts, **more)

    unfed, fed = run(1, 0), run(1, 0, input_mode=SPARK)
    for wrong, said in (
        (lambda: run(1, 1), r"no worker and no chief\n1 of them are parameter servers"),
        (lambda: run(2, 0, master_node="boss"), r"'boss'\nIt is chief or master\."),
        (lambda: unfed.train(None), r"themselves\nGive input_mode="),
        (lambda: unfed.inference(None), r"themselves\nGive input_mode="),
        (lambda: fed.train(None, num_epochs=-1), r"num_epochs is -1\nIt is 0 or more\."),
        (lambda: fed.train(None, qname="zz"), r"no queue 'zz'\nKnown: input"),
    ):
        with pytest.raises(UsageError, match=said):
            wrong()


@pytest.mark.parametrize(
    ("more", "on_spark"),
    [
        ({}, True),
        ({"engine": None}, True),
        ({"engine": "spark"}, True),
        ({"engine": "local"}, False),
    ],
)
def test_the_programs_may_run_on_another_engine(played, more, on_spark):
    TFCluster.run(played.sc, print, {}, 1, 0, input_mode=SPARK, **more)
    assert ("spark" in played.submitted) == on_spark
    assert played.submitted.get("engine") == more.get("engine")


def test_no_epochs_are_ten(played):
    cluster = TFCluster.run(played.sc, print, {}, 1, 0, input_mode=SPARK)
    cluster.train("rows")
    cluster.train("rows", num_epochs=3)
    stream = types.SimpleNamespace(foreachRDD=lambda each: each("batch"))
    cluster.train(stream)
    assert played.fed == [("rows", 10), ("rows", 3), ("batch", 1)]
