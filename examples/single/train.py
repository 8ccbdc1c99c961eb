"""Handwritten digits, learned by one process with a custom training loop."""

import argparse

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

TEST_IMAGES = 360


def digits():
    """((images, labels) to train with, the same to test with), shuffled."""
    data = load_digits()
    order = np.random.default_rng(seed=0).permutation(len(data.data))
    images = (data.data[order] / 16.0).astype("float32")
    labels = data.target[order].astype("int32")
    return (
        (images[TEST_IMAGES:], labels[TEST_IMAGES:]),
        (images[:TEST_IMAGES], labels[:TEST_IMAGES]),
    )


class Classifier(tf.Module):
    """One hidden layer."""

    def __init__(self, inputs=64, hidden=64, classes=10):
        super().__init__()
        self.hidden = tf.Variable(tf.random.normal([inputs, hidden], stddev=0.1, seed=1))
        self.hidden_bias = tf.Variable(tf.zeros([hidden]))
        self.output = tf.Variable(tf.random.normal([hidden, classes], stddev=0.1, seed=2))
        self.output_bias = tf.Variable(tf.zeros([classes]))

    @tf.function(reduce_retracing=True)
    def __call__(self, images):
        hidden = tf.nn.relu(images @ self.hidden + self.hidden_bias)
        return hidden @ self.output + self.output_bias

    @tf.function(reduce_retracing=True)
    def learn(self, images, labels, rate):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, self(images))
            loss = tf.reduce_mean(losses)
        variables = self.trainable_variables
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(rate * gradient)
        return loss


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint-dir", required=True)
    parser.add_argument("--epochs", type=int, default=20)
    args = parser.parse_args()

    tf.random.set_seed(0)
    (images, labels), (test_images, test_labels) = digits()
    training = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(2000, seed=0).batch(32)
    model = Classifier()
    epoch = tf.Variable(0)
    checkpoint = tf.train.Checkpoint(model=model, epoch=epoch)
    manager = tf.train.CheckpointManager(checkpoint, args.checkpoint_dir, max_to_keep=1)
    if manager.restore_or_initialize():
        print(f"going on after epoch {int(epoch)}")
    while int(epoch) < args.epochs:
        for batch, batch_labels in training:
            loss = model.learn(batch, batch_labels, tf.constant(0.2))
        epoch.assign_add(1)
        manager.save()
        print(f"epoch {int(epoch)}/{args.epochs}: loss {float(loss):.3f}")

    predicted = tf.argmax(model(test_images), axis=1).numpy()
    print(f"test accuracy {np.mean(predicted == test_labels):.3f}")


if __name__ == "__main__":
    main()
