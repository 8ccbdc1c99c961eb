"""A function of the Python call that opens URLs. What this module imports travels with it."""


def opens(ctx, folder):
    """And so does a child with another Python."""
    import subprocess
    import sys

    import tensorflow as tf

    with tf.io.gfile.GFile(f"{folder}/one", "w") as file:
        file.write("1")
    lists = "import sys, tensorflow as tf; print(tf.io.gfile.listdir(sys.argv[1]))"
    listed = subprocess.check_output([sys._base_executable, "-c", lists, folder], text=True)
    return [sys.prefix, listed.strip()]
