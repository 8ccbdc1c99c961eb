"""Handwritten digits, learned with variables on parameter servers.

Plain TensorFlow: every task runs this program and finds its part in TF_CONFIG. The chief hands
out the steps, the workers compute them, the parameter servers hold the variables; the evaluator
stands beside the cluster and measures each checkpoint.
"""

import argparse
import os

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

TEST_IMAGES = 360


def digits():
    """((images, labels) to train with, the same to test with), shuffled."""
    data = load_digits()
    order = np.random.default_rng(seed=0).permutation(len(data.data))
    images = (data.data[order] / 16.0).astype("float32")
    labels = data.target[order].astype("int64")
    return (
        (images[TEST_IMAGES:], labels[TEST_IMAGES:]),
        (images[:TEST_IMAGES], labels[:TEST_IMAGES]),
    )


def build_model():
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Dense(64, activation="relu", input_shape=(64,)),
            tf.keras.layers.Dense(10),
        ]
    )
    model.compile(
        optimizer=tf.keras.optimizers.Adam(2e-3),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def serve(resolver):
    """A worker or parameter server: works until it is ended from outside."""
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id
    )
    server.join()


def evaluate(args):
    """The evaluator: measures checkpoints as they appear, up to that of the last epoch."""
    _, test = digits()
    model = build_model()
    model.optimizer.build(model.trainable_variables)  # so that a checkpoint fits it
    tf.keras.utils.SidecarEvaluator(
        model=model,
        data=tf.data.Dataset.from_tensor_slices(test).batch(TEST_IMAGES),
        checkpoint_dir=args.checkpoint_dir,
        max_evaluations=args.epochs,
        callbacks=[tf.keras.callbacks.TensorBoard(os.path.join(args.checkpoint_dir, "evaluation"))],
    ).start()


def train(resolver, args):
    """The chief: trains from the newest checkpoint on, then tells what was reached."""
    tf.keras.utils.set_random_seed(0)
    train_data, test = digits()
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    with strategy.scope():
        model = build_model()
    newest = tf.train.latest_checkpoint(args.checkpoint_dir)
    if newest:
        print(f"going on from {newest}")
        model.load_weights(newest).expect_partial()
    examples = len(train_data[0])
    dataset = tf.data.Dataset.from_tensor_slices(train_data).shuffle(examples, seed=0)
    model.fit(
        dataset.repeat().batch(args.batch_size),
        initial_epoch=int(newest.rpartition("-")[2]) if newest else 0,
        epochs=args.epochs,
        steps_per_epoch=examples // args.batch_size,
        callbacks=[
            tf.keras.callbacks.ModelCheckpoint(
                os.path.join(args.checkpoint_dir, "ckpt-{epoch}"), save_weights_only=True
            )
        ],
        verbose=2,
    )

    # The test set is small: the chief measures it alone, on a copy of its own.
    trained = build_model()
    trained.set_weights(model.get_weights())
    _, accuracy = trained.evaluate(*test, batch_size=TEST_IMAGES, verbose=0)
    print(f"test accuracy {accuracy:.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint-dir", required=True, help="a folder that all tasks see")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=32)
    args = parser.parse_args()

    tf.get_logger().setLevel("ERROR")  # every saved checkpoint would warn of retracing
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        serve(resolver)
    elif resolver.task_type == "evaluator":
        evaluate(args)
    else:
        train(resolver, args)


if __name__ == "__main__":
    main()
