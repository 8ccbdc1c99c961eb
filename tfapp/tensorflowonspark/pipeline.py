"""TensorFlow as stages of a Spark ML pipeline.

    estimator = TFEstimator(train_fn, args)
    estimator.setInputMapping({"image": "image", "label": "label"}).setClusterSize(2)
    model = estimator.setEpochs(3).setExportDir("/shared/export").fit(frame)
    model.setInputMapping({"image": "image"}).setOutputMapping({"output_0": "scores"})
    predicted = model.transform(frame)

Importing this module needs pyspark.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.ml.base import Estimator, Model
from pyspark.ml.param.shared import Param, Params, TypeConverters

from tfapp.errors import UsageError
from tfapp.tensorflowonspark import TFCluster
from tfapp.tensorflowonspark.arguments import meaningless
from tfapp.tensorflowonspark.predicting import predict
from tfapp.tensorflowonspark.TFNode import Namespace

# name, what a value is converted by, its default, what it is
_OPTIONS = (
    ("batch_size", TypeConverters.toInt, 100, "rows of a batch"),
    ("cluster_size", TypeConverters.toInt, 1, "nodes of the cluster"),
    ("driver_ps_nodes", TypeConverters.toBoolean, False, "parameter servers run on the driver"),
    ("epochs", TypeConverters.toInt, 1, "how often the rows are fed; 0: until the programs stop"),
    ("eval_node", TypeConverters.toBoolean, False, "one node is the evaluator"),
    ("export_dir", TypeConverters.toString, None, "folder of the SavedModel"),
    ("feed_timeout", TypeConverters.toFloat, 600.0, "seconds without progress of the feed"),
    ("grace_secs", TypeConverters.toInt, 30, "no meaning: programs have the time they take"),
    ("input_mapping", None, None, "column -> name of its values in the program"),
    ("log_dir", TypeConverters.toString, None, "folder that TensorBoard shows"),
    ("master_node", TypeConverters.toString, None, "name of the chief: chief or master"),
    ("model_dir", TypeConverters.toString, None, "folder of checkpoints"),
    ("num_ps", TypeConverters.toInt, 0, "how many nodes are parameter servers"),
    ("output_mapping", None, None, "output of the signature -> column"),
    ("protocol", TypeConverters.toString, "grpc", "no meaning: TensorFlow 2 has gRPC alone"),
    ("readers", TypeConverters.toInt, 1, "no meaning: each program is fed by the executors"),
    ("reservation_timeout", TypeConverters.toFloat, 600.0, "seconds until all nodes are there"),
    ("shutdown_timeout", TypeConverters.toFloat, TFCluster.TIMEOUT, "seconds for the last batches"),
    ("signature_def_key", TypeConverters.toString, "serving_default", "signature of the model"),
    ("steps", TypeConverters.toInt, 1000, "how many steps a program trains, for its own use"),
    ("tag_set", TypeConverters.toString, "serve", "tags of the SavedModel, with commas"),
    ("tensorboard", TypeConverters.toBoolean, False, "a TensorBoard besides"),
    ("tfrecord_dir", TypeConverters.toString, None, "folder of TFRecords, for own use"),
)


class TFParams(Params):
    """The options of both stages as Params of Spark ML, each with a setter and a getter such as
    `setBatchSize` and `getBatchSize`. `args`: the program's own arguments, to which the options are
    added."""

    args: Any = None

    def merge_args_params(self) -> Any:
        """The program's arguments with all options that are set or have a default. Arguments that
        are a list, as of a command line, are returned without the options."""
        if isinstance(self.args, list):
            return list(self.args)
        merged = copy.copy(self.args) if self.args is not None else Namespace()
        for param in self.params:
            if self.isDefined(param):
                setattr(merged, param.name, self.getOrDefault(param))
        return merged

    def _option(self, name: str) -> Any:
        param = self.getParam(name)
        return self.getOrDefault(param) if self.isDefined(param) else None


def _to_mapping(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{value!r} is no dictionary")
    return {str(key): str(name) for key, name in value.items()}


def _add_options() -> None:
    for name, convert, _, doc in _OPTIONS:
        param = Param(Params._dummy(), name, doc, typeConverter=convert or _to_mapping)
        setattr(TFParams, name, param)
        words = name.split("_")
        title = "".join(word.upper() if word == "ps" else word.capitalize() for word in words)
        setattr(TFParams, f"set{title}", _setter(name))
        setattr(TFParams, f"get{title}", _getter(name))


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


_add_options()
_DEFAULTS = {name: default for name, _, default, _ in _OPTIONS if default is not None}


class TFEstimator(Estimator, TFParams):
    """A stage that trains a model with `train_fn(args, ctx)` on a cluster. The function reads the
    columns of `input_mapping` from `ctx.get_data_feed(input_mapping=args.input_mapping)`.

    `tf_args`: its own arguments, an argparse.Namespace or a dictionary, to which the options are
    added. `more`: arguments of `tfapp.submit`, such as packages=["pyarrow"]. UsageError for
    `export_fn`, which is for TensorFlow 1."""

    def __init__(
        self,
        train_fn: Callable[..., Any],
        tf_args: Any = None,
        export_fn: Callable[..., Any] | None = None,
        **more: Any,
    ):
        super().__init__()
        if export_fn is not None:
            raise UsageError(
                "export_fn is for TensorFlow 1", "Export the model at the end of train_fn."
            )
        self.train_fn = train_fn
        self.args = Namespace(tf_args) if isinstance(tf_args, Mapping) else tf_args
        self._more = more
        self._setDefault(**_DEFAULTS)

    def _fit(self, dataset: Any) -> TFModel:
        args = self.merge_args_params()
        for name in ("protocol", "readers"):
            if self.isSet(name):
                meaningless(name, self.getParam(name).doc.partition(": ")[2])
        mapping = self._option("input_mapping")
        columns = sorted(mapping) if mapping else dataset.columns
        cluster = TFCluster.run(
            dataset.sparkSession.sparkContext,
            self.train_fn,
            args,
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


class TFModel(Model, TFParams):
    """A stage that returns a DataFrame with the outputs of the SavedModel in `export_dir`, or else
    in `model_dir`, one row for each row of its input.

    `input_mapping`: {column: input of the signature}. `output_mapping`: {output of the signature:
    column}. Each Python worker of Spark loads the model once, and needs TensorFlow."""

    def __init__(self, tf_args: Any = None, export_fn: Callable[..., Any] | None = None):
        super().__init__()
        if export_fn is not None:
            raise UsageError(
                "export_fn is for TensorFlow 1", "Set signature_def_key for another signature."
            )
        self.args = Namespace(tf_args) if isinstance(tf_args, Mapping) else tf_args
        self._setDefault(**_DEFAULTS)

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
