"""Programs in the style of TensorFlowOnSpark's examples. They are shipped with this file."""

from __future__ import annotations


def collect(args, ctx):
    """Returns the ids that it got, and what it knows of its place."""
    from tfapp.tensorflowonspark import TFNode

    feed, ids, batches = TFNode.DataFeed(ctx.mgr), [], []
    while not feed.should_stop():
        rows = feed.next_batch(args.batch_size)
        ids += [int(row.id) for row in rows]
        batches.append(len(rows))
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


def export_late(args, ctx):
    """Fails long after the last row."""
    import time

    feed = ctx.get_data_feed()
    while not feed.should_stop():
        feed.next_batch(100)
    time.sleep(2)
    raise RuntimeError("the export failed")


def answer(args, ctx):
    """A label and a prediction for each row, but for the rows that are left out."""
    from tfapp.tensorflowonspark import TFNode

    feed = TFNode.DataFeed(ctx.mgr, train_mode=False, input_mapping={"x": "image", "y": "label"})
    while not feed.should_stop():
        batch = feed.next_batch(30)
        if len(batch["label"]):
            pairs = zip(batch["image"], batch["label"])
            results = [f"label {label}, sum {image.sum():g}" for image, label in pairs]
            feed.batch_results(results[args["left_out"] :])


def keras(args, ctx):
    """Keras under MultiWorkerMirroredStrategy, from a generator of single rows."""
    import os

    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    import numpy as np
    import tensorflow as tf

    from tfapp.tensorflowonspark import TFNode, compat

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    tf_feed = TFNode.DataFeed(ctx.mgr, False)

    def rdd_generator():
        while not tf_feed.should_stop():
            batch = tf_feed.next_batch(1)
            if len(batch) == 0:
                return
            image, label = batch[0]
            yield np.array(image).astype(np.float32) / 16.0, np.array([label]).astype(np.float32)

    shapes = (tf.TensorShape([64]), tf.TensorShape([1]))
    data = tf.data.Dataset.from_generator(rdd_generator, (tf.float32, tf.float32), shapes)
    options = tf.data.Options()
    compat.disable_auto_shard(options)
    data = data.batch(args.batch_size).with_options(options)
    with strategy.scope():
        layers = tf.keras.layers
        model = tf.keras.Sequential(
            [layers.Dense(32, "relu", input_shape=(64,)), layers.Dense(10, "softmax")]
        )
        model.compile(
            tf.keras.optimizers.SGD(0.2),
            tf.keras.losses.sparse_categorical_crossentropy,
            ["accuracy"],
        )
    steps = args.rows * args.epochs // args.batch_size // ctx.num_workers
    found = model.fit(data, epochs=4, steps_per_epoch=int(steps / 4 * 0.9), verbose=2)
    compat.export_saved_model(model, args.export_dir, ctx.job_name == "chief")
    tf_feed.terminate()
    return {"accuracy": float(found.history["accuracy"][-1])}


def keras_reads(args, ctx):
    """The same where the program reads its data itself. It takes words."""
    import os
    import sys

    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    import tensorflow as tf
    from sklearn.datasets import load_digits

    assert sys.argv == args == ["train", "--epochs", "3"]
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    images, labels = load_digits(return_X_y=True)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    data = tf.data.Dataset.from_tensor_slices((images / 16.0, labels)).repeat().batch(64)
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(10, "softmax", input_shape=(64,))])
        model.compile(tf.keras.optimizers.SGD(0.5), "sparse_categorical_crossentropy", ["accuracy"])
    fit = model.fit(data.with_options(options), epochs=int(args[2]), steps_per_epoch=28, verbose=2)
    return {"accuracy": float(fit.history["accuracy"][-1])}


def alone(args, ctx):
    """Knows of no cluster."""
    import os

    return {"id": ctx.worker_num, "of": ctx.num_workers, "config": os.environ.get("TF_CONFIG", "")}


def pipeline(args, ctx):
    """A stage of a pipeline: learns from the columns of its mapping, and exports."""
    import tensorflow as tf

    feed = ctx.get_data_feed(input_mapping=args.input_mapping)
    model = tf.keras.Sequential(
        [tf.keras.Input((8, 8), name="image"), tf.keras.layers.Flatten(), tf.keras.layers.Dense(10)]
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.Adam(0.01), loss)
    while not feed.should_stop():
        batch = feed.next_batch(args.batch_size)
        if len(batch["label"]):
            model.train_on_batch(batch["image"].reshape(-1, 8, 8) / 16.0, batch["label"])
    if ctx.task_index == 0:
        model.export(args.export_dir)


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
