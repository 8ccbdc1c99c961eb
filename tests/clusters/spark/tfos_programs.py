"""Programs in the style of TensorFlowOnSpark's examples. They are shipped with this file."""


def collect(args, ctx):
    """Returns the ids that it got, and what it knows of its place."""
    import os
    import time
    from pathlib import Path

    from tfapp.tensorflowonspark import TFNode

    if getattr(args, "pids", ""):
        Path(args.pids, f"pid-{ctx.task_index}").write_text(str(os.getpid()))
    feed, ids, batches = TFNode.DataFeed(ctx.mgr), [], []
    while not feed.should_stop():
        rows = feed.next_batch(args.batch_size)
        ids += [int(row.id) for row in rows]
        batches.append(len(rows))
        time.sleep(args.pause)
        if args.stop_after and len(ids) >= args.stop_after:
            feed.terminate()
            assert feed.next_batch(1) == []
    return {
        "ids": ids,
        "short": sum(size < args.batch_size for size in batches),
        "place": [ctx.executor_id, ctx.job_name, ctx.task_index, ctx.num_workers],
        "cluster": {name: len(addresses) for name, addresses in ctx.cluster_spec.items()},
        "paths": [ctx.absolute_path("/a/b"), ctx.absolute_path("hdfs://x/y")],
    }


def end_badly(args, ctx):
    """Node 1 fails after 200 rows, or all long after the last row."""
    import time

    feed, rows = ctx.get_data_feed(), 0
    while not feed.should_stop():
        rows += len(feed.next_batch(50))
        if ctx.task_index == 1 and rows >= 200 and args.how == "raises":
            raise RuntimeError("the batch is bad")
    time.sleep(2)
    raise RuntimeError("the export failed")


def answer(args, ctx):
    """A label and a prediction for each row, but for the rows that are left out. An array has the
    results, as in TensorFlowOnSpark's own examples."""
    import numpy as np

    from tfapp.tensorflowonspark import TFNode

    feed = TFNode.DataFeed(ctx.mgr, train_mode=False, input_mapping={"x": "image", "y": "label"})
    while not feed.should_stop():
        batch = feed.next_batch(30)
        if len(batch["label"]):
            pairs = zip(batch["image"], batch["label"])
            results = [f"label {label}, sum {image.sum():g}" for image, label in pairs]
            if args["fails"]:
                raise ValueError("the model is bad")
            feed.batch_results(np.array(results[args["left_out"] :]))


def alone(args, ctx):
    """Knows of no cluster."""
    import os
    import sys

    return {
        "id": ctx.worker_num,
        "of": ctx.num_workers,
        "config": os.environ.get("TF_CONFIG", ""),
        "words": sys.argv[1:],
    }


def pipeline(args, ctx):
    """A stage of a pipeline: learns from the columns of its mapping, and exports."""
    import sys

    sys.modules.setdefault("sklearn", None)  # Keras would load it, which takes long
    import tensorflow as tf

    from tfapp.tensorflowonspark import compat

    feed = ctx.get_data_feed(input_mapping=args.input_mapping)
    model = tf.keras.Sequential(
        [
            tf.keras.Input((8, 8), name="image"),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(10, name="dense"),
        ]
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.Adam(0.01), loss)
    while not feed.should_stop():
        batch = feed.next_batch(args.batch_size)
        if len(batch["label"]):
            model.train_on_batch(batch["image"].reshape(-1, 8, 8) / 16.0, batch["label"])
    compat.export_saved_model(model, args.export_dir, ctx.job_name == "chief")


def estimator(args, ctx):
    """An Estimator of TensorFlow 2.15, with a hook that ends the feed."""
    import numpy as np
    import tensorflow as tf

    from tfapp.tensorflowonspark import TFNode

    tf_feed = TFNode.DataFeed(ctx.mgr)

    def rows():
        while not tf_feed.should_stop():
            for image, label in tf_feed.next_batch(32):
                yield np.asarray(image, np.float32) / 16.0, np.asarray([label], np.int64)

    def input_fn():
        shapes = (tf.TensorShape([64]), tf.TensorShape([1]))
        data = tf.data.Dataset.from_generator(rows, (tf.float32, tf.int64), shapes)
        return data.map(lambda image, label: ({"image": image}, label)).batch(32)

    class StopFeed(tf.estimator.SessionRunHook):
        def end(self, session):
            tf_feed.terminate()
            tf_feed.next_batch(1)

    columns = [tf.feature_column.numeric_column("image", shape=(64,))]
    classifier = tf.estimator.LinearClassifier(columns, model_dir=args.model_dir, n_classes=10)
    classifier.train(input_fn, hooks=[StopFeed()], max_steps=args.steps)
    return {"steps": int(classifier.get_variable_value("global_step"))}
