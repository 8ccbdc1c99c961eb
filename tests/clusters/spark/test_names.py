"""Every name of TensorFlowOnSpark's page of TFCluster is here and in the documentation."""

import inspect
from pathlib import Path

import pytest

from tfapp.tensorflowonspark import TFCluster

PAGE = Path(__file__).parents[3] / "docs" / "tensorflowonspark.md"
# As that page has them; what is more here has a default and comes after.
ARGUMENTS = {
    "run": {
        **dict.fromkeys(("sc", "map_fun", "tf_args", "num_executors", "num_ps"), ...),
        "tensorboard": False,
        "input_mode": TFCluster.InputMode.TENSORFLOW,
        "log_dir": None,
        "driver_ps_nodes": False,
        "master_node": None,
        "reservation_timeout": 600,
        "queues": ("input", "output", "error"),
        "eval_node": False,
        "release_port": True,
    },
    "TFCluster.train": {"dataRDD": ..., "num_epochs": 0, "feed_timeout": 600, "qname": "input"},
    "TFCluster.inference": {"dataRDD": ..., "feed_timeout": 600, "qname": "input"},
    "TFCluster.shutdown": {"ssc": None, "grace_secs": 0, "timeout": 259200},
    "TFCluster.tensorboard_url": {},
}
# Their values: test_tensorflowonspark.py.
ATTRIBUTES = (
    *("sc", "defaultFS", "working_dir", "num_executors", "nodeRDD", "cluster_id", "cluster_info"),
    *("cluster_meta", "input_mode", "queues", "server"),
)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments(name):
    found = TFCluster
    for part in name.split("."):
        found = getattr(found, part)
    signature = inspect.signature(found)
    defaults = {
        argument.name: ... if argument.default is inspect.Parameter.empty else argument.default
        for argument in signature.parameters.values()
        if argument.name != "self" and argument.kind != inspect.Parameter.VAR_KEYWORD
    }
    assert list(defaults.items()) == list(ARGUMENTS[name].items())
    text = PAGE.read_text()
    assert name.rpartition(".")[2] in text
    assert [argument for argument in defaults if argument not in text] == []


def test_attributes():
    text = PAGE.read_text()
    assert [name for name in ATTRIBUTES if f"`{name}`" not in text] == []
    modes = TFCluster.InputMode
    assert (modes.TENSORFLOW, modes.SPARK) == (0, 1)
