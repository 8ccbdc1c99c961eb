"""Stages have the options of TensorFlowOnSpark, and one's own stages too."""

import argparse
import inspect

import pytest

from tfapp.errors import UsageError
from tfapp.tensorflowonspark.TFNode import Namespace

# As in the pipeline of TensorFlowOnSpark 2.2.5: class -> options, with their setters.
MIXINS = {
    "HasBatchSize": {"batch_size": "BatchSize"},
    "HasClusterSize": {"cluster_size": "ClusterSize"},
    "HasEpochs": {"epochs": "Epochs"},
    "HasExportDir": {"export_dir": "ExportDir"},
    "HasGraceSecs": {"grace_secs": "GraceSecs"},
    "HasInputMapping": {"input_mapping": "InputMapping"},
    "HasInputMode": {"input_mode": "InputMode"},
    "HasMasterNode": {"master_node": "MasterNode"},
    "HasModelDir": {"model_dir": "ModelDir"},
    "HasNumPS": {"num_ps": "NumPS", "driver_ps_nodes": "DriverPSNodes"},
    "HasOutputMapping": {"output_mapping": "OutputMapping"},
    "HasProtocol": {"protocol": "Protocol"},
    "HasReaders": {"readers": "Readers"},
    "HasSignatureDefKey": {"signature_def_key": "SignatureDefKey"},
    "HasSteps": {"steps": "Steps"},
    "HasTFRecordDir": {"tfrecord_dir": "TFRecordDir"},
    "HasTagSet": {"tag_set": "TagSet"},
    "HasTensorboard": {"tensorboard": "Tensorboard"},
}
OF_A_MODEL = (
    *("HasBatchSize", "HasExportDir", "HasInputMapping", "HasModelDir", "HasOutputMapping"),
    *("HasSignatureDefKey", "HasTagSet"),
)
# What an estimator's program sees where nothing is set.
DEFAULTS = {
    "batch_size": 100,
    "cluster_size": 1,
    "driver_ps_nodes": False,
    "epochs": 1,
    "export_dir": None,
    "grace_secs": 30,
    "input_mapping": {},
    "input_mode": 1,
    "master_node": "chief",
    "model_dir": None,
    "num_ps": 0,
    "protocol": "grpc",
    "readers": 1,
    "steps": 1000,
    "tensorboard": False,
    "tfrecord_dir": None,
}


@pytest.fixture
def pipeline(pyspark):
    from tfapp.tensorflowonspark import pipeline

    return pipeline


def test_classes_of_options(pipeline):
    values = {"input_mapping": {"a": "b"}, "output_mapping": {"a": "b"}, "input_mode": 1}
    values.update(dict.fromkeys(("driver_ps_nodes", "tensorboard"), True))
    texts = ("protocol", "master_node", "signature_def_key", "tag_set")
    for name, options in MIXINS.items():
        mixin = getattr(pipeline, name)
        assert (mixin.__name__, mixin.__module__) == (name, pipeline.__name__)
        for option, title in options.items():
            is_text = option.endswith("_dir") or option in texts
            value = values.get(option, "text" if is_text else 7)
            stage = getattr(mixin(), f"set{title}")(value)
            assert getattr(stage, f"get{title}")() == value
        assert issubclass(pipeline.TFModel, mixin) == (name in OF_A_MODEL)
        of_both = issubclass(pipeline.TFEstimator, mixin) or issubclass(pipeline.TFModel, mixin)
        assert of_both, name


def test_a_stage_of_ones_own(pipeline):
    """As in TensorFlowOnSpark's own test: its arguments are merged with its options alone."""

    class Own(pipeline.TFParams, pipeline.HasBatchSize, pipeline.HasSteps):
        def __init__(self, args):
            super().__init__()
            self.args = args

    own = Own(Namespace({"a": 1, "b": 2})).setBatchSize(10)
    wanted = {"a": 1, "b": 2, "batch_size": 10, "steps": None}
    assert own.merge_args_params() == Namespace(wanted)
    assert own.setSteps(100).merge_args_params() == Namespace({**wanted, "steps": 100})
    assert own.args == Namespace({"a": 1, "b": 2})


@pytest.mark.parametrize("own", [{}, None, argparse.Namespace()])
def test_an_estimator_has_a_chief_and_nothing_unset(pipeline, own):
    args = vars(pipeline.TFEstimator(print, own).merge_args_params())
    assert {name: args[name] for name in DEFAULTS} == DEFAULTS
    assert args["log_dir"] is None
    without = pipeline.TFEstimator(print, own).setMasterNode(None)
    assert without.merge_args_params().master_node is None


def test_what_a_cluster_gets_and_how_its_model_is_found(pipeline, monkeypatch):
    calls = []

    class Cluster:
        def train(self, *args):
            calls.append(("train", *args))

        def shutdown(self, **more):
            calls.append(("shutdown", more))

    def run(_, program, args, size, *__, **more):
        calls.append((program, args, size, more["master_node"]))
        return Cluster()

    monkeypatch.setattr(pipeline.TFCluster, "run", run)

    class Frame:
        columns = ("b", "a", "c")

        def __getattr__(self, name):
            return Frame()

        def select(self, *columns):
            return columns

    words = ["--lr", "0.1"]
    for own, wanted in (({"lr": 0.1}, None), (words, words)):
        calls.clear()
        estimator = pipeline.TFEstimator(print, own).setClusterSize(2).setExportDir("/made")
        model = estimator.setInputMapping({"b": "x", "a": "y"}).setEpochs(3).fit(Frame())
        (program, args, size, master), train, shutdown = calls
        assert (program, size, master) == (print, 2, "chief")
        if wanted is None:
            assert (args.lr, args.epochs, args.export_dir, args.model_dir) == (
                0.1,
                3,
                "/made",
                None,
            )
        else:
            assert args == wanted
        assert train == ("train", ("a", "b"), 3, 600.0)
        assert (model.getExportDir(), model.getInputMapping()) == ("/made", {"b": "x", "a": "y"})


def test_what_cannot_be_meant_is_told_with_what_to_do(pipeline):
    estimator = pipeline.TFEstimator(print, {})
    with pytest.raises(TypeError, match="no dictionary"):
        estimator.setInputMapping(["image"])
    with pytest.raises(UsageError, match="a stage is fed by Spark"):
        estimator.setInputMode(0)
    with pytest.raises(UsageError, match=r"(?s)export_dir is not set.*Set it before transform"):
        pipeline.TFModel({}).transform(object())
    for stage in (pipeline.TFEstimator, pipeline.TFModel):
        assert "export_fn" in inspect.signature(stage).parameters
