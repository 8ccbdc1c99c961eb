"""The digits, read by the programs: in the style of TensorFlowOnSpark's `mnist_tf.py`.

    spark-submit digits_tf.py --cluster_size 2 --model_dir /shared/digits

Lines that were changed for tfapp end in "# tfapp".
"""


def main_fun(args, ctx):
    """Runs on each node of the cluster."""
    import os

    os.environ["TF_USE_LEGACY_KERAS"] = "1"  # tfapp: Keras 3 has no fit() under this strategy
    import tensorflow as tf
    from sklearn.datasets import load_digits

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    images, labels = load_digits(return_X_y=True)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    ds = tf.data.Dataset.from_tensor_slices((images / 16.0, labels)).repeat()
    ds = ds.batch(args.batch_size).with_options(options)

    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(10, "softmax", input_shape=(64,))])
        model.compile(
            loss=tf.keras.losses.sparse_categorical_crossentropy,
            optimizer=tf.keras.optimizers.SGD(learning_rate=args.learning_rate),
            metrics=["accuracy"],
        )
    # All workers take part in saving; the chief's is the one that counts.
    own = "" if ctx.job_name == "chief" else f"/worker-{ctx.task_index}"
    save = tf.keras.callbacks.ModelCheckpoint(
        f"{args.model_dir}{own}/weights-{{epoch:04d}}", save_weights_only=True
    )
    steps = len(labels) // args.batch_size
    model.fit(ds, epochs=args.epochs, steps_per_epoch=steps, callbacks=[save], verbose=2)


if __name__ == "__main__":
    import argparse

    from pyspark.sql import SparkSession

    from tfapp.tensorflowonspark import TFCluster  # tfapp

    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--cluster_size", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--learning_rate", type=float, default=0.5)
    parser.add_argument("--model_dir", required=True, help="seen by all nodes")
    parser.add_argument("--tensorboard", action="store_true")
    args = parser.parse_args()

    sc = SparkSession.builder.appName("digits_tf").getOrCreate().sparkContext
    cluster = TFCluster.run(
        sc,
        main_fun,
        args,
        args.cluster_size,
        num_ps=0,
        tensorboard=args.tensorboard,
        input_mode=TFCluster.InputMode.TENSORFLOW,
        log_dir=args.model_dir,
        master_node="chief",
        name="digits-tf",  # tfapp: for `tfapp status` and `tfapp logs`
        replace=True,  # tfapp
    )
    cluster.shutdown()
    sc.stop()
