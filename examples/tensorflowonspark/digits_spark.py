"""The digits, fed by Spark: a program in the style of TensorFlowOnSpark's `mnist_spark.py`.

    spark-submit digits_spark.py --cluster_size 2 --export_dir /shared/digits

Lines that were changed for tfapp end in "# tfapp".
"""


def main_fun(args, ctx):
    """Runs on each node of the cluster."""
    import os

    os.environ["TF_USE_LEGACY_KERAS"] = "1"  # tfapp: Keras 3 has no fit() under this strategy
    import numpy as np
    import tensorflow as tf

    from tfapp.tensorflowonspark import TFNode, compat  # tfapp

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    tf_feed = TFNode.DataFeed(ctx.mgr, False)

    def rdd_generator():
        while not tf_feed.should_stop():
            batch = tf_feed.next_batch(1)
            if len(batch) > 0:
                image, label = batch[0]
                yield np.array(image).astype(np.float32) / 16.0, np.array([label], np.float32)
            else:
                return

    ds = tf.data.Dataset.from_generator(
        rdd_generator, (tf.float32, tf.float32), (tf.TensorShape([64]), tf.TensorShape([1]))
    )
    options = tf.data.Options()
    compat.disable_auto_shard(options)
    ds = ds.batch(args.batch_size).with_options(options)

    # tfapp: every worker gets as many rows, so there is no need to stop at 90 % of the steps.
    steps = args.rows * args.epochs // ctx.num_workers // args.batch_size

    with strategy.scope():
        layers = tf.keras.layers
        model = tf.keras.Sequential(
            [layers.Dense(32, "relu", input_shape=(64,)), layers.Dense(10, "softmax")]
        )
        model.compile(
            loss=tf.keras.losses.sparse_categorical_crossentropy,
            optimizer=tf.keras.optimizers.SGD(learning_rate=args.learning_rate),
            metrics=["accuracy"],
        )
    model.fit(x=ds, epochs=args.reports, steps_per_epoch=steps // args.reports, verbose=2)
    compat.export_saved_model(model, args.export_dir, ctx.job_name == "chief")
    tf_feed.terminate()


if __name__ == "__main__":
    import argparse

    from pyspark.sql import SparkSession
    from sklearn.datasets import load_digits

    from tfapp.tensorflowonspark import TFCluster  # tfapp

    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--cluster_size", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--reports", type=int, default=4, help="how often fit() says something")
    parser.add_argument("--learning_rate", type=float, default=0.2)
    parser.add_argument("--export_dir", required=True, help="seen by all nodes")
    parser.add_argument("--tensorboard", action="store_true")
    args = parser.parse_args()

    sc = SparkSession.builder.appName("digits_spark").getOrCreate().sparkContext
    digits = load_digits()
    args.rows = len(digits.target)
    pairs = [(image.tolist(), int(label)) for image, label in zip(digits.data, digits.target)]
    images_labels = sc.parallelize(pairs, 7).persist()

    cluster = TFCluster.run(
        sc,
        main_fun,
        args,
        args.cluster_size,
        num_ps=0,
        tensorboard=args.tensorboard,
        input_mode=TFCluster.InputMode.SPARK,
        master_node="chief",
        name="digits-spark",  # tfapp: for `tfapp status` and `tfapp logs`
        replace=True,  # tfapp
    )
    cluster.train(images_labels, args.epochs)
    cluster.shutdown()
    sc.stop()
