"""Models that are exported have the names that their users know."""

import json

import pytest

from tests import programs

PROGRAM = """
import json
import sys

import keras
import tensorflow as tf
import tf_keras

from tfapp.tensorflowonspark import compat


class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(2)

    def call(self, values):
        return self.dense(values)


def sequential(made):
    layers = [made.layers.Input((8,), name="image"), made.layers.Dense(2, name="scores")]
    return made.Sequential(layers)


def functional(made, outputs):
    image = made.layers.Input((8,), name="image")
    found = [made.layers.Dense(size, name=name)(image) for name, size in (("a", 1), ("b", 2))]
    return made.Model(image, outputs(found))


own = Own()
own(tf.ones((1, 8)))
models = {
    "tf_keras": sequential(tf_keras),
    "keras": sequential(keras),
    "two outputs": functional(keras, lambda found: found),
    "own names": functional(keras, lambda found: dict(zip("pq", found))),
    "a subclass": own,
}
told = {}
for name, model in models.items():
    folder = f"{sys.argv[1]}/{name}"
    compat.export_saved_model(model, folder, is_chief=False)
    assert not tf.io.gfile.exists(folder)
    compat.export_saved_model(model, folder, is_chief=True)
    signature = tf.saved_model.load(folder).signatures["serving_default"]
    told[name] = [
        sorted(names) for names in (signature.structured_input_signature[1],
                                    signature.structured_outputs)
    ]
print(json.dumps(told))
"""


@pytest.mark.trains
def test_outputs_have_the_names_of_their_layers(tmp_path):
    """With Keras 2 and 3. The programs that serve a model of TensorFlowOnSpark name them so."""
    printed = programs.printed("-c", PROGRAM, tmp_path)
    assert json.loads(printed.splitlines()[-1]) == {
        "tf_keras": [["image"], ["scores"]],
        "keras": [["image"], ["scores"]],
        "two outputs": [["image"], ["a", "b"]],
        "own names": [["image"], ["p", "q"]],
        "a subclass": [["args_0"], ["output_0"]],
    }
