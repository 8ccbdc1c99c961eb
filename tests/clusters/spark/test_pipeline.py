"""Stages of a Spark ML pipeline and TFRecord files, on a real Spark cluster."""

import numpy as np
import pytest

from tests.clusters.spark import tfos_programs as programs
from tfapp.errors import ExistsError, NotFoundError, UsageError

SCHEMA = (
    "image array<float>, label int, name string, raw binary, ok boolean, words array<string>, "
    "total double, none long"
)


@pytest.fixture
def open_path(tmp_path):
    """A folder that every task can write to."""
    tmp_path.chmod(0o777)
    return tmp_path


@pytest.fixture
def dfutil(spark):
    """The module. It needs pyspark, which is where the cluster is."""
    from tfapp.tensorflowonspark import dfutil

    return dfutil


@pytest.mark.weekly
def test_a_frame_becomes_records_and_a_frame_again(spark, dfutil, open_path):
    rows = [
        ([0.5 * n, 1.0], n, f"name {n}", bytearray([n, 255]), n % 2 == 0, ["a", "é"], n / 4, None)
        for n in range(20)
    ]
    folder = f"file://{open_path}/records"
    dfutil.saveAsTFRecords(spark.createDataFrame(rows, SCHEMA).repartition(2), folder)
    names = sorted(path.name for path in (open_path / "records").iterdir())
    assert names == ["_SUCCESS", "part-00000", "part-00001"]
    again = dfutil.loadTFRecords(spark.sparkContext, folder, schema=SCHEMA)
    assert dfutil.isLoadedDF(again) and not dfutil.isLoadedDF(spark.range(1))
    found = sorted((tuple(row) for row in again.collect()), key=lambda row: row[1])
    assert found == rows
    guessed = dfutil.loadTFRecords(spark.sparkContext, folder, ["raw"])
    assert dict(guessed.dtypes) == {
        "image": "array<float>",
        "label": "bigint",
        "name": "string",
        "ok": "bigint",
        "raw": "binary",
        "total": "float",
        "words": "array<string>",
    }
    with pytest.raises(ExistsError, match="records is there already"):
        dfutil.saveAsTFRecords(again, folder)
    with pytest.raises(NotFoundError, match="there is no file and no folder"):
        dfutil.loadTFRecords(spark.sparkContext, f"{folder}-2")
    part = dfutil.loadTFRecords(spark.sparkContext, f"{folder}/part-0000[1-9]", schema=SCHEMA)
    assert {tuple(row)[1] for row in part.collect()} < {*range(20)}
    with pytest.raises(UsageError, match="'m' is map<int,int>, which no TFRecord can hold"):
        dfutil.saveAsTFRecords(spark.sql("select map(1, 2) m"), f"{folder}-3")
    assert not (open_path / "records-3").exists()
    for use in (
        lambda path: dfutil.saveAsTFRecords(spark.range(1), path),
        lambda path: dfutil.loadTFRecords(spark.sparkContext, path),
    ):
        with pytest.raises(UsageError, match="opens no such path: File system scheme 'oss'"):
            use("oss://host/records")


def test_examples_of_an_rdd(spark, dfutil):
    one = spark.sparkContext.parallelize([(1, [1.0, 2.0], "a")], 1)
    frame = spark.createDataFrame(one, "n long, x array<float>, s string")
    records = frame.rdd.mapPartitions(dfutil.toTFExample(frame.dtypes))
    (row,) = records.mapPartitions(lambda some: dfutil.fromTFExample(some, ["s"])).collect()
    assert row.asDict() == {"n": 1, "x": [1.0, 2.0], "s": bytearray(b"a")}
    (schema,) = records.map(lambda pair: dfutil.infer_schema(pair[0]).simpleString()).collect()
    assert schema == "struct<n:bigint,s:string,x:array<float>>"


def test_an_estimator_trains_a_model_that_predicts(spark, open_path):
    from sklearn.datasets import load_digits

    from tfapp.tensorflowonspark.pipeline import TFEstimator, TFModel

    digits = load_digits()
    table = [(x.tolist(), int(y), "other") for x, y in zip(digits.data, digits.target)]
    parts = spark.sparkContext.parallelize(table, 2)
    frame = spark.createDataFrame(parts, "image array<float>, label int, other string")
    estimator = TFEstimator(programs.pipeline, {"own": 1}, name="app", replace=True, show=False)
    estimator.setInputMapping({"image": "image", "label": "label"}).setClusterSize(2).setEpochs(6)
    estimator.setBatchSize(32).setExportDir(str(open_path / "export"))
    assert (estimator.getEpochs(), estimator.getFeedTimeout()) == (6, 600.0)
    args = estimator.merge_args_params()
    assert (args.own, args.batch_size, args.num_ps, args.steps) == (1, 32, 0, 1000)
    with pytest.raises(TypeError, match="no dictionary"):
        estimator.setInputMapping(["image"])
    model = estimator.fit(frame.repartition(4))
    assert isinstance(model, TFModel)
    with pytest.raises(UsageError, match="output_mapping is not set"):
        model.transform(frame)
    model.setInputMapping({"image": "image"}).setOutputMapping({"dense": "scores"})
    answered = model.transform(frame)
    assert answered.dtypes == [("scores", "array<float>")]
    scores = np.array([row.scores for row in answered.collect()])
    assert (scores.argmax(1) == digits.target).mean() > 0.9, "the rows kept their order"
    with pytest.raises(UsageError, match="names the output 'no'"):
        model.copy().setOutputMapping({"no": "scores"}).transform(frame)
    with pytest.raises(NotFoundError, match="there is no SavedModel in /nowhere"):
        model.copy().setExportDir("/nowhere").transform(frame)
