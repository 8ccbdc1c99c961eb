"""Handwritten digits, learned by one program: the chief's.

Workers and parameter servers are standard TensorFlow servers. The variables are on the parameter
servers; the chief hands out steps to whichever worker is free.
"""

import argparse

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

TEST_IMAGES = 360
BATCH = 64


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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint-dir", required=True)
    parser.add_argument("--epochs", type=int, default=10)
    args = parser.parse_args()

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    (images, labels), test = digits()
    with strategy.scope():
        weights = tf.Variable(tf.zeros((64, 10)))
        bias = tf.Variable(tf.zeros((10,)))
        epoch = tf.Variable(0, dtype=tf.int64)

    def batches():
        data = tf.data.Dataset.from_tensor_slices((images, labels))
        return data.shuffle(len(images)).repeat().batch(BATCH)

    @tf.function
    def step(iterator):
        batch, target = next(iterator)
        with tf.GradientTape() as tape:
            logits = tf.matmul(batch, weights) + bias
            loss = tf.nn.sparse_softmax_cross_entropy_with_logits(target, logits)
        for variable, gradient in zip((weights, bias), tape.gradient(loss, (weights, bias))):
            variable.assign_sub(0.5 / BATCH * gradient)

    checkpoint = tf.train.Checkpoint(weights=weights, bias=bias, epoch=epoch)
    manager = tf.train.CheckpointManager(checkpoint, args.checkpoint_dir, max_to_keep=3)
    if manager.restore_or_initialize():
        print(f"going on from {manager.latest_checkpoint}")
    iterator = iter(coordinator.create_per_worker_dataset(batches))
    while epoch.numpy() < args.epochs:
        for _ in range(len(images) // BATCH):
            coordinator.schedule(step, args=(iterator,))
        coordinator.join()
        epoch.assign_add(1)
        manager.save()
    found = tf.argmax(test[0] @ weights.numpy() + bias.numpy(), axis=1).numpy()
    print(f"test accuracy {(found == test[1]).mean():.3f}")


if __name__ == "__main__":
    main()
