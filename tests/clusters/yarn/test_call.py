"""The Python call on the real cluster: a plain function, and a program of tf-yarn's style with the
TensorFlow that it brings. Scripts, modules and failures: tests/api/test_run.py. A Keras experiment
that loses a worker: tests/program/test_trainings.py."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests import python_environments
from tests.program.digits import write_digits

LIMIT = 1400.0

pytestmark = [
    pytest.mark.usefixtures("nothing_left"),
    pytest.mark.trains,
    pytest.mark.timeout(1500),  # 300 MiB of TensorFlow travel to each node
]

PLAIN = """
import json
import sys
import tfapp
import own_words

def train(context):
    context.report(loss=0.25, step=7)
    print("hello from", context.instance, flush=True)
    return {"word": own_words.WORD, "hosts": sorted({m.host for m in context.members})}

if __name__ == "__main__":
    components = tfapp.all_reduce(2, "512 MiB")
    more = {"engine": "yarn", "name": "called", "checkpoints": sys.argv[1], "show": False}
    application = tfapp.submit(train, components, **more)
    found = tfapp.open("called", "yarn")
    result = found.result()
    print(json.dumps({
        "id": [application.id, found.id, result.id],
        "returned": dict(result.returned),
        "metrics": result.metrics,
        "step": result.instances["worker/1"].step,
        "log": result.logs["worker/1"],
        "exports": sorted(result.exports),
        "seconds": result.instances["worker/0"].seconds,
        "folder": result.checkpoint_dir,
    }))
    found.destroy()
"""

# As a program of tf-yarn has it, with nothing but the import line changed.
SEED = """
import os
import sys
from tfapp.tf_yarn import Experiment, TaskSpec, run_on_yarn

MODEL_DIR = os.path.join(sys.argv[1], "seed")

def experiment_fn():
    import numpy as np
    import tensorflow as tf
    found = np.load("digits.npz")
    columns = [tf.feature_column.numeric_column("x", shape=(64,))]
    config = tf.estimator.RunConfig(MODEL_DIR, save_checkpoints_steps=50)
    estimator = tf.estimator.LinearClassifier(columns, n_classes=10, config=config)

    def rows(part):
        data = ({"x": found[f"{part}_x"]}, found[f"{part}_y"])
        return tf.data.Dataset.from_tensor_slices(data).batch(64)

    return Experiment(
        estimator,
        tf.estimator.TrainSpec(lambda: rows("train").shuffle(1500).repeat(), max_steps=100),
        tf.estimator.EvalSpec(lambda: rows("test"), steps=None, start_delay_secs=0,
                              throttle_secs=1),
    )

if __name__ == "__main__":
    metrics = run_on_yarn(
        experiment_fn,
        task_specs={
            "chief": TaskSpec(memory=2 * 2**10, vcores=1),
            "evaluator": TaskSpec(memory=2**10, vcores=1),
        },
        pip_packages=[PACKAGES],
        files={"digits.npz": "digits.npz"},
    )
    print("trained for", metrics.total_training_duration.total_seconds())
"""


@pytest.fixture
def python(user, tmp_path):
    """Calls a script as its user does."""
    python_environments.share_with_estimators(user.home)
    (tmp_path / "own_words.py").write_text("WORD = 'mine'\n")
    write_digits(tmp_path)
    models = tmp_path / "models"
    models.mkdir()

    def call(name: str, source: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / name).write_text(source)
        environ = {**user.environ, "TFAPP_HOME": str(user.home)}
        command = [sys.executable, name, str(models)]
        return subprocess.run(
            command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=LIMIT
        )

    return call


def test_programs_of_every_kind(python, tmp_path):
    """At the same time, to save some."""
    seed = SEED.replace("PACKAGES", repr(python_environments.WITH_ESTIMATORS))
    sources = {"plain.py": PLAIN, "seed.py": seed}
    with ThreadPoolExecutor() as pool:
        calls = {name: pool.submit(python, name, source) for name, source in sources.items()}
    done = {name: call.result() for name, call in calls.items()}
    for name, one in done.items():
        assert one.returncode == 0, f"{name}: {one.stdout}\n{one.stderr}"

    (line,) = [line for line in done["plain.py"].stdout.splitlines() if line.startswith("{")]
    told = json.loads(line)
    assert len(set(told["id"])) == 1
    assert {one["word"] for one in told["returned"].values()} == {"mine"}
    assert set(told["returned"]) == {"worker/0", "worker/1"}
    assert all(host.startswith("127.0.0.") for host in told["returned"]["worker/0"]["hosts"])
    assert (told["metrics"], told["step"]) == ({"loss": 0.25}, 7)
    assert "hello from worker/1" in told["log"]
    assert told["exports"] == ["worker/0", "worker/1"]
    assert told["seconds"] > 0
    assert told["folder"] == str(tmp_path / "models" / "called")

    assert "trained for" in done["seed.py"].stdout
    assert list((tmp_path / "models" / "seed").glob("model.ckpt-100*"))
    assert list((tmp_path / "models" / "seed" / "eval").glob("events.out.tfevents.*"))
