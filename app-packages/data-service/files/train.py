"""The program that the package runs until you bring your own: a straight line through noisy points,
which the data workers of tf.data service prepare.

It is plain TensorFlow, and runs without tfapp too: python train.py
"""

import os

import tensorflow as tf

EPOCHS, POINTS, BATCH = 10, 2048, 32
SERVICE = os.environ.get("TFAPP_DATA_SERVICE")  # grpc://host:port of the dispatcher


def point(number):
    """One example, as slow to make as you like: it runs on the data workers."""
    seed = tf.stack([number, 0])
    x = tf.random.stateless_uniform([1], seed, -1, 1)
    return x, 3 * x - 1 + tf.random.stateless_normal([1], seed, stddev=0.05)


# Every data worker takes the next part that is free, and each point comes once in an epoch.
data = tf.data.Dataset.range(POINTS).map(point, tf.data.AUTOTUNE).batch(BATCH)
if SERVICE:
    service = tf.data.experimental.service
    data = data.apply(service.distribute(service.ShardingPolicy.DYNAMIC, SERVICE))

folder = os.environ.get("TFAPP_CHECKPOINT_DIR", "checkpoints")
tf.keras.utils.set_random_seed(0)
model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,))])
model.compile(optimizer=tf.keras.optimizers.SGD(0.2), loss="mse")
backup = tf.keras.callbacks.BackupAndRestore(os.path.join(folder, "backup"))
model.fit(data.prefetch(tf.data.AUTOTUNE), epochs=EPOCHS, verbose=2, callbacks=[backup])
slope, intercept = (value.item() for value in model.get_weights())
print(f"y = {slope:.2f} x {intercept:+.2f} (drawn from y = 3.00 x -1.00)")
