"""TensorFlow as stages of a Spark ML pipeline.

    estimator = TFEstimator(train_fn, args)
    estimator.setInputMapping({"image": "image", "label": "label"}).setClusterSize(2)
    model = estimator.setEpochs(3).setExportDir("/shared/export").fit(frame)
    model.setInputMapping({"image": "image"}).setOutputMapping({"dense": "scores"})
    predicted = model.transform(frame)

Importing this module needs pyspark.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.ml.base import Estimator, Model
from pyspark.ml.param.shared import Param, Params, TypeConverters

from tfapp.api.errors import told_in_full
from tfapp.errors import UsageError
from tfapp.tensorflowonspark import TFCluster
from tfapp.tensorflowonspark.arguments import meaningless
from tfapp.tensorflowonspark.predicting import predict
from tfapp.tensorflowonspark.TFNode import Namespace


class TFTypeConverters:
    """What TypeConverters of Spark does not have."""

    @staticmethod
    def toDict(value: Any) -> dict[str, str]:
        if not isinstance(value, Mapping):
            raise TypeError(f"{value!r} is no dictionary")
        return {str(key): str(name) for key, name in value.items()}

    @staticmethod
    def toFedMode(value: Any) -> int:
        if value != TFCluster.InputMode.SPARK:
            raise UsageError("a stage is fed by Spark", "input_mode is InputMode.SPARK.")
        return TFCluster.InputMode.SPARK


_int, _text = TypeConverters.toInt, TypeConverters.toString
_float, _bool = TypeConverters.toFloat, TypeConverters.toBoolean
# name: (what a value is converted by, its default, what it is)
_OPTIONS: dict[str, tuple[Callable[[Any], Any], Any, str]] = {
    "batch_size": (_int, 100, "rows of a batch"),
    "cluster_size": (_int, 1, "nodes of the cluster"),
    "driver_ps_nodes": (_bool, False, "parameter servers run on the driver"),
    "epochs": (_int, 1, "how often the rows are fed; 0: 10 times"),
    "eval_node": (_bool, False, "one node is the evaluator"),
    "export_dir": (_text, None, "folder of the SavedModel"),
    "feed_timeout": (_float, 600.0, "seconds without progress of the feed"),
    "grace_secs": (_int, 30, "no meaning: programs have the time they take"),
    "input_mapping": (TFTypeConverters.toDict, {}, "column -> name of its values in the program"),
    "input_mode": (TFTypeConverters.toFedMode, TFCluster.InputMode.SPARK, "InputMode.SPARK"),
    "log_dir": (_text, None, "folder that TensorBoard shows"),
    "master_node": (_text, "chief", "name of the chief: chief or master; None: no chief"),
    "model_dir": (_text, None, "folder of checkpoints"),
    "num_ps": (_int, 0, "how many nodes are parameter servers"),
    "output_mapping": (TFTypeConverters.toDict, {}, "output of the signature -> column"),
    "protocol": (_text, "grpc", "no meaning: TensorFlow 2 has gRPC alone"),
    "readers": (_int, 1, "no meaning: each program is fed by the executors"),
    "reservation_timeout": (_float, 600.0, "seconds until all nodes are there"),
    "shutdown_timeout": (_float, TFCluster.TIMEOUT, "seconds for the last batches"),
    "signature_def_key": (_text, "serving_default", "signature of the model"),
    "steps": (_int, 1000, "how many steps a program trains, for its own use"),
    "tag_set": (_text, "serve", "tags of the SavedModel, with commas"),
    "tensorboard": (_bool, False, "a TensorBoard besides"),
    "tfrecord_dir": (_text, None, "folder of TFRecords, for own use"),
}
_CAPITALS = {"ps": "PS", "tfrecord": "TFRecord"}


def _has(*names: str) -> Any:
    """A base class of stages that have these options as Params of Spark ML, each with a setter and
    a getter such as `setBatchSize` and `getBatchSize`. It is called after the first."""
    titles = ["".join(_CAPITALS.get(w, w.capitalize()) for w in n.split("_")) for n in names]
    members: dict[str, Any] = {}
    for name, title in zip(names, titles):
        convert, _, doc = _OPTIONS[name]
        members[name] = Param(Params._dummy(), name, doc, typeConverter=convert)
        members[f"set{title}"] = _setter(name)
        members[f"get{title}"] = _getter(name)
    return type(f"Has{titles[0]}", (Params,), {"__module__": __name__, **members})


def _setter(name: str) -> Callable[..., Any]:
    def set(self: Any, value: Any) -> Any:
        return self._set(**{name: value})

    set.__doc__ = f"Sets `{name}`."
    return set


def _getter(name: str) -> Callable[..., Any]:
    def get(self: Any) -> Any:
        return self.getOrDefault(name)

    get.__doc__ = f"`{name}`, set or by default."
    return get


HasBatchSize: Any = _has("batch_size")
HasClusterSize: Any = _has("cluster_size")
HasEpochs: Any = _has("epochs")
HasEvalNode: Any = _has("eval_node")
HasExportDir: Any = _has("export_dir")
HasGraceSecs: Any = _has("grace_secs")
HasInputMapping: Any = _has("input_mapping")
HasInputMode: Any = _has("input_mode")
HasLogDir: Any = _has("log_dir")
HasMasterNode: Any = _has("master_node")
HasModelDir: Any = _has("model_dir")
HasNumPS: Any = _has("num_ps", "driver_ps_nodes")
HasOutputMapping: Any = _has("output_mapping")
HasProtocol: Any = _has("protocol")
HasReaders: Any = _has("readers")
HasSignatureDefKey: Any = _has("signature_def_key")
HasSteps: Any = _has("steps")
HasTagSet: Any = _has("tag_set")
HasTensorboard: Any = _has("tensorboard")
HasTFRecordDir: Any = _has("tfrecord_dir")
HasTimeouts: Any = _has("feed_timeout", "reservation_timeout", "shutdown_timeout")


class TFParams(Params):
    """A base class of stages with options. `args`: the program's own arguments, to which the
    options are added."""

    args: Any = None

    def _begin(self, tf_args: Any, export_fn: Any, instead: str) -> None:
        """Takes the arguments of a stage. `instead`: what to do instead of an `export_fn`."""
        if export_fn is not None:
            raise UsageError("export_fn is for TensorFlow 1", instead)
        known = (list, Mapping, argparse.Namespace, type(None))
        self.args = Namespace(tf_args) if isinstance(tf_args, known) else tf_args
        self._setDefault(**{param.name: _OPTIONS[param.name][1] for param in self.params})

    def merge_args_params(self) -> Any:
        """The program's arguments with all options of this stage; those that are not set and have
        no default are None."""
        merged = copy.copy(self.args) if self.args is not None else Namespace()
        for param in self.params:
            setattr(merged, param.name, self._option(param.name))
        return merged

    def _option(self, name: str) -> Any:
        param = self.getParam(name)
        return self.getOrDefault(param) if self.isDefined(param) else None


class TFEstimator(
    Estimator,
    TFParams,
    HasBatchSize,
    HasClusterSize,
    HasEpochs,
    HasEvalNode,
    HasExportDir,
    HasGraceSecs,
    HasInputMapping,
    HasInputMode,
    HasLogDir,
    HasMasterNode,
    HasModelDir,
    HasNumPS,
    HasProtocol,
    HasReaders,
    HasSteps,
    HasTensorboard,
    HasTFRecordDir,
    HasTimeouts,
):
    """A stage that trains a model with `train_fn(args, ctx)` on a cluster. The function reads the
    columns of `input_mapping` from `ctx.get_data_feed(input_mapping=args.input_mapping)`. One node
    is the chief, unless `master_node` is None.

    `tf_args`: its own arguments, an argparse.Namespace or a dictionary, to which the options are
    added; or a list, as of a command line, which it gets as it is. `more`: arguments of
    `tfapp.submit`, such as packages=["pyarrow"]. UsageError for `export_fn`, which is for
    TensorFlow 1."""

    def __init__(
        self,
        train_fn: Callable[..., Any],
        tf_args: Any = None,
        export_fn: Callable[..., Any] | None = None,
        **more: Any,
    ):
        super().__init__()
        self._begin(tf_args, export_fn, "Export the model at the end of train_fn.")
        self.train_fn, self._more = train_fn, more

    @told_in_full()
    def _fit(self, dataset: Any) -> TFModel:
        args = self.merge_args_params()
        words = getattr(args, "argv", None)
        for name in ("protocol", "readers"):
            if self.isSet(name):
                meaningless(name, self.getParam(name).doc.partition(": ")[2])
        mapping = self._option("input_mapping")
        columns = sorted(mapping) if mapping else dataset.columns
        cluster = TFCluster.run(
            dataset.sparkSession.sparkContext,
            self.train_fn,
            words if isinstance(words, list) else args,
            self._option("cluster_size"),
            self._option("num_ps"),
            self._option("tensorboard"),
            TFCluster.InputMode.SPARK,
            log_dir=self._option("log_dir"),
            driver_ps_nodes=self._option("driver_ps_nodes"),
            master_node=self._option("master_node"),
            reservation_timeout=self._option("reservation_timeout"),
            eval_node=self._option("eval_node"),
            **self._more,
        )
        try:
            cluster.train(
                dataset.select(*columns), self._option("epochs"), self._option("feed_timeout")
            )
            cluster.shutdown(timeout=self._option("shutdown_timeout"))
        except BaseException:
            cluster.application.stop("the fit was given up", force=True)
            raise
        return self._copyValues(TFModel(self.args))


class TFModel(
    Model,
    TFParams,
    HasBatchSize,
    HasExportDir,
    HasInputMapping,
    HasModelDir,
    HasOutputMapping,
    HasSignatureDefKey,
    HasTagSet,
):
    """A stage that returns a DataFrame with the outputs of the SavedModel in `export_dir`, or else
    in `model_dir`, one row for each row of its input.

    `input_mapping`: {column: input of the signature}. `output_mapping`: {output of the signature:
    column}. Each Python worker of Spark loads the model once, and needs TensorFlow."""

    def __init__(self, tf_args: Any = None, export_fn: Callable[..., Any] | None = None):
        super().__init__()
        self._begin(tf_args, export_fn, "Set signature_def_key for another signature.")

    @told_in_full()
    def _transform(self, dataset: Any) -> Any:
        folder = self._option("export_dir") or self._option("model_dir")
        inputs, outputs = self._option("input_mapping"), self._option("output_mapping")
        for name, value in (
            ("export_dir", folder),
            ("input_mapping", inputs),
            ("output_mapping", outputs),
        ):
            if not value:
                raise UsageError(f"{name} is not set", "Set it before transform.")
        return predict(
            dataset,
            folder,
            inputs,
            outputs,
            signature=self._option("signature_def_key"),
            tags=self._option("tag_set").split(","),
            batch=self._option("batch_size"),
        )
