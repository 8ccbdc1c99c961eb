"""What a program of TensorFlowOnSpark finds in its context and its arguments."""

import argparse
import types

import pytest

from tfapp.errors import ProgramError
from tfapp.tensorflowonspark import TFNode
from tfapp.tensorflowonspark.TFNode import DataFeed, Namespace, Place, TFNodeContext


def context(instance, *members):
    role, _, index = instance.partition("/")
    found = [
        types.SimpleNamespace(instance=one, role=one.partition("/")[0], host="h") for one in members
    ]
    return types.SimpleNamespace(
        instance=instance,
        component=role,
        index=int(index),
        cluster={"worker": ["h:1"]},
        task=(role, [one for one in members if one.startswith(role)].index(instance)),
        members=found,
    )


def test_its_number_is_that_of_the_cluster():
    """Without worker/0 and worker/2, which have not come."""
    found = TFNodeContext(context("worker/3", "worker/1", "worker/3"), Place("file://", "/", ""))
    assert (found.task_index, found.num_workers, found.executor_id) == (1, 2, 1)


def test_arguments_are_those_of_tensorflowonspark():
    given = {"string": "foo", "array": [1, 2, 3], "map": {"a": 1}}
    for namespace in (Namespace(given), Namespace(Namespace(given))):
        assert vars(namespace) == given
        assert set(namespace) == set(given)
        assert ("string" in namespace, "extra" in namespace) == (True, False)
        assert namespace.argv is None
    assert Namespace(argparse.Namespace(a=1)) == Namespace({"a": 1}) == Namespace(a=1)
    words = ["--foo", "1"]
    assert Namespace(words).argv == words
    assert list(Namespace(words)) == words


def test_executors_are_numbered_as_in_the_driver():
    """See test_nodes_are_numbered_as_in_their_template."""
    members = "tensorboard/0", "worker/0", "worker/1", "evaluator/0", "chief/0", "ps/0"
    order = "ps/0", "chief/0", "evaluator/0", "worker/0", "worker/1"
    for number, instance in enumerate(order):
        found = TFNodeContext(context(instance, *members), Place("file://", "/here", "master"))
        assert found.executor_id == found.worker_num == number
        assert found.num_workers == 3
        assert found.cluster_spec["evaluator"] == ["h:0"]


def test_names_that_have_another_meaning_now():
    found = TFNodeContext(context("worker/0", "worker/0"), Place("file://", "/here", ""))
    assert found.tmp_socket is None
    found.release_port()
    TFNode.release_port(found)
    for old in (
        found.start_cluster_server,
        found.export_saved_model,
        lambda: TFNode.start_cluster_server(found, 1, rdma=False),
        lambda: TFNode.export_saved_model(None, "/made", "serve", {}),
    ):
        with pytest.raises(ProgramError, match="is for TensorFlow 1"):
            old()
    assert not DataFeed(types.SimpleNamespace(feed=None)).done_feeding
