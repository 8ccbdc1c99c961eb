"""The examples of docs/feed.md and docs/tensorflowonspark.md, in one driver."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"

DRIVER = """
import argparse
import functools
import json
import pathlib
import numpy as np
from pyspark.sql import SparkSession
import tfapp

tfapp.submit = functools.partial(tfapp.submit, name="docs", replace=True, show=False)
here = {here!r}
spark = SparkSession.builder.getOrCreate()
rows = spark.range(0, 2000, 1, 4).selectExpr("id", "id % 10 label")
frame = rows.selectExpr("transform(sequence(1, 64), n -> cast(label * n AS float)) image", "label")
frame.coalesce(1).write.parquet(here + "/source")

# ---- docs/feed.md
{train}
learnt = dict(result.returned)

# ---- When programs begin again
new_model = list
learn = list.append

def load_checkpoint(folder):
    return None

def save_checkpoint(values):
    pathlib.Path(here, "saved").write_text(json.dumps([len(values["model"]), *values["feed"]]))

{restore}
with tfapp.submit(train, {{"worker": tfapp.Component("256 MiB")}}, spark=spark, feed=True) as app:
    app.feed(frame, epochs=4)
    app.result()

# ---- Streams
class stream:
    found = spark.readStream.schema(frame.schema).parquet(here + "/source")
    writeStream = found.writeStream.trigger(availableNow=True).option(
        "checkpointLocation", here + "/checkpoints"
    )

def count(context):
    return sum(len(batch["label"]) for batch in context.feed.batches(10))

with tfapp.submit(count, workers, spark=spark, feed=True) as app:
{streams}
    counted = sum(app.result().returned.values())

# ---- Inference
def load():
    return lambda image: np.eye(10)[image[:, 0].astype(int)]

{inference}
found = spark.read.parquet(here + "/predictions")

# ---- docs/tensorflowonspark.md
sc = spark.sparkContext
args = argparse.Namespace(batch_size=10)
images_labels = sc.parallelize([([1.0, 2.0], n) for n in range(100)], 3)
{imports}
{cluster}
print(json.dumps({{
    "trained": [fed.rows, fed.batches, fed.dropped],
    "losses": [len(one["loss"]) for one in learnt.values()],
    "saved": json.loads(pathlib.Path(here, "saved").read_text()),
    "counted": counted,
    "right": found.where("prediction = label").count(),
    "cluster": cluster.application.result().state,
}}))
"""


def examples(page: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"(?ms)^```python\n(.*?)^```$", text)


@pytest.mark.weekly
@pytest.mark.timeout(1000)
def test_the_pages(drivers, tmp_path):
    train, restore, streams, inference = examples("feed.md")
    imports, cluster = examples("tensorflowonspark.md")
    source = DRIVER.format(
        here=str(tmp_path),
        train=train,
        restore=restore,
        streams=textwrap.indent(streams, "    "),
        inference=inference.replace("hdfs:///predictions", f"{tmp_path}/predictions"),
        imports=imports,
        cluster=cluster,
    )
    (tmp_path / "driver.py").write_text(source)
    tmp_path.chmod(0o777)
    home = f"TFAPP_HOME={tmp_path / 'home'}"
    printed = drivers.run("env", home, sys.executable, tmp_path / "driver.py", limit=900)
    found = json.loads(printed.splitlines()[-1])
    batches = 3 * 2000 // 128
    assert found["trained"] == [128 * batches, batches, 6000 - 128 * batches]
    assert found["losses"] == [1, 1]
    assert found["saved"][0] == found["saved"][3] == 100
    assert found["counted"] == found["right"] == 2000
    assert found["cluster"] == "SUCCEEDED"
